package restore

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit/build"
)

// TestI1SwitchOfOneClaim is the story of a switch, step by step; each row is what the step before has led to.
func TestI1SwitchOfOneClaim(t *testing.T) {
	at := set(switchingOf(web0))
	journal := journalOf(web0)
	fresh := manifest(web0, new0, "128Mi")
	bare := successor(web0, new0, "128Mi", build.Label(api.OperationLabel, ""), build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Annotations, c.Finalizers = nil, []string{"kubernetes.io/pvc-protection"}
	}), build.Pending())
	taken := build.TakenBy(web0, "uid-successor")
	const protection = "kubernetes.io/pvc-protection"
	marked := build.Finalizers(protection, api.SwitchFinalizer)
	goes := build.Deleting()
	check(t, map[string]row{
		"01 the mover's Job goes first": {
			in:   world(at, journal, source(web0), target(web0), objects{build.Job(web0, 1, build.Complete())}),
			want: "do SwitchRunning: delete jobs " + copy0,
		},
		"02 its pod holds both claims until it is gone": {
			in:   world(at, journal, source(web0), target(web0), objects{build.Mover(build.Job(web0, 1), build.InPhase(corev1.PodSucceeded))}),
			want: "wait SwitchRunning (mover pod " + copy0 + "-x is still there)",
		},
		"03 the new volume is retained before its claim goes, the old claim gets our finalizer before it is deleted": {
			in: world(at, journal, source(web0), target(web0)),
			want: "do SwitchRunning: patch persistentvolumes pv-new-data-web-0 {+label operation, +operation, +reclaim-policy, reclaim Retain}; " +
				"delete persistentvolumeclaims " + copy0 + "; patch persistentvolumeclaims data-web-0 {+finalizer switch}",
		},
		"03 a claim that another controller's finalizer would hold in Terminating is not touched": {
			in: world(at, journal, source(web0, build.Finalizers(protection, "example.com/keep")), target(web0)),
			want: "wait SwitchRunning (claim data-web-0 has the finalizer example.com/keep: another controller keeps it. Find out which one and let it finish, " +
				"or remove the finalizer if that controller is gone)",
		},
		"04 an old volume that somebody has set back is retained again": {
			in:   world(at, journal, source(web0, marked)[:1], objects{build.VolumeOf(build.Claim(web0, "64Mi"))}, copied(web0)),
			want: "do SwitchRunning: patch persistentvolumes pv-data-web-0 {+label operation, +operation, +reclaim-policy, reclaim Retain}",
		},
		"05 a try died when the new volume was retained": {
			in:   world(at, journal, source(web0), target(web0)[:1], copied(web0)),
			want: "do SwitchRunning: delete persistentvolumeclaims " + copy0 + "; patch persistentvolumeclaims data-web-0 {+finalizer switch}",
		},
		"06 a try died when the temporary claim was deleted": {
			in:   world(at, journal, source(web0), target(web0, goes)[:1], copied(web0)),
			want: "do SwitchRunning: patch persistentvolumeclaims data-web-0 {+finalizer switch}",
		},
		"07 a temporary claim that somebody holds may stay: the old claim is left alone": {
			in:   world(at, journal, source(web0, marked), target(web0, goes, build.Finalizers(protection, "example.com/keep"))[:1], copied(web0)),
			want: "wait SwitchRunning (temporary claim " + copy0 + " is held by finalizer example.com/keep)",
		},
		"07 so does one that a pod uses": {
			in:   world(at, journal, source(web0, marked), target(web0, goes)[:1], copied(web0), objects{build.Pod("debug", []string{copy0})}),
			want: "wait SwitchRunning (temporary claim " + copy0 + " is held by pod debug)",
		},
		"08 one that only claim protection looks at goes by itself: the old claim is deleted": {
			in:   world(at, journal, source(web0, marked), target(web0, goes)[:1], copied(web0)),
			want: "do SwitchRunning: delete persistentvolumeclaims data-web-0",
		},
		"08 just so when it is gone": {
			in:   world(at, journal, source(web0, marked), copied(web0)),
			want: "do SwitchRunning: delete persistentvolumeclaims data-web-0",
		},
		"09 claim protection holds it while a scheduled pod names it": {
			in:   world(at, journal, doomed(web0, protection), copied(web0)),
			want: "wait SwitchRunning (claim data-web-0 is held by another finalizer of [drydock.dev/switch kubernetes.io/pvc-protection])",
		},
		"09 frozen, but the new volume is the temporary claim's still": {
			in:   world(at, journal, doomed(web0), target(web0, goes)[:1], copied(web0)),
			want: "wait SwitchRunning (temporary claim " + copy0 + " is being deleted)",
		},
		"10 frozen: the new volume is reserved for the name, with the claim to come": {
			in:   world(at, journal, doomed(web0), copied(web0)),
			want: "do SwitchRunning: patch persistentvolumes pv-new-data-web-0 {+claim, reserved for data-web-0}",
		},
		"11 the volume controller has to see that": {
			in:   world(at, journal, doomed(web0), copied(web0, build.Reserved(fresh), build.Released())),
			want: "wait SwitchRunning (volume pv-new-data-web-0 is not seen to be reserved yet)",
		},
		"12 the old claim is let go, and the new one created": {
			in:   world(at, journal, doomed(web0), copied(web0, build.Reserved(fresh))),
			want: "do SwitchRunning: patch persistentvolumeclaims data-web-0 {-finalizer switch}; create persistentvolumeclaims data-web-0",
		},
		"13 a try died when the old claim was gone: the new one is created": {
			in:   world(at, journal, oldVolume(web0), copied(web0, build.Reserved(fresh))),
			want: "do SwitchRunning: create persistentvolumeclaims data-web-0",
		},
		"14 the claim is being bound": {
			in:   world(at, journal, oldVolume(web0), objects{bare}, copied(web0, build.Reserved(fresh))),
			want: "wait SwitchRunning (volume pv-new-data-web-0 is being bound to claim data-web-0)",
		},
		"14 the volume is still bound to a claim before this one": {
			in:   world(at, journal, oldVolume(web0), objects{bare}, copied(web0, build.Reserved(fresh), build.TakenBy(web0, "uid-before"))),
			want: "wait SwitchRunning (volume pv-new-data-web-0 is being bound to claim data-web-0)",
		},
		"15 what people wrote on the old claim comes back, also if the StatefulSet controller made the new one": {
			in:   world(at, journal, oldVolume(web0), objects{bare}, copied(web0, build.Reserved(fresh), taken)),
			want: "do SwitchRunning: patch persistentvolumeclaims data-web-0 {+label operation, +operation, +people, +finalizer example.com/keep}",
		},
		"16 the claim itself is not bound yet": {
			in:   world(at, journal, oldVolume(web0), objects{successor(web0, new0, "128Mi", build.Pending(), build.Finalizers("example.com/keep"))}, copied(web0, build.Reserved(fresh), taken)),
			want: "wait SwitchRunning (claim data-web-0 is being bound to volume pv-new-data-web-0)",
		},
		"17 I4: the manifest has served, every claim is switched, the set is started with the replicas it had": {
			in: world(at, journal, oldVolume(web0), objects{successor(web0, new0, "128Mi", build.Finalizers("example.com/keep"))}, copied(web0, build.Reserved(fresh), taken)),
			want: "do ClaimsSwitched: patch persistentvolumes pv-new-data-web-0 {-claim}; " +
				`patch statefulsets web {replicas 0 to 3, +status}; event ClaimsSwitched "every claim is on its new volume, the set is started"`,
			next: "Starting ClaimsSwitched, attempt 1, round 1, generation 5, replicas 3, due in 30m0s; data-web-0 Switched on pv-new-data-web-0",
		},
		"18 a try died when that was forgotten": {
			in:   world(at, journal, switched(web0)),
			want: `do ClaimsSwitched: patch statefulsets web {replicas 0 to 3, +status}; event ClaimsSwitched "every claim is on its new volume, the set is started"`,
			next: "Starting ClaimsSwitched, attempt 1, round 1, generation 5, replicas 3, due in 30m0s; data-web-0 Switched on pv-new-data-web-0",
		},
		"I7: a volume that belongs to the operation already is not written again": {
			in:   world(at, journal, source(web0), copied(web0)),
			want: "do SwitchRunning: patch persistentvolumeclaims data-web-0 {+finalizer switch}",
		},
	})
}

