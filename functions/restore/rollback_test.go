package restore

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// regret has the operation put volume pv-new-CLAIM back behind each claim.
func regret(s *api.Resize) {
	s.Kind = api.KindRollback
	for i := range s.Claims {
		s.Claims[i].Method, s.Claims[i].NewVolume = api.MethodRollback, "pv-new-"+s.Claims[i].Name
	}
}

// returning is the volume that comes back, held as backup leaves it.
func returning(options ...build.Option) objects {
	return objects{build.Volume(new0, build.Claim(web0, "128Mi"), append([]build.Option{build.Released(), build.Held(api.RoleReturning, web0)}, options...)...)}
}

// unlinked has lost what says why it is held, but for the label.
func unlinked() build.Option {
	return build.Edit(func(v *corev1.PersistentVolume) { delete(v.Annotations, api.OperationAnnotation) })
}

func regrettedJournal() objects {
	return objects{build.Journal(build.Operation(api.Copying, build.Parts(api.ClaimPending, web0), regret))}
}

// fitting is the set at zero whose templates fit what its claims have.
func fitting(status *api.Resize, options ...build.Option) objects {
	return objects{build.Set("web", append([]build.Option{zero, build.Template("data", "64Mi", "fixed"), build.Status(status)}, options...)...)}
}

func TestI1SwitchToAnOldVolume(t *testing.T) {
	status := set(with(switchingOf(web0), regret))
	fresh := manifest(web0, new0, "128Mi")
	const again = `do StartedByOthers: patch statefulsets web {+status}; event StartedByOthers "the set was changed before the switch; what is not switched is copied again" -> owner.paused`
	const disagrees = `do StatusInvalid: patch statefulsets web {+status}; event StatusInvalid "the annotation drydock.dev/status does not agree with the journal: ` +
		`ControllerRevision drydock-0123456789ab does not name claim data-web-0 on volume pv-data-web-0. No volume was touched. ` +
		`Remove the annotation: the operation is then undone as its journal says" -> operation.failed`
	const given = "Failed StatusInvalid at Switching, attempt 1, round 1, generation 5, replicas 3; data-web-0 Verified on pv-new-data-web-0"
	const next = "Copying StartedByOthers, attempt 1, round 2, generation 0, replicas 3, due in 20h0m0s; data-web-0 Pending on pv-new-data-web-0"
	check(t, map[string]row{
		"it is held already: the claim is marked":  {in: world(status, regrettedJournal(), source(web0), returning()), want: "do SwitchRunning: patch persistentvolumeclaims data-web-0 {+finalizer switch}"},
		"the frozen claim's name is given to it":   {in: world(status, regrettedJournal(), doomed(web0), returning()), want: "do SwitchRunning: patch persistentvolumes pv-new-data-web-0 {+claim, reserved for data-web-0}"},
		"it is reserved: the claim goes":           {in: world(status, regrettedJournal(), doomed(web0), returning(build.Reserved(fresh))), want: "do SwitchRunning: patch persistentvolumeclaims data-web-0 {-finalizer switch}; create persistentvolumeclaims data-web-0"},
		"somebody was quicker, and it is reserved": {in: world(status, regrettedJournal(), oldVolume(web0), returning(build.Reserved(fresh))), want: "do SwitchRunning: create persistentvolumeclaims data-web-0"},
		"I1: a replica was wanted: what it has written is given up, too, and no claim goes another way than the others": {
			in:   world(fitting(with(switchingOf(web0), regret), build.Generation(6)), regrettedJournal(), doomed(web0), returning()),
			want: "do SwitchRunning: patch persistentvolumes pv-new-data-web-0 {+claim, reserved for data-web-0}"},
		"somebody has bound it: not begun, the volume stays named": {in: world(status, regrettedJournal(), source(web0), returning(build.TakenBy("debug", "uid-debug"))), want: again, next: next},
		"I1: somebody has bound it in the last moment: it is not taken away from them": {in: world(fitting(with(switchingOf(web0), regret)), regrettedJournal(), doomed(web0), returning(build.TakenBy("debug", "uid-debug"))),
			want: "do SwitchRunning: patch persistentvolumes pv-data-web-0 {+claim, reserved for data-web-0}"},
		"I1: its link is lost: it is not made a copy, which could be thrown away": {in: world(status, regrettedJournal(), source(web0), returning(unlinked())), want: again, next: next},
		"I3: a document that calls it a copy": {in: world(set(switchingOf(web0)), regrettedJournal(), source(web0), returning()),
			want: disagrees, next: given},
		"I3: or an old volume in its window": {in: world(set(switchingOf(web0)), regrettedJournal(), source(web0), returning(build.Held(api.RoleRetired, web0))),
			want: disagrees, next: given},
	})
}

