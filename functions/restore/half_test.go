package restore

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit/build"
)

// TestI8RollbackDoesNotCreateTheSetForEver: a rollback to 128Mi, whose claim (64Mi) is frozen and cannot get its old volume back:
// the set gets templates of 64Mi first (oldTemplates), and must keep them until the claim's name is given away. recreates() puts
// 128Mi back at once, whatever the generation.
func TestI8RollbackDoesNotCreateTheSetForEver(t *testing.T) {
	const (
		order    = "do SwitchRunning: patch controllerrevisions drydock-0123456789ab {+recreate, +set-metadata}"
		reserved = "do SwitchRunning: patch persistentvolumes pv-data-web-0 {+claim, reserved for data-web-0}"
	)
	for name, situation := range map[string]struct {
		phase api.ClaimPhase
		fresh objects
	}{
		"somebody has bound the volume in the last moment": {api.ClaimVerified, returning(build.TakenBy("debug", "uid-debug"))},
		"its link is lost": {api.ClaimVerified, returning(unlinked())},
		"it is gone":       {api.ClaimVerified, nil},
		"held, the marked claim was deleted by hand, retry; all is mended": {api.ClaimPending, returning()},
	} {
		t.Run(name, func(t *testing.T) {
			status := with(switchingOf(web0), regret, recreating, func(s *api.Resize) { s.Claims[0].Phase = situation.phase })
			if p := Decide(world(set(status), regrettedJournal(), doomed(web0), situation.fresh)); p.String() != order {
				t.Fatalf("first look: %s", p) // templates of 128Mi -> 64Mi
			}
			again := with(status.Clone(), func(s *api.Resize) { s.Generation = never }) // as recordIdentity leaves it
			if p := Decide(world(fitting(again), regrettedJournal(), doomed(web0), situation.fresh)); p.String() != reserved {
				t.Errorf("templates of 64Mi -> 128Mi again, and so on: %s", p)
			}
		})
	}
}

// TestI1RollbackKeepsTemplatesThatFitWhatIsReserved: also once the name is reserved for the present volume. With templates of 128Mi
// the set's controller would make a claim that the volume of 64Mi does not fit, and be given a new, empty one.
func TestI1RollbackKeepsTemplatesThatFitWhatIsReserved(t *testing.T) {
	status := with(switchingOf(web0), regret, recreating, func(s *api.Resize) { s.Generation = never })
	going := doomed(web0)
	build.Reserved(manifest(web0, old0, "64Mi"))(going[1])
	p := Decide(world(fitting(status), regrettedJournal(), going, returning(build.TakenBy("debug", "uid-debug"))))
	if strings.Contains(p.String(), "recreate") {
		t.Errorf("%s", p)
	}
}

// TestI1UndoOfHalfARollbackDoesNotMixTimes: the set is deleted while half of a rollback is done. Claim 0 has its old volume back;
// the frozen claim 1 must go the same way: a mixture of times is what the set that is applied again would start on.
func TestI1UndoOfHalfARollbackDoesNotMixTimes(t *testing.T) {
	journal := objects{build.Journal(build.Operation(api.Switching, build.Parts(api.ClaimPending, web0, web1), regret))}
	claim := successor(web0, new0, "128Mi")
	back0 := append(oldVolume(web0), claim, build.Volume(new0, claim, build.Held(api.RoleReturning, web0)))
	comes1 := objects{build.Volume("pv-new-"+web1, build.Claim(web1, "128Mi"), build.Released(), build.Held(api.RoleReturning, web1))}
	p := Decide(world(journal, back0, doomed(web1), comes1))
	if strings.Contains(p.String(), "pv-data-web-1 {+claim") {
		t.Errorf("claim 0 has the data of before, claim 1 is given that of now: %s", p)
	}
	// An unfrozen claim 1: nothing can be done to it, but people must not be told that all is well.
	for _, r := range journal {
		in := world(objects{r}, objects{build.Claim(web0, "128Mi", build.On(new0)), build.Claim(web1, "64Mi")})
		in.Volumes[new0] = build.VolumeOf(in.Claim(web0))
		in.Volumes["pv-"+web1] = build.VolumeOf(in.Claim(web1))
		if p := Decide(in); strings.Contains(p.String(), "every claim is whole") {
			t.Errorf("half a rollback is told as undone: %s", p)
		}
	}
}