func TestI1SetIsStartedWhenEveryClaimIsWhole(t *testing.T) {
	two := set(switchingOf(web0, web1))
	journal := journalOf(web0, web1)
	check(t, map[string]row{
		"one claim is switched, the other goes on; the set is not started": {
			in:   world(two, journal, switched(web0), source(web1), copied(web1)),
			want: "do SwitchRunning: patch persistentvolumeclaims data-web-1 {+finalizer switch}",
		},
		"one is switched, the other waits: that is written down": {
			in:   world(two, journal, switched(web0), doomed(web1, "example.com/backup"), copied(web1)),
			want: "do SwitchRunning: patch statefulsets web {+status}",
			next: "Switching CopyVerified, attempt 1, round 1, generation 5, replicas 3, due in 1m0s; " +
				"data-web-0 Switched on pv-new-data-web-0; data-web-1 Verified on pv-new-data-web-1",
		},
		"both go on at once": {
			in:   world(two, journal, source(web0), copied(web0), source(web1), copied(web1)),
			want: "do SwitchRunning: patch persistentvolumeclaims data-web-0 {+finalizer switch}; patch persistentvolumeclaims data-web-1 {+finalizer switch}",
		},
		"I4: the claim retention policy comes back in the same write as the replicas": {
			in:   world(set(with(switchingOf(web0), func(s *api.Resize) { s.WhenScaled = "Delete" }), build.WhenScaled("Retain")), journal, switched(web0)),
			want: `do ClaimsSwitched: patch statefulsets web {replicas 0 to 3, whenScaled Delete, +status}; event ClaimsSwitched "every claim is on its new volume, the set is started"`,
			next: "Starting ClaimsSwitched, attempt 1, round 1, generation 5, replicas 3, whenScaled Delete, due in 30m0s; data-web-0 Switched on pv-new-data-web-0",
		},
		"I4: a set that was at zero before stays there": {
			in:   world(set(with(switchingOf(web0), func(s *api.Resize) { s.Replicas = 0 })), journal, switched(web0)),
			want: `do ClaimsSwitched: patch statefulsets web {+status}; event ClaimsSwitched "every claim is on its new volume, the set is started"`,
			next: "Starting ClaimsSwitched, attempt 1, round 1, generation 5, replicas 0, due in 30m0s; data-web-0 Switched on pv-new-data-web-0",
		},
	})
}

