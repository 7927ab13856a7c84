package restore

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit/build"
)

// startingOf is an operation that waits for the set to become ready on its new volumes.
func startingOf(options ...func(*api.Resize)) *api.Resize {
	return build.Operation(api.Starting, append([]func(*api.Resize){build.Parts(api.ClaimSwitched, web0), build.Quiet(5), build.Due(time.Minute),
		func(s *api.Resize) { s.Reason = api.ClaimsSwitched }}, options...)...)
}

func ready(s *api.Resize) { s.Ready = s.Stopped }

// retired is an old volume in its window.
func retired(name, until string) *corev1.PersistentVolume {
	return build.Volume("pv-"+name, build.Claim(name, "64Mi"), build.Released(), build.Held(api.RoleRetired, name),
		build.Annotation(api.RetainedUntilAnnotation, until))
}

// marked says of the claim that a replica of the set before has used it.
func marked(all objects) objects {
	for _, o := range all {
		if claim, ok := o.(*corev1.PersistentVolumeClaim); ok {
			build.Annotation(api.ReplicaOfAnnotation, "uid-before")(claim)
		}
	}
	return all
}

func TestStarting(t *testing.T) {
	three := build.Replicas(3)
	const succeeded = `do ResizeCompleted: patch statefulsets web {+status}; event ResizeCompleted "1 claims are on new volumes; the old volumes are kept for 24h0m0s" -> restore.completed`
	released := func() objects {
		claim := successor(web0, new0, "128Mi", build.Label(api.OperationLabel, ""))
		delete(claim.Annotations, api.OperationAnnotation)
		return objects{claim, build.VolumeOf(claim), retired(web0, "2026-03-02T12:00:00Z")}
	}
	check(t, map[string]row{
		"some replicas are not ready": {
			in:   world(set(startingOf(), three, build.Counting(3, 2)), journalOf(web0), switched(web0)),
			want: "wait WaitingForReady (2 of 3 replicas are ready)",
		},
		"the controller has not seen the new spec": {
			in:   world(set(startingOf(), three, build.Unseen()), journalOf(web0), switched(web0)),
			want: "wait WaitingForReady (3 of 3 replicas are ready)",
		},
		"all are ready: the time is written down": {
			in:   world(set(startingOf(), three), journalOf(web0), switched(web0)),
			want: "do WaitingForReady: patch statefulsets web {+status}",
			next: "Starting ClaimsSwitched, attempt 1, round 1, generation 5, replicas 3, due in 1m0s; data-web-0 Switched on pv-new-data-web-0",
		},
		"I4: somebody else has asked for another count: that is theirs, and it is ready": {
			in:   world(set(startingOf(), build.Replicas(5)), journalOf(web0), switched(web0)),
			want: "do WaitingForReady: patch statefulsets web {+status}",
			next: "Starting ClaimsSwitched, attempt 1, round 1, generation 5, replicas 3, due in 1m0s; data-web-0 Switched on pv-new-data-web-0",
		},
		"I9: claim and new volume are released, the old one is kept for its window": {
			in: world(set(startingOf(ready), three), journalOf(web0), switched(web0)),
			want: "do CleaningUp: patch persistentvolumeclaims data-web-0 {-label operation, -operation}; " +
				"patch persistentvolumes pv-data-web-0 {+operation, +retained-until}; " +
				"patch persistentvolumes pv-new-data-web-0 {-label operation, -operation, -reclaim-policy, reclaim Delete}",
		},
		"the mark of the replica that used the claim goes over to the set that was created again": {
			in: world(set(startingOf(ready), three), objects{build.Journal(build.Operation(api.Copying, build.Parts(api.ClaimPending, web0),
				func(s *api.Resize) { s.Set.UID = "uid-before" }))}, marked(switched(web0))),
			want: "do CleaningUp: patch persistentvolumeclaims data-web-0 {-label operation, -operation, +replica-of}; " +
				"patch persistentvolumes pv-data-web-0 {+operation, +retained-until}; " +
				"patch persistentvolumes pv-new-data-web-0 {-label operation, -operation, -reclaim-policy, reclaim Delete}",
		},
		"I9: the copy of an earlier round goes, Job, claim and volume; the volume before the claim that leads to it": {
			in:   world(set(startingOf(ready), three), journalOf(web0), released(), objects{build.Job(web0, 1)}, earlier()),
			want: "do CleaningUp: delete jobs " + copy0 + "; patch persistentvolumes pv-earlier {reclaim Delete}; delete persistentvolumeclaims " + copy0,
		},
		"they are going": {
			in:   world(set(startingOf(ready), three), journalOf(web0), released(), objects{build.Target(copy0, web0, "128Mi", 1, build.Deleting())}),
			want: "wait CleaningUp (temporary claim " + copy0 + " is being deleted)",
		},
		"the Job is going": {
			in:   world(set(startingOf(ready), three), journalOf(web0), released(), objects{build.Job(web0, 1, build.Deleting())}),
			want: "wait CleaningUp (job " + copy0 + " is being deleted)",
		},
		"the journal goes last": {
			in:   world(set(startingOf(ready), three), journalOf(web0), released()),
			want: "do CleaningUp: delete controllerrevisions drydock-0123456789ab",
		},
		"nothing is left": {
			in:   world(set(startingOf(ready), three), released()),
			want: succeeded,
			next: "Succeeded ResizeCompleted, attempt 1, round 1, generation 0, replicas 3; data-web-0 Switched on pv-new-data-web-0",
		},
		"once ready is ready, whatever the pods do later": {
			in:   world(set(startingOf(ready), three, build.Counting(3, 0)), released()),
			want: succeeded,
			next: "Succeeded ResizeCompleted, attempt 1, round 1, generation 0, replicas 3; data-web-0 Switched on pv-new-data-web-0",
		},
		"I8: not ready in time: tidied all the same": {
			in:   world(set(startingOf(build.Due(-time.Second)), three, build.Counting(3, 1)), journalOf(web0), released()),
			want: "do CleaningUp: delete controllerrevisions drydock-0123456789ab",
		},
		"I8: not ready in time: it is said": {
			in: world(set(startingOf(build.Due(-time.Second)), three, build.Counting(3, 1)), released()),
			want: `do NotReady: patch statefulsets web {+status}; event NotReady "the new volumes are in place, but only 1 of 3 replicas got ready within 30m0s; ` +
				`look at the pods. The old volumes are kept for 24h0m0s" -> operation.failed`,
			next: "Failed NotReady at Starting, attempt 1, round 1, generation 0, replicas 3; data-web-0 Switched on pv-new-data-web-0",
		},
		"after a success nobody needs the dead letters: they go with the same write": {
			in:   world(set(startingOf(ready), three, build.Annotation(api.DeadLettersAnnotation, "whatever")), released()),
			want: strings.Replace(succeeded, "{+status}", "{+status, -dead-letters}", 1),
			next: "Succeeded ResizeCompleted, attempt 1, round 1, generation 0, replicas 3; data-web-0 Switched on pv-new-data-web-0",
		},
		"after a failure they stay": {
			in: world(set(startingOf(build.Due(-time.Second)), three, build.Counting(3, 1), build.Annotation(api.DeadLettersAnnotation, "whatever")), released()),
			want: `do NotReady: patch statefulsets web {+status}; event NotReady "the new volumes are in place, but only 1 of 3 replicas got ready within 30m0s; ` +
				`look at the pods. The old volumes are kept for 24h0m0s" -> operation.failed`,
			next: "Failed NotReady at Starting, attempt 1, round 1, generation 0, replicas 3; data-web-0 Switched on pv-new-data-web-0",
		},
		"an abort comes too late: it is taken off at the end": {
			in:   world(set(startingOf(ready), three, build.Annotation(api.AbortAnnotation, "")), released()),
			want: strings.Replace(succeeded, "{+status}", "{+status, -abort}", 1),
			next: "Succeeded ResizeCompleted, attempt 1, round 1, generation 0, replicas 3; data-web-0 Switched on pv-new-data-web-0",
		},
	})
}