// TestI1OldVolumeIsNeverThrownAway: however a rollback ends, and whatever is forged or lost.
func TestI1OldVolumeIsNeverThrownAway(t *testing.T) {
	back := func(phase api.ClaimPhase, options ...func(*api.Resize)) objects {
		return append(set(rollingBackOf(phase, append([]func(*api.Resize){regret}, options...)...), build.Replicas(3)), regrettedJournal()...)
	}
	forged := append(set(rollingBackOf(api.ClaimVerified), build.Replicas(3)), regrettedJournal()...) // it says nothing of a rollback
	ended := append(set(startingOf(ready, regret), build.Replicas(3)), regrettedJournal()...)
	claimed := func(options ...build.Option) objects {
		claim := successor(web0, new0, "128Mi", options...)
		return append(oldVolume(web0), claim, build.Volume(new0, claim, build.Held(api.RoleReturning, web0)))
	}
	going := build.Claim(web0, "64Mi", build.Deleting(), build.Link(api.RoleSource, web0, 0))
	const (
		unlink   = "patch persistentvolumeclaims data-web-0 {-label operation, -operation}; "
		released = "patch persistentvolumes pv-data-web-0 {-label operation, -operation, -reclaim-policy, reclaim Delete}"
		oldKept  = "patch persistentvolumes pv-data-web-0 {+operation, +retained-until}"
		kept     = "patch persistentvolumes pv-new-data-web-0 {+operation, +retained-until}"
		back0    = "patch persistentvolumes pv-new-data-web-0 {-label operation, -operation, -reclaim-policy, reclaim Delete}"
		all      = "do CleaningUp: "
	)
	rows := map[string]row{
		"it is undone: it has a window again":                               {in: world(back(api.ClaimPending), source(web0), returning()), want: all + unlink + released + "; " + kept},
		"also when it was about to be switched":                             {in: world(back(api.ClaimVerified), source(web0), returning()), want: all + unlink + released + "; " + kept},
		"also where it is still reserved":                                   {in: world(back(api.ClaimVerified), source(web0), returning(build.Reserved(manifest(web0, new0, "128Mi")))), want: all + unlink + released + "; patch persistentvolumes pv-new-data-web-0 {+operation, +retained-until, -claim}"},
		"nothing was held yet: it is left alone":                            {in: world(back(api.ClaimPending), source(web0), objects{build.With(retired(web0, "2026-03-01T13:00:00Z"), build.Edit(func(v *corev1.PersistentVolume) { v.Name = new0 }), build.LinkOf(api.Link{Operation: "ba9876543210", Role: api.RoleRetired, Namespace: build.Namespace, Set: api.SetRef{Name: "web"}, Claim: web0}))}), want: all + unlink + released},
		"it is kept already":                                                {in: world(back(api.ClaimPending), source(web0), returning(build.Held(api.RoleRetired, web0))), want: all + unlink + released},
		"the document says it is a copy":                                    {in: world(forged, source(web0), returning()), want: all + unlink + released + "; " + kept},
		"its link says it is a copy":                                        {in: world(back(api.ClaimVerified), source(web0), returning(build.Held(api.RoleTarget, web0))), want: all + unlink + released + "; " + kept},
		"I9: its link is lost: the window does not get lost":                {in: world(back(api.ClaimVerified), source(web0), returning(unlinked())), want: all + unlink + released + "; " + kept},
		"its link is lost, and the document forged":                         {in: world(forged, source(web0), returning(unlinked())), want: all + unlink + released + "; " + kept},
		"somebody deleted the claim":                                        {in: world(back(api.ClaimVerified), oldVolume(web0), returning()), want: all + oldKept + "; " + kept},
		"somebody is deleting the claim":                                    {in: world(back(api.ClaimVerified), objects{going}, oldVolume(web0), returning()), want: all + unlink + oldKept + "; " + kept},
		"somebody gave the claim another volume":                            {in: world(back(api.ClaimVerified), objects{build.Claim(web0, "64Mi", build.On("pv-x"))}, oldVolume(web0), returning()), want: all + oldKept + "; " + kept},
		"it was switched to: that is the one in use, the other one is kept": {in: world(back(api.ClaimSwitched), claimed()), want: all + unlink + oldKept + "; " + back0},

		"it has ended well": {in: world(ended, claimed()), want: all + unlink + oldKept + "; " + back0},
		"it has ended well, and somebody is deleting the claim": {in: world(ended, claimed(build.Deleting())), want: all + unlink + oldKept + "; " + kept},
		"it has ended well, and somebody deleted the claim":     {in: world(ended, oldVolume(web0), returning()), want: all + oldKept + "; " + kept},
		"I3: a document that names what the set has left as a copy": {in: world(set(startingOf(ready, func(s *api.Resize) {
			s.Claims[0].OldVolume, s.Claims[0].NewVolume = "pv-x", old0
		}), build.Replicas(3)), regrettedJournal(), claimed()), want: all + unlink + oldKept + "; " + back0},
		"I3: and the claim is gone": {in: world(set(startingOf(ready, func(s *api.Resize) {
			s.Claims[0].OldVolume, s.Claims[0].NewVolume = "pv-x", old0
		}), build.Replicas(3)), regrettedJournal(), oldVolume(web0)), want: all + oldKept},

		"the set is gone: it has a window again":    {in: world(regrettedJournal(), source(web0), returning()), want: all + unlink + released + "; " + kept},
		"the set is gone, its claims with it":       {in: world(regrettedJournal(), oldVolume(web0), returning()), want: all + oldKept + "; " + kept},
		"the set is gone, and its claims are going": {in: world(regrettedJournal(), claimed(build.Deleting())), want: all + unlink + oldKept + "; " + kept},
		"the set is gone, and it was reserved: it is completed": {in: world(regrettedJournal(), oldVolume(web0), returning(build.Reserved(manifest(web0, new0, "128Mi")))),
			want: "do SetReplaced: create persistentvolumeclaims data-web-0"},
		"the set is gone, the frozen claim gets what is current": {in: world(regrettedJournal(), doomed(web0), returning()),
			want: "do SetReplaced: patch persistentvolumes pv-data-web-0 {+claim, reserved for data-web-0}"},
	}
	check(t, rows)
	for name, row := range rows {
		for _, a := range Decide(row.in).Actions {
			claim := row.in.Claim(web0)
			inUse := claim != nil && claim.DeletionTimestamp == nil && claim.Spec.VolumeName == a.Name
			for _, op := range a.Ops {
				if a.Resource == plan.Volumes && op.Value == corev1.PersistentVolumeReclaimDelete && !inUse {
					t.Errorf("%s: %s, and no claim has it", name, a)
				}
			}
		}
	}
}