func TestI1SomebodyScalesUpDuringTheSwitch(t *testing.T) {
	touched := set(switchingOf(web0), build.Generation(7))
	journal := journalOf(web0)
	back := manifest(web0, old0, "64Mi")
	fresh := manifest(web0, new0, "128Mi")
	backAgain := successor(web0, old0, "64Mi", build.Finalizers("example.com/keep"))
	const copyAgain = `event StartedByOthers "the set was changed before the switch; what is not switched is copied again" -> owner.paused`
	const round2 = "Copying StartedByOthers, attempt 1, round 2, generation 0, replicas 3, due in 20h0m0s; data-web-0 Pending"
	check(t, map[string]row{
		"before anything was done: the copy is stale, so it is made again": {
			in:   world(touched, journal, source(web0), target(web0)),
			want: "do StartedByOthers: patch statefulsets web {+status}; " + copyAgain,
			next: round2,
		},
		"a pod of somebody else uses the claim: just as stale": {
			in:   world(set(switchingOf(web0)), journal, source(web0), target(web0), objects{build.Pod("debug", []string{web0})}),
			want: "do StartedByOthers: patch statefulsets web {+status}; " + copyAgain,
			next: round2,
		},
		"when the old claim was marked, not yet deleted: it is not": {
			in:   world(touched, journal, source(web0, build.Finalizers(api.SwitchFinalizer)), copied(web0)),
			want: "do StartedByOthers: patch statefulsets web {+status}; " + copyAgain,
			next: round2,
		},
		"when the old claim was deleted, pods run on it still: replicas go to zero first": {
			in: world(set(switchingOf(web0), build.Generation(6), build.Replicas(2)), journal,
				doomed(web0, "kubernetes.io/pvc-protection"), copied(web0)),
			want: "do SwitchRunning: patch statefulsets web {replicas to 0, +label frozen}",
		},
		"when the old claim is frozen: its name gets the old volume back": {
			in:   world(touched, journal, doomed(web0), copied(web0), templates64(touched)),
			want: "do SwitchRunning: patch persistentvolumes pv-data-web-0 {+claim, reserved for data-web-0}",
		},
		"a claim that is switched already stays switched": {
			in:   world(set(halfway(), build.Generation(7)), journalOf(web0, web1), switched(web0), source(web1), target(web1)),
			want: "do StartedByOthers: patch statefulsets web {+status}; " + copyAgain,
			next: "Copying StartedByOthers, attempt 1, round 2, generation 0, replicas 3, due in 20h0m0s; data-web-0 Switched on pv-new-data-web-0; data-web-1 Pending",
		},
		"I3: frozen, but another claim than the one that was copied: the old volume": {
			in:   world(templates64(set(switchingOf(web0))), journal, source(web0, build.UID("uid-other"), build.Deleting(), build.Finalizers(api.SwitchFinalizer)), copied(web0)),
			want: "do SwitchRunning: patch persistentvolumes pv-data-web-0 {+claim, reserved for data-web-0}",
		},
		"when the new volume is reserved already: nothing was started on the old one since, so it stays so": {
			in:   world(touched, journal, doomed(web0), copied(web0, build.Reserved(fresh))),
			want: "do SwitchRunning: patch persistentvolumeclaims data-web-0 {-finalizer switch}; create persistentvolumeclaims data-web-0",
		},
		"the claim goes, and comes back on its old volume": {
			in:   world(touched, journal, doomed(web0)[:1], oldVolume(web0, build.Reserved(back)), copied(web0)),
			want: "do SwitchRunning: patch persistentvolumeclaims data-web-0 {-finalizer switch}; create persistentvolumeclaims data-web-0",
		},
		"a try died when it was gone": {
			in:   world(touched, journal, oldVolume(web0, build.Reserved(back)), copied(web0)),
			want: "do SwitchRunning: create persistentvolumeclaims data-web-0",
		},
		"bound to it": {
			in:   world(touched, journal, objects{backAgain}, oldVolume(web0, build.Reserved(back), build.TakenBy(web0, "uid-successor")), copied(web0)),
			want: "do SwitchRunning: patch persistentvolumes pv-data-web-0 {-claim}",
		},
		"I3: put back, it is another claim: the next round knows it by its new UID": {
			in:   world(touched, journal, objects{backAgain}, oldVolume(web0, build.TakenBy(web0, "uid-successor")), copied(web0)),
			want: "do StartedByOthers: patch statefulsets web {+status}; " + copyAgain,
			next: round2,
		},
	})
	again := build.Stored(Decide(world(touched, journal, objects{backAgain}, oldVolume(web0, build.TakenBy(web0, "uid-successor")), copied(web0))))
	if again.Claims[0].UID != "uid-successor" || again.Stopping != nil || again.Claims[0].NewVolume != "" {
		t.Errorf("the next round begins with %+v", again)
	}
}