// earlier is what an earlier round has left: a temporary claim and its volume, whose class keeps released volumes.
func earlier() objects {
	claim := build.Target(copy0, web0, "128Mi", 1, build.On("pv-earlier"))
	return objects{claim, build.VolumeOf(claim, build.Edit(func(v *corev1.PersistentVolume) {
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	}))}
}

func rollingBackOf(phase api.ClaimPhase, options ...func(*api.Resize)) *api.Resize {
	return build.Operation(api.RollingBack, append([]func(*api.Resize){build.Parts(phase, web0), build.Stopped(time.Minute), build.Due(time.Minute),
		func(s *api.Resize) { s.Reason, s.FailedAt, s.Message = api.CopyFailed, api.Copying, "it failed" }}, options...)...)
}

func TestI4RollingBack(t *testing.T) {
	deleted := func(s *api.Resize) { s.WhenScaled = "Delete" }
	check(t, map[string]row{
		"the movers go first": {
			in:   world(set(rollingBackOf(api.ClaimCopying)), journalOf(web0), source(web0), target(web0), objects{build.Job(web0, 1)}),
			want: "do RollingBack: delete jobs " + copy0,
		},
		"I4: then replicas and claim retention come back": {
			in:   world(set(rollingBackOf(api.ClaimCopying, deleted), build.WhenScaled("Retain")), journalOf(web0), source(web0), target(web0)),
			want: "do RollingBack: patch statefulsets web {replicas 0 to 3, whenScaled Delete}",
		},
		"people are told when the API server refuses them": {
			in: rejected(world(set(rollingBackOf(api.ClaimCopying)), journalOf(web0), source(web0), target(web0)), "policy no-weekends denied it"),
			want: `do Rejected: event Rejected "the resize has failed, and the API server refuses StatefulSet web its 3 replicas: policy no-weekends denied it. ` +
				`Mend that; it is tried again at each tick"`,
		},
		"then what was made goes; the copy's volume with it, whatever its class says": {
			in: world(set(rollingBackOf(api.ClaimCopying), build.Replicas(3)), journalOf(web0), source(web0), target(web0)[:1],
				objects{build.Volume(new0, build.Target(copy0, web0, "128Mi", 1), keepsReleased())}),
			want: "do CleaningUp: patch persistentvolumeclaims data-web-0 {-label operation, -operation}; " +
				"patch persistentvolumes pv-data-web-0 {-label operation, -operation, -reclaim-policy, reclaim Delete}; " +
				"patch persistentvolumes pv-new-data-web-0 {reclaim Delete}; " +
				"delete persistentvolumeclaims " + copy0,
		},
		"a copy that was held already goes too": {
			in: world(set(rollingBackOf(api.ClaimVerified), build.Replicas(3)), journalOf(web0), source(web0), copied(web0)),
			want: "do CleaningUp: patch persistentvolumeclaims data-web-0 {-label operation, -operation}; " +
				"patch persistentvolumes pv-data-web-0 {-label operation, -operation, -reclaim-policy, reclaim Delete}; " +
				"patch persistentvolumes pv-new-data-web-0 {-label operation, -operation, -reclaim-policy, reclaim Delete}",
		},
		"I1: a claim that was switched before keeps its new volume, and its old one for the window": {
			in: world(set(rollingBackOf(api.ClaimSwitched), build.Replicas(3)), journalOf(web0), switched(web0)),
			want: "do CleaningUp: patch persistentvolumeclaims data-web-0 {-label operation, -operation}; " +
				"patch persistentvolumes pv-data-web-0 {+operation, +retained-until}; " +
				"patch persistentvolumes pv-new-data-web-0 {-label operation, -operation, -reclaim-policy, reclaim Delete}",
		},
		"I1: a claim that somebody deleted: its volume is kept for the window": {
			in:   world(set(rollingBackOf(api.ClaimPending), build.Replicas(3)), journalOf(web0), oldVolume(web0)),
			want: "do CleaningUp: patch persistentvolumes pv-data-web-0 {+operation, +retained-until}",
		},
		"a claim that somebody deleted, with a copy: the copy goes as its own policy says": {
			in: world(set(rollingBackOf(api.ClaimVerified), build.Replicas(3)), journalOf(web0), oldVolume(web0), copied(web0)),
			want: "do CleaningUp: patch persistentvolumes pv-data-web-0 {+operation, +retained-until}; " +
				"patch persistentvolumes pv-new-data-web-0 {-label operation, -operation, -reclaim-policy, reclaim Delete}",
		},
		"I1: a claim that somebody is deleting: the same, and we do not hold it": {
			in: world(set(rollingBackOf(api.ClaimPending), build.Replicas(3)), journalOf(web0), doomed(web0, "kubernetes.io/pvc-protection")),
			want: "do CleaningUp: patch persistentvolumeclaims data-web-0 {-finalizer switch, -label operation, -operation}; " +
				"patch persistentvolumes pv-data-web-0 {+operation, +retained-until}",
		},
		"I1: a claim that somebody replaced: old volume and copy are kept": {
			in: world(set(rollingBackOf(api.ClaimVerified), build.Replicas(3)), journalOf(web0), oldVolume(web0), copied(web0),
				objects{build.Claim(web0, "64Mi", build.On("pv-x"))}),
			want: "do CleaningUp: patch persistentvolumes pv-data-web-0 {+operation, +retained-until}; " +
				"patch persistentvolumes pv-new-data-web-0 {+operation, +retained-until}",
		},
		"a temporary claim does not go: that is waited for": {
			in: world(set(rollingBackOf(api.ClaimCopying, build.Due(-time.Second)), build.Replicas(3)), objects{build.Claim(web0, "64Mi")},
				target(web0, build.Deleting())),
			want: "wait CleaningUp (temporary claim " + copy0 + " is being deleted)",
		},
		"I8: but not for ever: the set is back, the rest is cleared later": {
			in: waited(world(set(rollingBackOf(api.ClaimCopying, build.Due(-time.Second)), build.Replicas(3)), objects{build.Claim(web0, "64Mi")},
				target(web0, build.Deleting()))),
			want: `do CopyFailed: patch statefulsets web {+status}; event CopyFailed "it failed; what is left is cleared later: temporary claim ` +
				copy0 + ` is being deleted" -> operation.failed`,
			next: "Failed CopyFailed at Copying, attempt 1, round 1, generation 0, replicas 3; data-web-0 Copying",
		},
		"nothing is left: it is said": {
			in:   world(set(rollingBackOf(api.ClaimCopying), build.Replicas(3)), objects{build.Claim(web0, "64Mi")}),
			want: `do CopyFailed: patch statefulsets web {+status}; event CopyFailed "it failed" -> operation.failed`,
			next: "Failed CopyFailed at Copying, attempt 1, round 1, generation 0, replicas 3; data-web-0 Copying",
		},
	})
	p := Decide(world(set(rollingBackOf(api.ClaimPending), build.Replicas(3)), journalOf(web0), oldVolume(web0)))
	if until := p.Actions[0].Ops[len(p.Actions[0].Ops)-1].Value; until != "2026-03-02T12:00:00Z" {
		t.Errorf("the window ends at %v", until)
	}
}