// TestI3OrderIsWithdrawnWhileTheSetIsNotAtRest: the order to create the set was stored, then somebody scaled the set up, so the
// delete met a conflict. While atRest waits for the pods, the order must not stand: who deletes the set now would get it back, as it
// was before their edits.
func TestI3OrderIsWithdrawnWhileTheSetIsNotAtRest(t *testing.T) {
	status := with(switchingOf(web0), regret, recreating, func(s *api.Resize) { s.Templates[0].Size = resource.MustParse("64Mi") })
	at := set(status, build.Generation(7))
	revision := regrettedJournal()
	build.Annotation(api.RecreateAnnotation, api.EncodeManifest(resources.MakeHeldSet(build.Raw(build.Set("web", zero, build.Template("data", "128Mi", "fixed"))), status.Templates, status)))(revision[0])
	pod := objects{build.PodOf("web", 0, "data")}
	if p := Decide(world(at, revision, source(web0), returning(), pod)); !strings.Contains(p.String(), "-recreate") {
		t.Errorf("the order stands while pods are waited for: %s", p)
		if p := Decide(world(revision, source(web0), returning(), pod)); strings.Contains(p.String(), "create statefulsets") {
			t.Errorf("and the set that somebody has deleted meanwhile comes back: %s", p)
		}
	}
}

// TestI1SwitchedClaimDeletedByHandGoesForward: a claim that has its old volume back was deleted by hand (half a rollback is held,
// people try to mend it). Its name must go to the volume that it was on, not to the one that was given up: from there nothing leads
// on, and retry neither.
func TestI1SwitchedClaimDeletedByHandGoesForward(t *testing.T) {
	status := with(build.Operation(api.Switching, build.Parts(api.ClaimSwitched, web0), build.Quiet(5), build.Due(time.Minute)), regret)
	p := Decide(world(set(status), regrettedJournal(), oldVolume(web0), returning()))
	if !strings.Contains(p.String(), "persistentvolumes pv-new-data-web-0 {+claim") {
		t.Errorf("%s", p)
	}
	// where that leads: the claim is on the given-up volume, settled by the document, so it is never switched again
	given := successor(web0, old0, "64Mi")
	stuck := Decide(world(set(status), regrettedJournal(), returning(), objects{given, build.Volume(old0, given, build.Held(api.RoleSource, web0))}))
	if stuck.Reason == api.StartedByOthers {
		t.Errorf("round after round, then held, then retry, and again: %s", stuck)
	}
}

// TestI8SwitchedClaimDoesNotNeedWhatItHasGivenUp: of a claim that is on its new volume the other one is not needed: nobody may wait
// for it to exist.
func TestI8SwitchedClaimDoesNotNeedWhatItHasGivenUp(t *testing.T) {
	status := with(build.Operation(api.Switching, build.Parts(api.ClaimSwitched, web0), build.Quiet(5), build.Due(time.Minute)), regret)
	claim := successor(web0, new0, "128Mi")
	p := Decide(world(set(status), regrettedJournal(), objects{claim, build.Volume(new0, claim, build.Held(api.RoleReturning, web0))}))
	if p.Kind == plan.KindWait {
		t.Errorf("%s", p)
	}
}

// TestI1DyingCopyIsNotGiven: the temporary claim is gone before the copy was set to Retain: whoever provisioned the volume deletes
// it. A frozen claim must get what is there for sure.
func TestI1DyingCopyIsNotGiven(t *testing.T) {
	dying := objects{build.Volume(new0, build.Target(copy0, web0, "128Mi", 1), build.Released(), build.Edit(func(v *corev1.PersistentVolume) {
		at := metav1.NewTime(build.Now)
		v.DeletionTimestamp, v.Finalizers = &at, []string{"external-provisioner.volume.kubernetes.io/finalizer"}
	}))}
	if p := Decide(world(fitting(switchingOf(web0)), journalOf(web0), doomed(web0), dying)); strings.Contains(p.String(), new0) {
		t.Errorf("give: %s", p)
	}
	if p := Decide(world(fitting(switchingOf(web0)), journalOf(web0), source(web0), dying)); strings.Contains(p.String(), new0) {
		t.Errorf("freeze: %s", p)
	}
}