// halfway is an operation of which one claim is switched and the other has a verified copy.
func halfway() *api.Resize {
	return with(switchingOf(web1), func(s *api.Resize) {
		s.Claims = append(build.Operation(s.Phase, build.Parts(api.ClaimSwitched, web0)).Claims, s.Claims...)
	})
}

// templates64 gives the set in the group templates as they were before; with those of the operation, the set itself
// would have to be created again first.
func templates64(group objects) objects {
	s := group[0].(*appsv1.StatefulSet).DeepCopy()
	s.Spec.VolumeClaimTemplates = build.Set("web", build.Template("data", "64Mi", "fixed")).Spec.VolumeClaimTemplates
	return objects{s}
}

func TestI1ClaimThatSomebodyElseTouched(t *testing.T) {
	at := set(switchingOf(web0))
	journal := journalOf(web0)
	reserved := copied(web0, build.Reserved(manifest(web0, new0, "128Mi")))
	check(t, map[string]row{
		"being deleted by somebody else": {
			in:   world(at, journal, source(web0, build.Deleting()), copied(web0)),
			want: "wait SwitchRunning (claim data-web-0 is being deleted by somebody else)",
		},
		"deleted by somebody else: its name gets its old volume": {
			in:   world(at, journal, oldVolume(web0), copied(web0)),
			want: "do SwitchRunning: patch persistentvolumes pv-data-web-0 {+claim, reserved for data-web-0}",
		},
		"the StatefulSet controller made it first, and it is not bound yet": {
			in:   world(at, journal, oldVolume(web0), reserved, objects{build.Claim(web0, "64Mi", build.On(""))}),
			want: "wait SwitchRunning (claim data-web-0 is not bound yet)",
		},
		"the StatefulSet controller made it first, larger than the volume is: it is empty and in the way": {
			in:   world(at, journal, oldVolume(web0), reserved, objects{build.Claim(web0, "256Mi", build.On(""))}),
			want: "do SwitchRunning: delete persistentvolumeclaims data-web-0",
		},
		"the StatefulSet controller made it first, of another class": {
			in:   world(at, journal, oldVolume(web0), reserved, objects{build.Claim(web0, "64Mi", build.On(""), build.OfClass("fast"))}),
			want: "do SwitchRunning: delete persistentvolumeclaims data-web-0",
		},
		"bound to a third volume: a person has to look": {
			in: world(at, journal, oldVolume(web0), reserved, objects{build.Claim(web0, "64Mi", build.On("pv-x"))}),
			want: "wait SwitchRunning (claim data-web-0 is bound to volume pv-x, which is neither its old volume pv-data-web-0 " +
				"nor its new one pv-new-data-web-0; delete the claim if its volume is empty)",
		},
		"I3: another claim of the same name on the old volume: it was not copied": {
			in: world(at, journal, source(web0, build.UID("uid-other")), target(web0)),
			want: `do StartedByOthers: patch statefulsets web {+status}; event StartedByOthers ` +
				`"the set was changed before the switch; what is not switched is copied again" -> owner.paused`,
			next: "Copying StartedByOthers, attempt 1, round 2, generation 0, replicas 3, due in 20h0m0s; data-web-0 Pending",
		},
		"the old volume is gone": {
			in:   world(at, journal, source(web0)[:1], copied(web0)),
			want: "wait SwitchRunning (volume pv-data-web-0 or pv-new-data-web-0 of claim data-web-0 does not exist any more)",
		},
		"the copy is gone, the claim is as it was: it is copied again": {
			in: world(at, journal, source(web0)),
			want: `do StartedByOthers: patch statefulsets web {+status}; event StartedByOthers ` +
				`"the set was changed before the switch; what is not switched is copied again" -> owner.paused`,
			next: "Copying StartedByOthers, attempt 1, round 2, generation 0, replicas 3, due in 20h0m0s; data-web-0 Pending",
		},
		"the copy is gone, the claim is frozen: it goes back": {
			in:   world(templates64(at), journal, doomed(web0)),
			want: "do SwitchRunning: patch persistentvolumes pv-data-web-0 {+claim, reserved for data-web-0}",
		},
		"claim and copy are gone: nobody knows which one is whole": {
			in:   world(at, journal, oldVolume(web0)),
			want: "wait SwitchRunning (volume pv-data-web-0 or pv-new-data-web-0 of claim data-web-0 does not exist any more)",
		},
	})
}