func keepsReleased() build.Option {
	return build.Edit(func(v *corev1.PersistentVolume) {
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	})
}

func TestI9Window(t *testing.T) {
	over, open := retired(web0, "2026-03-01T11:59:59Z"), retired(web1, "2026-03-01T12:00:00Z")
	also := retired("data-web-2", "2026-02-01T00:00:00Z")
	done := set(build.Operation(api.Succeeded))
	release := func(name string) string {
		return "patch persistentvolumes pv-" + name + " {-label operation, -operation, -reclaim-policy, -retained-until, reclaim Delete}"
	}
	check(t, map[string]row{
		"some windows are over: those volumes get their own reclaim policy back": {
			in:   world(done, objects{over, open, also}),
			want: "do VolumeReleased: " + release(web0) + "; " + release("data-web-2"),
		},
		"also when the set is gone": {
			in:   world(objects{over}),
			want: "do VolumeReleased: " + release(web0),
		},
		"no window is over": {in: world(done, objects{open}), want: "noop NotOurPhase"},
		"a time that cannot be read: the window begins again": {in: world(done, objects{retired(web0, "yesterday")}),
			want: "do VolumeOrphaned: patch persistentvolumes pv-data-web-0 {-retained-until, +retained-until}"},
		"a volume that is no old one is not given back, whatever its annotation says": {
			in:   world(done, objects{build.With(over.DeepCopy(), build.Link(api.RoleSource, web0, 0))}),
			want: "do VolumeOrphaned: patch persistentvolumes pv-data-web-0 {+operation, -retained-until, +retained-until}",
		},
		"a volume of another set that the status names": {
			in: world(set(build.Operation(api.Succeeded, build.Parts(api.ClaimSwitched, web0))),
				objects{build.With(over.DeepCopy(), build.LinkOf(api.Link{Operation: id, Role: api.RoleRetired, Namespace: build.Namespace, Set: api.SetRef{Name: "db"}, Claim: web0}))}),
			want: "noop NotOurPhase",
		},
		"a volume without window": {
			in:   world(done, objects{build.Volume(old0, build.Claim(web0, "64Mi"))}),
			want: "noop NotOurPhase",
		},
	})
}