// TestI1OldVolumeIsAsItWasAgain: a rollback that did not take place leaves no volume to itself, so that another try finds all of them.
func TestI1OldVolumeIsAsItWasAgain(t *testing.T) {
	link := api.Link{Operation: build.ID, Role: api.RoleReturning, Namespace: build.Namespace, Set: api.SetRef{Name: "web"}, Claim: web0, Before: "ba9876543210"}
	undone := append(set(rollingBackOf(api.ClaimPending, regret), build.Replicas(3)), regrettedJournal()...)
	actions := Decide(world(undone, source(web0), returning(build.LinkOf(link)))).Actions
	patch := actions[len(actions)-1]
	is := link
	is.Operation, is.Before, is.Role = "ba9876543210", "", api.RoleRetired
	wrote := map[string]any{}
	for _, op := range patch.Ops {
		wrote[op.Path] = op.Value
	}
	if patch.Name != new0 || wrote["/metadata/annotations/drydock.dev~1operation"] != is.Encode() || wrote["/metadata/labels/drydock.dev~1operation"] != is.Operation ||
		wrote["/metadata/annotations/drydock.dev~1retained-until"] == nil {
		t.Errorf("%s writes %v", patch, wrote)
	}
	kept := returning(build.LinkOf(is), build.Annotation(api.RetainedUntilAnnotation, "2026-03-01T13:00:00Z"))
	for _, a := range Decide(world(undone, source(web0), kept)).Actions {
		if a.Name == new0 {
			t.Errorf("it is written to again: %s", a)
		}
	}
}