func TestHostileStatusNamesVolumesOfOthers(t *testing.T) {
	names := func(change func(*api.ClaimStatus)) objects {
		return set(with(switchingOf(web0), func(s *api.Resize) { change(&s.Claims[0]) }))
	}
	disagrees := func(volume string) string {
		return `do StatusInvalid: patch statefulsets web {+status}; event StatusInvalid "the annotation drydock.dev/status does not agree with the journal: ` +
			`ControllerRevision drydock-0123456789ab does not name claim data-web-0 on volume ` + volume + `. No volume was touched. ` +
			`Remove the annotation: the operation is then undone as its journal says" -> operation.failed`
	}
	const given = "Failed StatusInvalid at Switching, attempt 1, round 1, generation 5, replicas 3; data-web-0 Verified on pv-new-data-web-0"
	payroll := build.VolumeOf(build.Claim("data-payroll-0", "64Mi"), keepsReleased())
	check(t, map[string]row{
		"a new volume that was not provisioned for the operation": {
			in:   world(names(func(c *api.ClaimStatus) { c.NewVolume = "pv-data-payroll-0" }), journalOf(web0), source(web0), objects{payroll}),
			want: `do StartedByOthers: patch statefulsets web {+status}; event StartedByOthers "the set was changed before the switch; what is not switched is copied again" -> owner.paused`,
			next: "Copying StartedByOthers, attempt 1, round 2, generation 0, replicas 3, due in 20h0m0s; data-web-0 Pending",
		},
		"an old volume that the claim does not have": {
			in:   world(names(func(c *api.ClaimStatus) { c.OldVolume = "pv-data-payroll-0" }), journalOf(web0), source(web0), copied(web0), objects{payroll}),
			want: disagrees("pv-data-payroll-0"), next: given,
		},
		"a volume of another namespace, which is not even observed": {
			in:   world(names(func(c *api.ClaimStatus) { c.OldVolume = "pv-elsewhere" }), journalOf(web0), source(web0), copied(web0)),
			want: disagrees("pv-elsewhere"), next: given,
		},
		"when the operation is rolled back, the other volume is left alone too": {
			in: world(set(build.Operation(api.RollingBack, build.Parts(api.ClaimVerified, web0), func(s *api.Resize) { s.Claims[0].NewVolume = "pv-data-payroll-0" }),
				build.Replicas(3)), journalOf(web0), source(web0), objects{payroll}),
			want: "do CleaningUp: patch persistentvolumeclaims data-web-0 {-label operation, -operation}; " +
				"patch persistentvolumes pv-data-web-0 {-label operation, -operation, -reclaim-policy, reclaim Delete}",
		},
	})
}