// TestOrphanedVolumeGetsItsWindow: neither a set nor a journal tells of the operation that holds the volume.
func TestOrphanedVolumeGetsItsWindow(t *testing.T) {
	const (
		kept   = "do VolumeOrphaned: patch persistentvolumes pv-data-web-0 {+operation, +retained-until}"
		nobody = "noop NotOurPhase"
	)
	released := func(ago time.Duration) build.Option {
		return build.Edit(func(v *corev1.PersistentVolume) {
			v.Status.LastPhaseTransitionTime = operation.Moment(build.Now.Add(-ago))
		})
	}
	bound := build.Edit(func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeBound })
	other := objects{build.Set("web", build.UID("uid-2"))}
	rows := map[string]row{
		"the set and its journal are gone":         {in: world(oldVolume(web0)), want: kept},
		"another set has the name":                 {in: world(other, oldVolume(web0)), want: kept},
		"its operation ended without it":           {in: world(set(build.Operation(api.Failed)), oldVolume(web0)), want: kept},
		"an hour ago":                              {in: world(oldVolume(web0, released(time.Hour))), want: kept},
		"a minute ago: its claim may come back":    {in: world(oldVolume(web0, released(time.Minute))), want: nobody},
		"a claim has it":                           {in: world(oldVolume(web0, bound)), want: nobody},
		"its operation is under way":               {in: world(set(build.Operation(api.Copying)), oldVolume(web0)), want: nobody},
		"its operation is held":                    {in: world(set(build.Operation(api.Failed, func(s *api.Resize) { s.FailedAt = api.Switching })), oldVolume(web0)), want: nobody},
		"of another namespace":                     {in: world(oldVolume(web0, build.LinkOf(api.Link{Operation: id, Role: api.RoleSource, Namespace: "payroll", Set: api.SetRef{Name: "web"}}))), want: nobody},
		"it was reserved: for nobody any more":     {in: world(oldVolume(web0, build.Reserved(manifest(web0, old0, "64Mi")))), want: "do VolumeOrphaned: patch persistentvolumes pv-data-web-0 {+operation, +retained-until, -claim, no longer reserved}"},
		"the journal is there: the rest is undone": {in: world(journalOf(web0), oldVolume(web0)), want: "do CleaningUp: patch persistentvolumes pv-data-web-0 {+operation, +retained-until}"},
	}
	for _, role := range []api.Role{api.RoleTarget, api.RoleReturning} {
		rows["role "+string(role)] = row{in: world(oldVolume(web0, build.Link(role, web0, 0))), want: kept}
	}
	check(t, rows)
	for _, a := range Decide(rows["it was reserved: for nobody any more"].in).Actions {
		for _, op := range a.Ops {
			if ref, ok := op.Value.(*corev1.ObjectReference); ok && ref.UID == "" {
				t.Error("the next claim of that name in a namespace of that name is bound to it")
			}
		}
	}
}