// TestI9WindowOfWhatComesBack: what was asked for in time is not taken away while the owner is being paused.
func TestI9WindowOfWhatComesBack(t *testing.T) {
	over := objects{retired(web0, "2026-03-01T11:59:59Z")}
	names := func(s *api.Resize) { regret(s); s.Claims[0].NewVolume = old0 }
	part := build.Parts(api.ClaimPending, web0)
	const release = "do VolumeReleased: patch persistentvolumes pv-data-web-0 {-label operation, -operation, -reclaim-policy, -retained-until, reclaim Delete}"
	check(t, map[string]row{
		"a rollback is planned":        {in: world(set(build.Operation(api.Planned, part, names)), over), want: "noop NotOurPhase"},
		"it is about another volume":   {in: world(set(build.Operation(api.Planned, part, regret)), over), want: release},
		"it has ended":                 {in: world(set(build.Operation(api.Failed, part, names, build.Due(time.Hour))), over), want: release},
		"a copy is no claim on it":     {in: world(set(build.Operation(api.Planned, part, func(s *api.Resize) { s.Claims[0].NewVolume = old0 })), over), want: release},
		"the document is lost with it": {in: world(objects{build.Set("web")}, over), want: release},
	})
}

// TestI1RollbackPutsTheTemplatesBackAfterATouch: it goes forward whatever somebody writes to the set, and claims that the set's controller
// makes have to fit the volumes that come back.
func TestI1RollbackPutsTheTemplatesBackAfterATouch(t *testing.T) {
	status := with(switchingOf(web0), regret, recreating, func(s *api.Resize) {
		s.Templates[0].Size, s.Claims[0].From, s.Claims[0].To = resource.MustParse("64Mi"), resource.MustParse("128Mi"), resource.MustParse("64Mi")
	})
	small := func(options ...build.Option) objects {
		return objects{build.Volume(new0, build.Claim(web0, "64Mi"), append([]build.Option{build.Released(), build.Held(api.RoleReturning, web0)}, options...)...)}
	}
	untouched := Decide(world(set(status), regrettedJournal(), doomed(web0), small()))
	if untouched.String() != "do SwitchRunning: patch controllerrevisions drydock-0123456789ab {+recreate, +set-metadata}" {
		t.Fatalf("%s", untouched)
	}
	t.Run("the name is given to a volume that a claim of the template does not fit", func(t *testing.T) {
		p := Decide(world(set(status, build.Generation(6)), regrettedJournal(), doomed(web0), small()))
		if p.String() != untouched.String() {
			t.Errorf("template 128Mi, volume 64Mi: %s", p)
		}
	})
	t.Run("the set is not started with the templates it is not to have", func(t *testing.T) {
		claim := successor(web0, new0, "64Mi")
		p := Decide(world(set(status, build.Generation(6)), regrettedJournal(), oldVolume(web0), objects{claim, build.Volume(new0, claim, build.Held(api.RoleReturning, web0))}))
		if p.String() != untouched.String() {
			t.Errorf("%s", p)
		}
	})
	check(t, map[string]row{
		"I4: replicas that somebody wants go first": {
			in:   world(set(status, build.Generation(6), build.Replicas(3)), regrettedJournal(), doomed(web0), small()),
			want: "do SwitchRunning: patch statefulsets web {replicas to 0, +label frozen}"},
		"their pods are waited for": {
			in:   world(set(status, build.Generation(7)), regrettedJournal(), doomed(web0, "kubernetes.io/pvc-protection"), small(), objects{build.PodOf("web", 0, "data")}),
			want: "wait SwitchRunning (pod web-0 still uses claim data-web-0)"},
	})
}