func TestI2RecreateIsWrittenDownFirst(t *testing.T) {
	status := with(switchingOf(web0), recreating)
	at := objects{build.Set("web", zero, build.Template("data", "64Mi", "fixed"), build.Status(status))}
	// order is the journal's order to create the set again, made from the set as it is; the copies are current for none.
	orderFor := func(from objects, status *api.Resize, generation int64) objects {
		held := with(build.Operation(status.Phase), func(s *api.Resize) { *s = *status.Clone() })
		held.Set.UID, held.Generation = "", generation
		set := from[0].(*appsv1.StatefulSet)
		return objects{ordered(journalOf(web0)[0].(*appsv1.ControllerRevision), set, resources.MakeHeldSet(build.Raw(set), status.Templates, held))}
	}
	order := func(from objects, status *api.Resize) objects { return orderFor(from, status, never) }
	edited := objects{build.Set("web", zero, build.Template("data", "64Mi", "fixed"), build.Status(status), build.Annotation("team", "new"))}
	scaled := objects{build.Set("web", zero, build.Template("data", "64Mi", "fixed"), build.Status(status), build.Generation(7))}
	late := objects{build.Set("web", zero, build.Template("data", "64Mi", "fixed"), build.Status(with(switchingOf(web0), recreating, build.Due(-time.Second))))}
	check(t, map[string]row{
		"the set is to be created with the new template: that is written into the journal": {
			in:   world(at, journalOf(web0), source(web0), target(web0)),
			want: "do SwitchRunning: patch controllerrevisions drydock-0123456789ab {+recreate, +set-metadata}",
		},
		"the mover's Job goes at the same time": {
			in:   world(at, journalOf(web0), source(web0), target(web0), objects{build.Job(web0, 1)}),
			want: "do SwitchRunning: delete jobs " + copy0 + "; patch controllerrevisions drydock-0123456789ab {+recreate, +set-metadata}",
		},
		"its pod is not waited for: it has ended, and no claim changes yet": {
			in:   world(at, order(at, status), source(web0), target(web0), objects{build.Mover(build.Job(web0, 1), build.InPhase(corev1.PodSucceeded))}),
			want: "do SwitchRunning: try statefulsets web; delete statefulsets web (orphan); patch controllerrevisions drydock-0123456789ab {+recreate}",
		},
		"I1: somebody has scaled the set meanwhile: nothing more is done before the pod is gone": {
			in:   world(scaled, order(at, status), source(web0), target(web0), objects{build.Mover(build.Job(web0, 1), build.InPhase(corev1.PodSucceeded))}),
			want: "wait SwitchRunning (mover pod " + copy0 + "-x is still there)",
		},
		"the journal got lost: without it the status is anyone's words": {
			in: world(at, source(web0), target(web0)),
			want: `do StatusInvalid: patch statefulsets web {+status}; event StatusInvalid "the annotation drydock.dev/status does not agree with the journal: ` +
				`ControllerRevision drydock-0123456789ab does not exist, or belongs to another controller. No volume was touched. Remove the annotation if nobody asked ` +
				`for a resize; otherwise look at kubectl get pv -l drydock.dev/operation=0123456789ab, and give the claims their volumes back by hand" -> operation.failed`,
			next: "Failed StatusInvalid at Switching, attempt 1, round 1, generation 5, replicas 3; data-web-0 Verified on pv-new-data-web-0",
		},
		"I1: only then the set is deleted, and only when that was accepted the order says that the copies are current": {
			in:   world(at, order(at, status), source(web0), target(web0)),
			want: "do SwitchRunning: try statefulsets web; delete statefulsets web (orphan); patch controllerrevisions drydock-0123456789ab {+recreate}",
		},
		"another process has deleted the set since it was read: its word that the copies are current stays": {
			in:   world(at, orderFor(at, status, status.Generation), source(web0), target(web0)),
			want: "wait SwitchRunning (StatefulSet web is being deleted)",
		},
		"somebody has edited the set meanwhile: the order is made anew, so that the edit is not lost": {
			in:   world(edited, order(at, status), source(web0), target(web0)),
			want: "do SwitchRunning: patch controllerrevisions drydock-0123456789ab {+recreate}",
		},
		"I1: somebody has scaled the set meanwhile: the order is withdrawn, or it would bring stale copies back": {
			in:   world(scaled, order(at, status), source(web0), target(web0)),
			want: "do SwitchRunning: patch controllerrevisions drydock-0123456789ab {-recreate}",
		},
		"the deadline is over, but nothing is in the way: it goes on": {
			in:   world(late, journalOf(web0), source(web0), target(web0)),
			want: "do SwitchRunning: patch controllerrevisions drydock-0123456789ab {+recreate, +set-metadata}",
		},
		"the delete is refused until the deadline: no claim was touched, so the set is rolled back": {
			in: rejected(world(late, order(at, status), source(web0), target(web0)), "not today"),
			want: "do DeadlineExceeded: patch controllerrevisions drydock-0123456789ab {-recreate}; patch statefulsets web {+status}; " +
				`event DeadlineExceeded "the switch was given up after 12m0s: the API server refuses a step: not today. ` +
				`Mend the cause, then ask again with the annotation drydock.dev/retry"`,
			next: "RollingBack DeadlineExceeded at Switching, attempt 1, round 1, generation 5, replicas 3, due in 12m0s; data-web-0 Verified on pv-new-data-web-0",
		},
		"the set is going": {
			in:   world(objects{build.With(at[0].(*appsv1.StatefulSet).DeepCopy(), build.Deleting())}, order(at, status), source(web0), target(web0)),
			want: "wait SwitchRunning (StatefulSet web is being deleted)",
		},
		"the set is gone: it is created as the journal says": {
			in:   world(order(at, status), source(web0), target(web0)),
			want: "do SwitchRunning: create statefulsets web",
		},
		"I8: the set is gone and cannot be created: people are told": {
			in: rejected(world(order(at, status), source(web0), target(web0)), "no"),
			want: `do Rejected: event Rejected "the StatefulSet cannot be created again: no; its manifest is in the annotation drydock.dev/recreate ` +
				`of ControllerRevision drydock-0123456789ab, it is tried again at each tick"`,
		},
		"no template differs: the set is not created again": {
			in:   world(set(status), journalOf(web0), source(web0), copied(web0)),
			want: "do SwitchRunning: patch persistentvolumeclaims data-web-0 {+finalizer switch}",
		},
	})
}