func TestOtherPhasesAreOtherFunctions(t *testing.T) {
	check(t, map[string]row{
		"planned":                      {in: world(set(build.Operation(api.Planned))), want: "noop NotOurPhase"},
		"copying":                      {in: world(set(build.Operation(api.Copying)), journalOf(web0), source(web0)), want: "noop NotOurPhase"},
		"refused":                      {in: world(set(build.Operation(api.Refused))), want: "noop NotOurPhase"},
		"there is no set":              {in: world(), want: "noop NotOurPhase"},
		"a status that cannot be read": {in: world(objects{build.Set("web", build.Annotation(api.StatusAnnotation, "{}"))}, journalOf(web0)), want: "noop StatusInvalid"},
	})
}

// TestI3SetIsGoneOrAnother is about operations that no set tells of.
func TestI3SetIsGoneOrAnother(t *testing.T) {
	other := objects{build.Set("web", build.UID("uid-2"), build.Replicas(3), build.Template("data", "64Mi", "fixed"))}
	journal := journalOf(web0)
	fresh, back := manifest(web0, new0, "128Mi"), manifest(web0, old0, "64Mi")
	const told = `event SetReplaced "the StatefulSet was deleted or replaced during a resize; the resize was undone, every claim is whole" -> operation.failed`
	ordered := objects{build.With(journal[0].(*appsv1.ControllerRevision), build.Annotation(api.RecreateAnnotation, api.EncodeManifest(
		resources.MakeHeldSet(build.Raw(build.Set("web")), nil, build.Operation(api.Switching)))))}
	journal = journalOf(web0)
	check(t, map[string]row{
		"the movers go": {
			in:   world(journal, source(web0), target(web0), objects{build.Job(web0, 1)}),
			want: "do SetReplaced: delete jobs " + copy0,
		},
		"the set is gone, nothing was switched: all is given back": {
			in: world(journal, source(web0), target(web0)),
			want: "do CleaningUp: patch persistentvolumeclaims data-web-0 {-label operation, -operation}; " +
				"patch persistentvolumes pv-data-web-0 {-label operation, -operation, -reclaim-policy, reclaim Delete}; " +
				"delete persistentvolumeclaims " + copy0,
		},
		"I1: a frozen claim goes back on its old volume: nothing tells whether the copy is current": {
			in:   world(journal, doomed(web0), copied(web0)),
			want: "do SetReplaced: patch persistentvolumes pv-data-web-0 {+claim, reserved for data-web-0}",
		},
		"a claim that others hold still is waited for": {
			in:   world(other, journal, doomed(web0, "kubernetes.io/pvc-protection"), copied(web0)),
			want: "wait SetReplaced (claim data-web-0 is held by another finalizer of [drydock.dev/switch kubernetes.io/pvc-protection])",
		},
		"the name was given to the copy before: it stays so": {
			in:   world(other, journal, doomed(web0), copied(web0, build.Reserved(fresh))),
			want: "do SetReplaced: patch persistentvolumeclaims data-web-0 {-finalizer switch}; create persistentvolumeclaims data-web-0",
		},
		"the claim is created, with the new set waiting for it": {
			in:   world(other, journal, oldVolume(web0), copied(web0, build.Reserved(fresh))),
			want: "do SetReplaced: create persistentvolumeclaims data-web-0",
		},
		"also on its old volume": {
			in:   world(journal, oldVolume(web0, build.Reserved(back)), copied(web0)),
			want: "do SetReplaced: create persistentvolumeclaims data-web-0",
		},
		"the new set made the claim first, and it fits": {
			in:   world(other, journal, objects{build.Claim(web0, "64Mi", build.On(""))}, oldVolume(web0, build.Reserved(back)), copied(web0)),
			want: "wait SetReplaced (claim data-web-0 is not bound yet)",
		},
		"the new set made the claim first, too large for its volume": {
			in:   world(other, journal, objects{build.Claim(web0, "128Mi", build.On(""))}, oldVolume(web0, build.Reserved(back)), copied(web0)),
			want: "do SetReplaced: delete persistentvolumeclaims data-web-0",
		},
		"the set is gone, the claim is there without its link: it is not created twice": {
			in: world(journal, oldVolume(web0), objects{build.With(successor(web0, new0, "128Mi", build.Pending()), build.Edit(func(c *corev1.PersistentVolumeClaim) {
				delete(c.Annotations, api.OperationAnnotation)
			}))}, copied(web0, build.Reserved(fresh))),
			want: "wait SetReplaced (volume pv-new-data-web-0 is being bound to claim data-web-0)",
		},
		"bound to the copy: it is completed": {
			in: world(other, journal, oldVolume(web0), objects{successor(web0, new0, "128Mi", build.Finalizers("example.com/keep"))},
				copied(web0, build.Reserved(fresh), build.TakenBy(web0, "uid-successor"))),
			want: "do SetReplaced: patch persistentvolumes pv-new-data-web-0 {-claim}",
		},
		"bound to its old volume again: it is completed": {
			in: world(other, journal, objects{successor(web0, old0, "64Mi", build.Finalizers("example.com/keep"))},
				oldVolume(web0, build.Reserved(back), build.TakenBy(web0, "uid-successor")), copied(web0)),
			want: "do SetReplaced: patch persistentvolumes pv-data-web-0 {-claim}",
		},
		"the claim was deleted with its set: its volume is kept for the window": {
			in:   world(journal, oldVolume(web0)),
			want: "do CleaningUp: patch persistentvolumes pv-data-web-0 {+operation, +retained-until}",
		},
		"the old volume is gone: we do not hold the claim": {
			in:   world(journal, doomed(web0)[:1]),
			want: "do CleaningUp: patch persistentvolumeclaims data-web-0 {-finalizer switch, -label operation, -operation}",
		},
		"the journal goes last, and it is said": {
			in:   world(other, journal, objects{build.Claim(web0, "64Mi")}),
			want: "do CleaningUp: delete controllerrevisions drydock-0123456789ab; " + told,
		},
		"only the journal of an operation that ended was left: nothing is said": {
			in:   world(set(build.Operation(api.Succeeded)), journal),
			want: "do CleaningUp: delete controllerrevisions drydock-0123456789ab",
		},
		"I4: the very set lost its status while it was stopped: its replicas come back": {
			in:   world(objects{build.Set("web", zero, build.Template("data", "64Mi", "fixed"))}, journal, source(web0)),
			want: "do SetReplaced: patch statefulsets web {replicas 0 to 3}",
		},
		"I4: it lost its status, and somebody has started it": {
			in:   world(objects{build.Set("web", build.Replicas(1))}, journal, objects{build.Claim(web0, "64Mi")}),
			want: "do CleaningUp: delete controllerrevisions drydock-0123456789ab; " + told,
		},
		"I3: another set that is at zero is left there": {
			in:   world(objects{build.Set("web", zero, build.UID("uid-2"))}, journal, objects{build.Claim(web0, "64Mi")}),
			want: "do CleaningUp: delete controllerrevisions drydock-0123456789ab; " + told,
		},
		"another set has taken the name before we could create ours: ours is not created": {
			in:   world(other, ordered, objects{build.Claim(web0, "64Mi")}),
			want: "do CleaningUp: delete controllerrevisions drydock-0123456789ab; " + told,
		},
		"a journal that cannot be read": {
			in:   world(objects{build.With(journalOf(web0)[0].(*appsv1.ControllerRevision), garbage())}, source(web0)),
			want: `do LinkInvalid: event LinkInvalid "journal shop/drydock-0123456789ab: version is 99, this Drydock reads version 2; update Drydock"`,
		},
	})
}