func TestI3NewSetIsTakenOver(t *testing.T) {
	fresh := func(change func(*api.Resize)) *api.Resize {
		return with(switchingOf(web0), recreating, func(s *api.Resize) { s.Set.UID = "" }, change)
	}
	nothing := func(*api.Resize) {}
	ordered := objects{build.With(journalOf(web0)[0].(*appsv1.ControllerRevision), build.Annotation(api.RecreateAnnotation,
		api.EncodeManifest(build.Set("web"))))}
	check(t, map[string]row{
		"as created: the copies are current for it": {
			in:   world(set(fresh(nothing), build.UID("uid-2"), build.Generation(1)), ordered, source(web0), target(web0)),
			want: "do SwitchRunning: patch controllerrevisions drydock-0123456789ab {-recreate}; patch statefulsets web {+status}",
			next: "Switching CopyVerified, attempt 1, round 1, generation 1, replicas 3, due in 1m0s; data-web-0 Verified on pv-new-data-web-0",
		},
		"I1: somebody has written to it already: the copies are current for none": {
			in:   world(set(fresh(nothing), build.UID("uid-2"), build.Generation(2)), ordered, source(web0), target(web0)),
			want: "do SwitchRunning: patch controllerrevisions drydock-0123456789ab {-recreate}; patch statefulsets web {+status}",
			next: "Switching CopyVerified, attempt 1, round 1, generation -1, replicas 3, due in 1m0s; data-web-0 Verified on pv-new-data-web-0",
		},
		"I1: the copies were stale before: creating the set does not make them current": {
			in:   world(set(fresh(func(s *api.Resize) { s.Generation = -1 }), build.UID("uid-2"), build.Generation(1)), ordered, source(web0), target(web0)),
			want: "do SwitchRunning: patch controllerrevisions drydock-0123456789ab {-recreate}; patch statefulsets web {+status}",
			next: "Switching CopyVerified, attempt 1, round 1, generation -1, replicas 3, due in 1m0s; data-web-0 Verified on pv-new-data-web-0",
		},
		"the deadline is no reason to leave it without an identity": {
			in:   world(set(fresh(build.Due(-time.Hour)), build.UID("uid-2"), build.Generation(1)), source(web0), target(web0)),
			want: "do SwitchRunning: patch statefulsets web {+status}",
			next: "Switching CopyVerified, attempt 1, round 1, generation 1, replicas 3, due in 12m0s; data-web-0 Verified on pv-new-data-web-0",
		},
	})
	stored := build.Stored(Decide(world(set(fresh(nothing), build.UID("uid-2"), build.Generation(1)), ordered)))
	if stored.Set.UID != "uid-2" {
		t.Errorf("the status is bound to UID %q", stored.Set.UID)
	}
}