func garbage() build.Option {
	return build.Edit(func(r *appsv1.ControllerRevision) { r.Data.Raw = []byte(`{"version":99,"status":{"version":99}}`) })
}

func TestI3SetIsCreatedAsItWasOrdered(t *testing.T) {
	before := build.Set("web", zero, build.Annotation("team", "data"), build.Template("data", "64Mi", "fixed"))
	status := with(switchingOf(web0), func(s *api.Resize) { s.Set.UID = "" })
	made := resources.MakeHeldSet(build.Raw(before), status.Templates, status)
	journal := build.With(journalOf(web0)[0].(*appsv1.ControllerRevision), build.Annotation(api.RecreateAnnotation, api.EncodeManifest(made)))
	p := Decide(world(objects{journal}, source(web0)))
	if p.String() != "do SwitchRunning: create statefulsets web" {
		t.Fatal(p)
	}
	created := build.As[appsv1.StatefulSet](p.Actions[0].Object)
	if created.UID != "" || created.ResourceVersion != "" || *created.Spec.Replicas != 0 || created.Annotations["team"] != "data" {
		t.Errorf("it is %+v", created)
	}
}

func TestClaimsThatAreMadeKeepWhatPeopleWrote(t *testing.T) {
	p := Decide(world(set(switchingOf(web0)), journalOf(web0), oldVolume(web0), copied(web0, build.Reserved(manifest(web0, new0, "128Mi")))))
	claim := build.As[corev1.PersistentVolumeClaim](p.Actions[0].Object)
	if claim.Annotations["people"] != "wrote this" || claim.Labels["app"] != "web" || claim.Spec.VolumeName != new0 || claim.UID != "" {
		t.Errorf("it is %+v", claim)
	}
	if _, linked := claim.Annotations[api.OperationAnnotation]; linked {
		t.Error("the link is there already; it is the write that wakes the volume controller")
	}
}