// TestI1OldTemplateFitsEveryVolume: claims that were to grow ask for more than their volumes have, and not all have grown.
func TestI1OldTemplateFitsEveryVolume(t *testing.T) {
	touched := set(with(switchingOf(web0, web1), recreating), build.Generation(7))
	asks := func(objects objects, asks, has string) objects {
		claim, volume := objects[0].(*corev1.PersistentVolumeClaim), objects[1].(*corev1.PersistentVolume)
		claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(asks)
		volume.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(has)}
		return objects
	}
	in := world(touched, journalOf(web0, web1), asks(doomed(web0), "128Mi", "96Mi"), copied(web0), asks(doomed(web1), "100Mi", "64Mi"), copied(web1))
	status, _ := in.Status()
	back := oldTemplates(in, status)
	if len(back) != 1 || back[0].Size.String() != "64Mi" {
		t.Errorf("%+v", back)
	}
}

// TestI1OldTemplateComesBackBeforeAnOldVolumeDoes: with the larger template, the StatefulSet controller would ask for
// more than the old volume has, and be given an empty one.
func TestI1OldTemplateComesBackBeforeAnOldVolumeDoes(t *testing.T) {
	touched := set(with(switchingOf(web0), recreating), build.Generation(7))
	p := Decide(world(touched, journalOf(web0), doomed(web0), copied(web0)))
	if got := p.String(); got != "do SwitchRunning: patch controllerrevisions drydock-0123456789ab {+recreate, +set-metadata}" {
		t.Fatal(got)
	}
	revision := storedOrder(t, journalOf(web0)[0].(*appsv1.ControllerRevision), p)
	next, err := api.LoadManifest(revision)
	if err != nil {
		t.Fatal(err)
	}
	if size := next.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().String(); size != "64Mi" {
		t.Errorf("the template asks for %s", size)
	}
	status, err := api.LoadResize(next)
	if err != nil || status.Generation != -1 || !status.Recreate || status.Set.UID != "" {
		t.Errorf("its status is %+v (%v); the copies must be current for no generation", status, err)
	}
	if p := Decide(world(touched, objects{revision}, doomed(web0), copied(web0))); p.String() != "do SwitchRunning: try statefulsets web; delete statefulsets web (orphan)" {
		t.Error(p)
	}
}

func TestI8SwitchHasADeadline(t *testing.T) {
	late := set(with(switchingOf(web0), build.Due(-time.Second)))
	held := with(switchingOf(web0), func(s *api.Resize) { s.Phase, s.FailedAt, s.Deadline = api.Failed, api.Switching, nil })
	check(t, map[string]row{
		"a claim does not go: the set stays at zero, everything is kept": {
			in: waited(world(late, journalOf(web0), doomed(web0, "example.com/backup"), copied(web0))),
			want: `do DeadlineExceeded: patch statefulsets web {+status}; event DeadlineExceeded "the switch was given up after 12m0s: ` +
				`claim data-web-0 is held by another finalizer of [drydock.dev/switch example.com/backup]. No data is lost, every volume is kept; ` +
				`the set stays at zero. Mend the cause, then go on with the annotation drydock.dev/retry" -> operation.failed`,
			next: "Failed DeadlineExceeded at Switching, attempt 1, round 1, generation 5, replicas 3; data-web-0 Verified on pv-new-data-web-0",
		},
		"the functions were away: past the deadline the claim still gets a moment to go": {
			in:   world(late, journalOf(web0), doomed(web0, "example.com/backup"), copied(web0)),
			want: "wait SwitchRunning (claim data-web-0 is held by another finalizer of [drydock.dev/switch example.com/backup])",
		},
		"given up: it waits for a person, and the journal stays": {
			in:   world(set(held), journalOf(web0), doomed(web0, "example.com/backup"), copied(web0)),
			want: "noop NotOurPhase",
		},
	})
}
