package restore

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// TestSwapStepByStep shows a swap, each row as the step before left it.
// Invariants: I1.
func TestSwapStepByStep(t *testing.T) {
	at := append(setWith(movingOne(api.MemberSwapping)), append(journalOf(web0), heldPodOf(0)...)...)
	bare := successor(web0, new0, "128Mi", build.Label(api.OperationLabel, ""), build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Annotations, c.Finalizers = nil, []string{protection}
	}), build.Pending())
	reserved := copyVolume(web0, build.Reserved(manifest(web0, new0, "128Mi")))
	taken := build.TakenBy(web0, "uid-successor")
	goes := build.Deleting()
	check(t,
		testCase{"01 both volumes are retained; mover and temporary claim are deleted",
			situation(at, source(web0), target(web0), objects{build.Job(0, 1, build.Complete())})},
		testCase{"02 another process has reset the old volume: it is retained again",
			situation(at, source(web0)[:1], objects{build.VolumeOf(build.Claim(web0, "64Mi"))}, copyVolume(web0))},
		testCase{"03 another controller's finalizer would keep the claim after its deletion: the swap does not begin",
			situation(at, source(web0, build.Finalizers(protection, "example.com/keep")), target(web0))},
		testCase{"04 another controller keeps the temporary claim: restore waits",
			situation(at, source(web0), target(web0, goes, build.Finalizers(protection, "example.com/keep"))[:1], copyVolume(web0))},
		testCase{"05 a pod uses the temporary claim: restore waits",
			situation(at, source(web0), target(web0, goes)[:1], copyVolume(web0),
				objects{build.Pod("debug", []string{api.TargetName(id, web0, 0)})})},
		testCase{"06 the new volume is free: it is reserved for the name, with the successor's manifest",
			situation(at, source(web0), copyVolume(web0))},
		testCase{"07 the volume controller has not seen the reservation yet",
			situation(at, source(web0), copyVolume(web0, build.Reserved(manifest(web0, new0, "128Mi")), build.Released()))},
		testCase{"08 the old claim gets Drydock's finalizer before its deletion", situation(at, source(web0), reserved)},
		testCase{"09 the old claim is deleted", situation(at, source(web0, build.Finalizers(protection, api.FreezeFinalizer)), reserved)},
		testCase{"10 only the held pod uses the claim: its finalizers are removed, and the new claim is created",
			situation(at, frozenClaim(web0, protection), reserved)},
		testCase{"11 the process died when the old claim was gone", situation(at, oldVolume(web0), reserved)},
		testCase{"12 the new claim is being bound", situation(at, oldVolume(web0), objects{bare}, reserved)},
		testCase{"13 the volume is bound to the new claim: the old claim's labels and annotations are restored",
			situation(at, oldVolume(web0), objects{bare}, copyVolume(web0, build.Reserved(manifest(web0, new0, "128Mi")), taken))},
		testCase{"14 the claim itself is not bound yet",
			situation(at, oldVolume(web0), objects{successor(web0, new0, "128Mi", build.Pending())},
				copyVolume(web0, build.Reserved(manifest(web0, new0, "128Mi")), taken))},
		testCase{"15 the manifest is no longer needed: it is removed, and the pod is released",
			situation(at, oldVolume(web0), objects{successor(web0, new0, "128Mi")},
				copyVolume(web0, build.Reserved(manifest(web0, new0, "128Mi")), taken))},
		testCase{"16 the process died after the manifest was removed", situation(at, swappedClaim(web0))},
		testCase{"17 the claim is Lost because the volume no longer names its UID: the UID is restored",
			situation(at, oldVolume(web0), objects{successor(web0, new0, "128Mi",
				build.Edit(func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost }))}, reserved)},
	)
}

// TestClaimReturnsToOldVolumeAfterLostHold: the pod may have written to the old volume since the copy, so the claim stays there or
// returns to it.
// Invariants: I1.
func TestClaimReturnsToOldVolumeAfterLostHold(t *testing.T) {
	at := append(setWith(movingOne(api.MemberSwapping)), journalOf(web0)...)
	runs := pod(0, build.UID("uid-other"))
	back := manifest(web0, old0, "64Mi")
	reserved := copyVolume(web0, build.Reserved(manifest(web0, new0, "128Mi")))
	check(t,
		testCase{"the swap has not begun: the member is copied again", situation(at, runs, source(web0), target(web0))},
		testCase{"the held pod's finalizer was removed and the pod is gone: the member is copied again",
			situation(at, source(web0), copyVolume(web0))},
		testCase{"the new volume is reserved: that is withdrawn first", situation(at, runs, source(web0), reserved)},
		testCase{"the claim has Drydock's finalizer: it is not deleted",
			situation(at, runs, source(web0, build.Finalizers(protection, api.FreezeFinalizer)),
				copyVolume(web0))},
		testCase{"the claim was deleted while its pod was held, but the pod is gone: the claim returns to its old volume",
			situation(at, frozenClaim(web0, protection), reserved)},
		testCase{"an unscheduled replacement waits for the terminating claim: the claim returns to its old volume",
			situation(at, pod(0, build.UID("uid-other"), build.Edit(func(p *corev1.Pod) { p.Spec.NodeName = "" })), frozenClaim(web0,
				protection),
				reserved)},
		testCase{"a replacement runs on the terminating claim: its name gets the old volume",
			situation(at, runs, frozenClaim(web0, protection), copyVolume(web0))},
		testCase{"a replacement is unscheduled and the old volume is reserved: the pod is evicted before its name is locked",
			situation(at, pod(0, build.UID("uid-other"), build.Edit(func(p *corev1.Pod) {
				p.Spec.NodeName, p.Status.Phase = "",
					corev1.PodPending
			})),
				frozenClaim(web0, protection)[:1], oldVolume(web0, build.Reserved(back)), copyVolume(web0))},
		testCase{"the pod's name is locked: the claim that is being deleted is let go, and created on its old volume",
			situation(at, lock(0), frozenClaim(web0, protection)[:1], oldVolume(web0, build.Reserved(back)), copyVolume(web0))},
		testCase{"the claim is on its old volume again, and the pod's name is still locked",
			situation(at, lock(0), objects{successor(web0, old0, "64Mi", build.Finalizers(protection, "example.com/keep"))},
				oldVolume(web0, build.TakenBy(web0, "uid-successor")), copyVolume(web0))},
		testCase{"the old volume is reserved, and there is no pod: its name is locked before the claim goes",
			situation(at, frozenClaim(web0, protection)[:1], oldVolume(web0, build.Reserved(back)), copyVolume(web0))},
		testCase{"the claim is gone and its old volume is reserved: the claim is created on it",
			situation(at, oldVolume(web0, build.Reserved(back)), copyVolume(web0))},
		testCase{"the claim is on its old volume again: the member is copied again",
			situation(at, objects{successor(web0, old0, "64Mi", build.Finalizers(protection, "example.com/keep"))},
				oldVolume(web0, build.TakenBy(web0, "uid-successor")), copyVolume(web0))},
		testCase{"another pod uses the claim of a held member", situation(at, heldPodOf(0), source(web0), copyVolume(web0),
			objects{build.Pod("debug", []string{web0}, build.Edit(func(p *corev1.Pod) { p.Spec.NodeName = build.NodeName }))})},
	)
}

// TestForeignPodMakesCopyStale: another pod was placed on the claim between the observation and the deletion. After that pod is gone,
// nothing shows that it may have written, so the record keeps that fact.
// Invariants: I1.
func TestForeignPodMakesCopyStale(t *testing.T) {
	at := func(record *api.Resize) objects {
		return append(setWith(record), append(journalOf(web0), heldPodOf(0)...)...)
	}
	record := movingOne(api.MemberSwapping)
	reserved := copyVolume(web0, build.Reserved(manifest(web0, new0, "128Mi")))
	debug := objects{build.Pod("debug", []string{web0}, build.Edit(func(p *corev1.Pod) { p.Spec.NodeName = build.NodeName }))}
	if seen := build.Stored(Decide(situation(at(record), frozenClaim(web0, protection), reserved, debug))); seen != nil {
		record = seen
	}
	if p := Decide(situation(at(record), frozenClaim(web0, protection), reserved, debug)); p.Kind != plan.KindWait {
		t.Errorf("restore does not wait for the pod: %s", p)
	}
	if p := Decide(situation(at(record), frozenClaim(web0, protection), reserved)); writesOf(p)[0].Name != new0 ||
		slices.ContainsFunc(p.Actions,
			func(a plan.Action) bool { return a.Verb == plan.VerbCreate }) {
		t.Errorf("the pod is gone, and the claim gets a copy without its writes: %s", p)
	}
	back := oldVolume(web0, build.TakenBy(web0, "uid-successor"))
	p := Decide(situation(at(record), objects{successor(web0, old0, "64Mi", build.Finalizers(protection, "example.com/keep"))}, back,
		copyVolume(web0)))
	if again := build.Stored(p); again == nil || again.Member(0).Phase != api.MemberCopying || again.Member(0).Claims[0].Copies == 0 {
		t.Errorf("the member is not copied again, to another volume: %s", p)
	}
}

// TestMisplacedClaimReturnsToOldVolume: a process stood still between its observation and its writes. Then the hold was lost, and another
// process reserved the old volume. The first process created the claim on the new volume afterwards, and no volume controller binds that
// claim.
// Invariants: I1.
func TestMisplacedClaimReturnsToOldVolume(t *testing.T) {
	at := append(setWith(movingOne(api.MemberSwapping)), append(journalOf(web0), lock(0)...)...)
	back := oldVolume(web0, build.Reserved(manifest(web0, old0, "64Mi")))
	withdrawn := copyVolume(web0, build.TakenBy(web0, "uid-web"), build.Released())
	late := func(options ...build.Option) objects {
		return objects{successor(web0, new0, "128Mi", append([]build.Option{build.Pending()}, options...)...)}
	}
	check(t,
		testCase{"the claim was never bound: it is deleted", situation(at, late(build.Finalizers(protection)), back, withdrawn)},
		testCase{"another controller would keep it",
			situation(at, late(build.Finalizers(protection, "example.com/keep")), back, withdrawn)},
		testCase{"it is being deleted: its name gets the old volume",
			situation(at, late(build.Finalizers(protection), build.Deleting()), back, withdrawn)},
		testCase{"the claim is bound, so its pod may have written to the volume: it stays",
			situation(at, objects{successor(web0, new0, "128Mi", build.Finalizers(protection))}, back, copyVolume(web0,
				build.TakenBy(web0, "uid-successor")))},
	)
}

// TestSwapWithInterference: other processes change claims and volumes during the swap.
// Invariants: I1.
func TestSwapWithInterference(t *testing.T) {
	at := append(setWith(movingOne(api.MemberSwapping)), append(journalOf(web0), heldPodOf(0)...)...)
	reserved := copyVolume(web0, build.Reserved(manifest(web0, new0, "128Mi")))
	gold := build.Edit(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = ptr.To("gold") })
	class := build.Edit(func(v *corev1.PersistentVolume) { v.Spec.VolumeAttributesClassName = ptr.To("gold") })
	many := build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	})
	check(t,
		testCase{"the claim was deleted by hand before the swap: its name gets the verified copy",
			situation(at, oldVolume(web0), copyVolume(web0))},
		testCase{"the claim is being deleted by hand before its temporary claim is gone",
			situation(at, source(web0, build.Deleting()), target(web0))},
		testCase{"the claim is being deleted by hand: the copy is reserved for it",
			situation(at, source(web0, build.Deleting()), copyVolume(web0))},
		testCase{"another controller keeps a terminating claim",
			situation(at, frozenClaim(web0, protection, "example.com/keep"), reserved)},
		testCase{"a running pod uses the terminating claim",
			situation(at, frozenClaim(web0, protection), reserved, objects{build.Pod("debug", []string{web0},
				build.Edit(func(p *corev1.Pod) { p.Spec.NodeName = build.NodeName }))})},
		testCase{"the StatefulSet controller created the claim first: it is bound to the reserved volume",
			situation(at, oldVolume(web0), reserved, objects{build.Claim(web0, "64Mi", build.BoundTo(""))})},
		testCase{"the StatefulSet controller created the claim first, larger than the volume: it is empty and is deleted",
			situation(at, oldVolume(web0), reserved, objects{build.Claim(web0, "256Mi", build.BoundTo(""))})},
		testCase{"the StatefulSet controller's claim is being deleted: it is linked, because the fence protects unlinked claims",
			situation(at, oldVolume(web0), objects{build.Claim(web0, "64Mi", build.Pending(), build.Deleting())}, reserved)},
		testCase{"the StatefulSet controller created the claim first, of another class",
			situation(at, oldVolume(web0), reserved, objects{build.Claim(web0, "64Mi", build.BoundTo(""), build.OfClass("fast"))})},
		testCase{"the StatefulSet controller created the claim first, of another access mode",
			situation(at, oldVolume(web0), reserved, objects{build.Claim(web0, "64Mi", build.BoundTo(""), many)})},
		testCase{"the StatefulSet controller created the claim first, of another attributes class",
			situation(at, oldVolume(web0), reserved, objects{build.Claim(web0, "64Mi", build.BoundTo(""), gold)})},
		testCase{"claim and volume have the same attributes class: restore waits for the binding",
			situation(at, oldVolume(web0), objects{build.With(reserved[0].(*corev1.PersistentVolume).DeepCopy(), class)},
				objects{build.Claim(web0, "64Mi", build.BoundTo(""), gold)})},
		testCase{"the claim is on a third volume: the user must act",
			situation(at, oldVolume(web0), reserved, objects{build.Claim(web0, "64Mi", build.BoundTo("pv-x"))})},
		testCase{"the copy is gone: the member is copied again", situation(at, source(web0))},
		testCase{"the copy is being deleted: the member is copied again", situation(at, source(web0), copyVolume(web0, build.Deleting()))},
		testCase{"the old volume is gone, the claim names it still", situation(at, source(web0)[:1], copyVolume(web0))},
		testCase{"the old volume is gone, the claim is being deleted: the verified copy is reserved",
			situation(at, frozenClaim(web0, protection)[:1], copyVolume(web0))},
		testCase{"the old volume is gone, and the copy is not verified",
			situation(append(setWith(movingOne(api.MemberSwapping, build.EditMember(0, func(m *api.Member) { m.Claims[0].Verified = false }))),
				append(journalOf(web0), heldPodOf(0)...)...), source(web0)[:1], copyVolume(web0))},
		testCase{"the old volume is gone, the claim is being deleted, and the copy is not verified",
			situation(append(setWith(movingOne(api.MemberSwapping, build.EditMember(0, func(m *api.Member) { m.Claims[0].Verified = false }))),
				append(journalOf(web0), heldPodOf(0)...)...), frozenClaim(web0, protection)[:1], copyVolume(web0))},
		testCase{"the fourth stop failed: the operation is given up",
			situation(append(setWith(movingOne(api.MemberSwapping, build.EditMember(0, func(m *api.Member) { m.Stops = maxStops }))),
				journalOf(web0)...),
				pod(0, build.UID("uid-other")), source(web0), copyVolume(web0))},
		testCase{"the record names a copy that was not provisioned for the operation",
			situation(append(setWith(movingOne(api.MemberSwapping,
				build.EditMember(0,
					func(m *api.Member) { m.Claims[0].NewVolume = "pv-data-payroll-0" }))), append(journalOf(web0), heldPodOf(0)...)...),
				source(web0), objects{build.VolumeOf(build.Claim("data-payroll-0", "64Mi"), build.Released())})},
		testCase{"claim and copy are gone: the old volume is reserved", situation(at, oldVolume(web0))},
		testCase{"claim and volumes are gone: the user must act", situation(at)},
		testCase{"the swapped claim is being deleted: its name gets the same volume again", situation(at, oldVolume(web0),
			objects{successor(web0, new0, "128Mi", build.Deleting())}, copyVolume(web0, build.TakenBy(web0, "uid-successor")))},
		testCase{"the swap has passed its deadline: the record says why the member waits",
			situation(append(setWith(movingOne(api.MemberSwapping, build.MemberDue(0, -time.Second))), append(journalOf(web0),
				heldPodOf(0)...)...),
				frozenClaim(web0, "example.com/keep"), reserved)},
	)
}

// TestSwapNotBegunInTimeIsGivenUp: an untouched claim is complete on its old volume, so its pod need not stay stopped.
func TestSwapNotBegunInTimeIsGivenUp(t *testing.T) {
	keep := build.Finalizers(protection, "example.com/keep")
	at := append(setWith(movingOne(api.MemberSwapping, build.MemberDue(0, -time.Second))), append(journalOf(web0), heldPodOf(0)...)...)
	for name, claims := range map[string]objects{
		"another controller keeps the temporary claim": append(source(web0), append(target(web0, build.Deleting(), keep)[:1],
			copyVolume(web0)...)...),
		"another controller keeps the claim": append(source(web0, keep), copyVolume(web0)...),
	} {
		if p := Decide(with(situation(at, claims), longWait)); p.Reason != api.DeadlineExceeded || build.Stored(p).Phase != api.Reverting {
			t.Errorf("%s, and the pod stays held: %s", name, p)
		}
		if p := Decide(situation(at, claims)); build.Stored(p) != nil && build.Stored(p).Phase == api.Reverting {
			t.Errorf("%s, and the operation is given up immediately, although the functions may have been down: %s", name, p)
		}
	}
}

// TestSwapsOfTwoMembersNotBegunAreGivenUp: if the messages about the two members replaced each other on every event, the operation would
// never wait. Then nothing would show that the obstacle lasts.
func TestSwapsOfTwoMembersNotBegunAreGivenUp(t *testing.T) {
	keep := build.Finalizers(protection, "example.com/keep")
	in := func(record *api.Resize) Input {
		at := append(setWith(record, build.Replicas(2)), append(journalOf(web0, web1), append(heldPodOf(0), heldPodOf(1)...)...)...)
		for _, name := range []string{web0, web1} {
			at = append(at, append(source(name), append(target(name, build.Deleting(), keep)[:1], copyVolume(name)...)...)...)
		}
		return situation(at)
	}
	p := Decide(in(build.Operation(api.Moving, build.Members(api.MemberSwapping, web0, web1), build.MemberDue(0, -time.Second),
		build.MemberDue(1, -time.Second))))
	told := build.Stored(p)
	if told == nil || told.Reason != api.DeadlineExceeded {
		t.Fatalf("the obstacle is not reported: %s", p)
	}
	if p = Decide(in(told)); p.Kind != plan.KindWait {
		t.Errorf("the obstacle is reported twice: %s", p)
	}
	if p = Decide(with(in(told), longWait)); build.Stored(p) == nil || build.Stored(p).Phase != api.Reverting {
		t.Errorf("the obstacle lasts, and the pods stay held: %s", p)
	}
}

// TestRefusedSwapIsReported: a user cannot help a pod that stays held without a reason.
func TestRefusedSwapIsReported(t *testing.T) {
	at := append(setWith(movingOne(api.MemberSwapping, build.MemberDue(0, -time.Second))), append(journalOf(web0), heldPodOf(0)...)...)
	in := situation(at, oldVolume(web0), copyVolume(web0, build.Reserved(manifest(web0, new0, "128Mi"))))
	if p := Decide(in); build.Stored(p) != nil {
		t.Errorf("no obstacle is known yet, and one is reported: %s", p)
	}
	in.Rejected = "exceeded quota: team"
	if record := build.Stored(Decide(in)); record == nil || !strings.Contains(record.Message, in.Rejected) {
		t.Errorf("the refusal of the API server is missing in the record: %+v", record)
	}
}

// TestRefusedEndOfSwapIsReported: a webhook may refuse what users wrote on the old claim. The record must be written before such a step.
// If it came after, it would never say why the pod stays held, and no other member would continue.
func TestRefusedEndOfSwapIsReported(t *testing.T) {
	at := append(setWith(movingOne(api.MemberSwapping, build.MemberDue(0, -time.Second))), append(journalOf(web0), heldPodOf(0)...)...)
	bound := copyVolume(web0, build.Reserved(manifest(web0, new0, "128Mi")), build.TakenBy(web0, "uid-successor"))
	in := situation(at, oldVolume(web0), objects{build.With(successor(web0, new0, "128Mi"), build.Finalizers())}, bound)
	in.Rejected = "finalizer example.com/keep is not allowed"
	p := Decide(in)
	if record := build.Stored(p); record == nil || !strings.Contains(record.Message, in.Rejected) {
		t.Errorf("the refusal of the API server is missing in the record: %s", p)
	}
	if p.Actions[0].Resource != plan.StatefulSets {
		t.Errorf("the refused step comes before the record: %s", p)
	}
	in = situation(at, oldVolume(web0), objects{successor(web0, new0, "128Mi")}, bound)
	in.Rejected = "the annotation must stay"
	if p := Decide(in); p.Actions[0].Resource != plan.StatefulSets {
		t.Errorf("the removal of the manifest is refused, and the record comes after it: %s", p)
	}
}

// TestWholeResizeStartsMembersTogether: no pod starts before all members have their volumes.
func TestWholeResizeStartsMembersTogether(t *testing.T) {
	two := func(options ...func(*api.Resize)) objects {
		record := build.Operation(api.Moving, append([]func(*api.Resize){build.Members(api.MemberSwapping, web0, web1)}, options...)...)
		return append(setWith(record, build.Replicas(2)), append(journalOf(web0, web1), append(heldPodOf(0), heldPodOf(1)...)...)...)
	}
	last := build.EditMember(1, func(m *api.Member) { m.Phase = api.MemberFinalPass })
	check(t,
		testCase{"both continue together", situation(two(), source(web0), copyVolume(web0), source(web1), copyVolume(web1))},
		testCase{"one has its new volume, the other is swapped", situation(two(), swappedClaim(web0), source(web1), copyVolume(web1))},
		testCase{"one has its new volume, the other is still copied", situation(two(last), swappedClaim(web0), source(web1), target(web1))},
		testCase{"both have their new volumes: both are released", situation(two(), swappedClaim(web0), swappedClaim(web1))},
		testCase{"members that stop one after the other do not wait for each other",
			situation(two(build.Rolling, last), swappedClaim(web0), source(web1), target(web1))},
	)
}

// pinMover is the Job of the member's mover, with a pod that has made its copy and keeps the volumes attached.
func pinMover(options ...build.Option) objects {
	job := build.Job(0, 1)
	return objects{
		job,
		build.Mover(job, append([]build.Option{onNode, build.FinalPassSucceeded(moverreport.Signal{Hold: "uid-web-0", Attempt: 1})},
			options...)...),
	}
}

func onNode(o metav1.Object) { o.(*corev1.Pod).Spec.NodeName = build.NodeName }

// TestPinStaysDuringSwap: a mover that has made its copy keeps the volumes attached and does not block the swap. Any other mover does.
func TestPinStaysDuringSwap(t *testing.T) {
	at := append(setWith(movingOne(api.MemberSwapping)), append(journalOf(web0), heldPodOf(0)...)...)
	reserved := copyVolume(web0, build.Reserved(manifest(web0, new0, "128Mi")))
	kept := build.VolumeOf(build.Target(web0, "128Mi"), build.Retained(api.RoleTarget, web0))
	doomedTarget := func(options ...build.Option) objects {
		all := append([]build.Option{build.Deleting(), build.Finalizers(protection)}, options...)
		return objects{target(web0, all...)[0], kept}
	}
	another := func(options ...build.Option) objects {
		job := build.Job(0, 2)
		return objects{job, build.Mover(job, append([]build.Option{onNode}, options...)...)}
	}
	user := objects{build.Pod("debug", []string{api.TargetName(id, web0, 0)}, onNode)}
	one := build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	})
	single := objects{source(web0, one)[0], source(web0)[1]}
	ends := build.Edit(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
	check(t,
		testCase{"01 the temporary claim is deleted, the mover stays", situation(at, source(web0), target(web0), pinMover())},
		testCase{"02 only the mover uses the temporary claim: its protection is removed",
			situation(at, source(web0), doomedTarget(), pinMover())},
		testCase{"03 only the mover and the held pod use the claim: its finalizers are removed",
			situation(at, frozenClaim(web0, protection), reserved, pinMover())},
		testCase{"04 the member is released, the mover stays", situation(at, swappedClaim(web0), pinMover())},
		testCase{"a mover that still copies is ended", situation(at, source(web0), doomedTarget(), pinMover(build.FirstPassConverged()))},
		testCase{"a mover that still copies keeps the claim", situation(at, frozenClaim(web0, protection), reserved, another()[1:])},
		testCase{"a mover whose final pass has failed is ended", situation(at, source(web0), doomedTarget(),
			pinMover(build.FinalPassEnded(moverreport.MemberReport{Result: moverreport.ResultFailed, Code: moverreport.CodeIO})))},
		testCase{"beside another mover, which copies, both are ended", situation(at, source(web0), doomedTarget(), pinMover(), another())},
		testCase{"beside a Job that has no pod yet, both are ended",
			situation(at, source(web0), doomedTarget(), pinMover(), another()[:1])},
		testCase{"a pin of a member without a first pass is ended", situation(append(setWith(movingOne(api.MemberSwapping),
			build.Annotation(api.FirstPassAnnotation, api.FirstPassOff)), append(journalOf(web0), heldPodOf(0)...)...), source(web0),
			doomedTarget(), pinMover())},
		testCase{"a pin that was evicted is ended", situation(at, source(web0), doomedTarget(), pinMover(ends))},
		testCase{"a pin is terminating: restore waits", situation(at, source(web0), doomedTarget(), pinMover(build.Deleting())[1:])},
		testCase{"another pod also uses the temporary claim", situation(at, source(web0), doomedTarget(), pinMover(), user)},
		testCase{"another controller keeps the temporary claim",
			situation(at, source(web0), doomedTarget(build.Finalizers(protection, "example.com/keep")), pinMover())},
		testCase{"no second pod may use the claim: the mover is deleted first", situation(at, single, target(web0), pinMover())},
		testCase{"no second pod may use the new claim: the mover is deleted first",
			situation(at, source(web0), doomedTarget(one), pinMover())},
	)
}

// TestPinOfOtherNodeStays: a member whose node could run no mover, and that was copied on another node, has pins like any other member.
// Its new pod has no node yet, and another process deletes its claim: the volume is reserved again.
func TestPinOfOtherNodeStays(t *testing.T) {
	starting := pod(0, build.UID("uid-new"), build.InPhase(corev1.PodPending), build.Edit(func(p *corev1.Pod) {
		p.Spec.NodeName, p.Status.Conditions, p.Status.ContainerStatuses = "", nil, nil
	}))
	decide := func(refusing string) string {
		record := movingOne(api.MemberStarting, build.EditMember(0, func(m *api.Member) { m.RefusingNode = refusing }))
		return Decide(situation(setWith(record), journalOf(web0), oldVolume(web0), pinMover(), starting,
			objects{successor(web0, new0, "128Mi", build.Deleting(), build.Finalizers(protection))},
			copyVolume(web0, build.TakenBy(web0, "uid-successor")))).String()
	}
	none, other, same := decide(""), decide("node-0"), decide("node-1")
	if !strings.Contains(none, "reserve") || other != none || same == none {
		t.Errorf("no refusing node: %s\nanother node: %s\nthe node of the copy: %s", none, other, same)
	}
}

// TestPinEndsAfterMemberStarts: the pin ends with the member's move, or earlier if it blocks the pod.
func TestPinEndsAfterMemberStarts(t *testing.T) {
	at := append(setWith(movingOne(api.MemberStarting)), append(journalOf(web0), swappedClaim(web0)...)...)
	starts := func(options ...build.Option) objects {
		all := []build.Option{build.UID("uid-new"), build.InPhase(corev1.PodPending), build.Edit(func(p *corev1.Pod) {
			p.Status.Conditions, p.Status.ContainerStatuses = nil, nil
		})}
		return pod(0, append(all, options...)...)
	}
	nowhere := build.Edit(func(p *corev1.Pod) { p.Spec.NodeName = "" })
	elsewhere := build.Edit(func(p *corev1.Pod) { p.Spec.NodeName = "node-2" })
	noRoom := build.Edit(func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
			Reason: corev1.PodReasonUnschedulable}}
	})
	unmounted := func(since time.Duration) build.Option {
		return build.Edit(func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse,
				LastTransitionTime: metav1.NewTime(build.Now.Add(-since))}}
		})
	}
	check(t,
		testCase{"its pod starts on the node that has the volumes", situation(at, pinMover(), starts())},
		testCase{"its pod is not placed yet: restore waits a moment", situation(at, pinMover(), starts(nowhere))},
		testCase{"its pod was placed on another node: the pin ends", situation(at, pinMover(), starts(elsewhere))},
		testCase{"its node does not mount a volume beside the pin: the pin ends",
			situation(at, pinMover(), starts(onNode, unmounted(time.Minute)))},
		testCase{"its node may still mount the volumes", situation(at, pinMover(), starts(onNode, unmounted(time.Second)))},
		testCase{"its pod finds no room because the pin takes some: the pin ends", situation(at, pinMover(), starts(nowhere, noRoom))},
		testCase{"another process has deleted its claim, which the pin would keep",
			situation(setWith(movingOne(api.MemberStarting)), journalOf(web0), oldVolume(web0), pinMover(), starts(nowhere),
				objects{successor(web0, new0, "128Mi", build.Deleting())}, copyVolume(web0, build.TakenBy(web0, "uid-successor")))},
		testCase{"the operation was given up, and another process has deleted the claim, which the pin would keep",
			situation(setWith(build.Operation(api.Reverting, build.Members(api.MemberStarting, web0))), journalOf(web0), oldVolume(web0),
				pinMover(),
				starts(nowhere), objects{successor(web0, new0, "128Mi", build.Deleting())}, copyVolume(web0, build.TakenBy(web0,
					"uid-successor")))},
		testCase{"it is ready: the pin is no longer needed", situation(at, pinMover(), pod(0, build.UID("uid-new")))},
	)
}

// TestSwapInRareSituations has rows that each need a guard that no common situation exercises.
// Invariants: I1.
func TestSwapInRareSituations(t *testing.T) {
	record := setWith(movingOne(api.MemberSwapping))
	at := append(record, append(journalOf(web0), heldPodOf(0)...)...)
	lost := append(setWith(movingOne(api.MemberSwapping)), journalOf(web0)...)
	other := build.UID("uid-other")
	back := oldVolume(web0, build.Reserved(manifest(web0, old0, "64Mi")))
	wantsMore := build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Resources.Requests = build.Claim(web0, "1Gi").Spec.Resources.Requests
	})
	unread := func(in *Input) { in.ClaimManifests = nil }
	check(t,
		testCase{"the claim has changed since it was read: nothing is reserved for it",
			with(situation(at, source(web0), copyVolume(web0)), unread)},
		testCase{"a claim that failed to grow returns: it requests the size of its old volume",
			situation(lost, pod(0, other), source(web0, wantsMore, build.Deleting(), build.Finalizers(api.FreezeFinalizer, protection))[:1],
				oldVolume(web0), copyVolume(web0))},
		testCase{"the reservation was not seen by the volume controller when the claim was deleted: the claim stays",
			situation(at, frozenClaim(web0, protection), copyVolume(web0, build.Reserved(manifest(web0, new0, "128Mi")),
				build.Released()))},
		testCase{"the set wants no such member any more: the claim is let go without a lock",
			situation(setWith(movingOne(api.MemberSwapping), build.Replicas(0)), journalOf(web0), frozenClaim(web0, protection)[:1], back,
				copyVolume(web0))},
		testCase{"the pod is not held any more, and is ending: the claim stays until it has gone",
			situation(lost, pod(0, other, build.Deleting()), frozenClaim(web0, protection)[:1], back, copyVolume(web0))},
		testCase{"the successor was deleted when it was bound: its volume is reserved again",
			situation(at, oldVolume(web0), copyVolume(web0, build.Reserved(manifest(web0, new0, "128Mi")), build.TakenBy(web0,
				"uid-successor")))},
	)
}

// TestReturnedClaimRequestsSizeOfVolume: Kubernetes binds no claim to a reserved volume that is too small.
func TestReturnedClaimRequestsSizeOfVolume(t *testing.T) {
	claim := source(web0, build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Resources.Requests = build.Claim(web0, "1Gi").Spec.Resources.Requests
	}), build.Deleting(), build.Finalizers(api.FreezeFinalizer, protection))[:1]
	p := Decide(situation(setWith(movingOne(api.MemberSwapping)), journalOf(web0), pod(0, build.UID("uid-other")), claim, oldVolume(web0),
		copyVolume(web0)))
	if len(writesOf(p)) != 1 || writesOf(p)[0].Name != old0 {
		t.Fatalf("volume %s is not reserved: %s", old0, p)
	}
	stored := false
	for _, op := range writesOf(p)[0].Ops {
		text, is := op.Value.(string)
		stored = stored || is && strings.Contains(text, `"storage":"64Mi"`) && !strings.Contains(text, `"storage":"1Gi"`)
	}
	if !stored {
		t.Errorf("the claim to come asks for more than volume %s has: %+v", old0, writesOf(p)[0].Ops)
	}
}

// TestClaimOwnerBlocksAsBefore: an owner whose deletion waited for the claim also waits for its successor, unless the API server refuses
// that.
func TestClaimOwnerBlocksAsBefore(t *testing.T) {
	for _, blocked := range []bool{true, false} {
		for _, may := range []bool{true, false} {
			owner := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "team", UID: "uid-team"}
			if blocked {
				owner.BlockOwnerDeletion = ptr.To(true)
			}
			patch := plan.PatchOf(plan.Claims, build.Claim(web0, "64Mi"))
			mergeOwners(patch, build.Claim(web0, "64Mi"), []metav1.OwnerReference{owner}, may)
			ops := patch.Actions()[0].Ops
			made, is := ops[len(ops)-1].Value.(metav1.OwnerReference)
			if !is || ptr.Deref(made.BlockOwnerDeletion, false) != (blocked && may) {
				t.Errorf("blocked before: %t, allowed: %t, the owner is added as %+v", blocked, may, made)
			}
			if !blocked && made.BlockOwnerDeletion != nil {
				t.Errorf("the owner had no such field, and has one: %+v", made)
			}
		}
	}
}

// TestStopInRareSituations is to stops what TestSwapInRareSituations is to swaps.
func TestStopInRareSituations(t *testing.T) {
	rollback := func(options ...func(*api.Resize)) objects {
		r := rollingBack(api.Moving, append(options, build.Rolling)...)
		return append(setWith(r, build.Replicas(2)), build.Journal(r))
	}
	both := append(append(source(web0), source(web1)...), append(returning(web0), returning(web1)...)...)
	check(t,
		testCase{"another member is lost just when the stop is proven: the pod is released",
			situation(lastOfThree(api.MemberStopping, build.MemberDue(2, time.Minute)), otherMembers(notReady()), heldPodOf(2))},
		testCase{"in a rolling rollback, a member that has stopped does not wait for the others",
			situation(rollback(build.Members(api.MemberWaiting, web0), build.Members(api.MemberStopping, web1)), both, pod(0),
				heldPodOf(1))},
		testCase{"a member has its new volumes while the final pass of another one runs",
			situation(setWith(build.Operation(api.Moving, build.Members(api.MemberFinalPass, web0), build.Members(api.MemberSwapping,
				web1)),
				build.Replicas(2)), journalOf(web0, web1), source(web0), target(web0), swappedClaim(web1), heldPodOf(0), heldPodOf(1))},
		testCase{"the first of two members is ready on its new volumes: backup continues with the other one",
			situation(setWith(build.Operation(api.Moving, build.Rolling, build.Members(api.MemberPending, web0),
				build.Members(api.MemberStarting, web1)), build.Replicas(2)), journalOf(web0, web1),
				source(web0), swappedClaim(web1), pod(0), pod(1, build.UID("uid-new")))},
		testCase{"a mover keeps the terminating claim of a ready pod: the mover ends before the member counts as moved",
			situation(setWith(movingOne(api.MemberStarting)), journalOf(web0), oldVolume(web0), pinMover(), pod(0, build.UID("uid-new")),
				objects{successor(web0, new0, "128Mi", build.Deleting())}, copyVolume(web0, build.TakenBy(web0, "uid-successor")))},
	)
}

// TestForeignFinalizerOnClaimBlocksStop: such a claim could not be replaced while its pod is stopped.
func TestForeignFinalizerOnClaimBlocksStop(t *testing.T) {
	foreign := build.Finalizers(protection, "example.com/keep")
	at := func(record *api.Resize, claim objects) Input {
		return situation(setWith(record), journalOf(web0), claim, target(web0), pod(0))
	}
	first := Decide(at(movingOne(api.MemberWaiting), source(web0, foreign)))
	again := build.Stored(first)
	if again == nil {
		t.Fatalf("the finalizer is not reported: %s", first)
	}
	check(t,
		testCase{"the finalizer is reported", at(movingOne(api.MemberWaiting), source(web0, foreign))},
		testCase{"the finalizer is reported only once", at(again, source(web0, foreign))},
		testCase{"a claim that was moved already does not count", at(movingOne(api.MemberWaiting, build.EditMember(0, func(m *api.Member) {
			m.Claims[0].Moved = true
		})), source(web0, foreign))},
	)
}

// TestDeletedClaimDoesNotEndOperationOfStoppedMember: if the pod is already stopped or Drydock will not stop it, giving up would gain
// nothing.
func TestDeletedClaimDoesNotEndOperationOfStoppedMember(t *testing.T) {
	logs := build.Claim("logs-web-0", "1Gi", build.Deleting())
	leaves := objects{logs, build.VolumeOf(logs)}
	memberIn := func(phase api.MemberPhase, claims objects, pods objects) Input {
		return situation(setWith(movingOne(phase), build.Template("logs", "1Gi", "fixed")), journalOf(web0), claims, leaves, pods)
	}
	copying := append(source(web0), target(web0)...)
	check(t,
		testCase{"its member has no pod", memberIn(api.MemberWaiting, copying, nil)},
		testCase{"its pod is terminating", memberIn(api.MemberWaiting, copying, pod(0, build.Deleting()))},
		testCase{"its member starts", memberIn(api.MemberStarting, swappedClaim(web0), pod(0, build.UID("uid-new"), notReady()))},
		testCase{"its member is moved", memberIn(api.MemberMoved, swappedClaim(web0), pod(0, build.UID("uid-new")))},
	)
}

// TestEndInRareSituations is to the end of an operation what TestSwapInRareSituations is to swaps.
func TestEndInRareSituations(t *testing.T) {
	record := givenUp(api.MemberKept, build.ReplacesSet, build.Due(-time.Second))
	late := situation(setWith(record), journalOf(web0), untouchedClaim(web0), pod(0))
	late.Rejected = "exceeded quota: team"
	finishing := build.Operation(api.Finishing, build.Members(api.MemberMoved, web0))
	successorOf := successor(web0, new0, "128Mi", build.Annotation(api.ReplicaOfAnnotation, "uid-before"))
	marked := append(oldVolume(web0), successorOf, build.VolumeOf(successorOf, build.Retained(api.RoleTarget, web0)))
	before := build.Journal(build.Operation(api.Moving, build.Members(api.MemberPending, web0),
		func(r *api.Resize) { r.Set.UID = "uid-before" }))
	letters := build.Annotation(api.DeadLettersAnnotation, "1")
	dead := build.Operation(api.Finishing, build.Members(api.MemberMoved, web0))
	check(t,
		testCase{"the API server refuses the old templates past the deadline: the set keeps the new ones", late},
		testCase{"a claim of the replaced set counts as a claim of the new set",
			situation(setWith(finishing), objects{before}, marked, pod(0))},
		testCase{"the operation has succeeded: its dead letters are removed",
			situation(setWith(dead, letters), swappedAndTidied(), pod(0))},
		testCase{"the operation has failed: its dead letters stay",
			situation(setWith(givenUp(api.MemberKept), letters), untouchedClaim(web0), pod(0))},
	)
}

// swappedAndTidied is a claim on its new volume, without a trace of an operation.
func swappedAndTidied() objects {
	claim := build.Claim(web0, "128Mi", build.BoundTo(new0))
	return objects{claim, build.VolumeOf(claim)}
}

// TestTemplatesOnlyOperationWritesJournalFirst: such an operation begins without a journal, and writes it before it touches the set.
func TestTemplatesOnlyOperationWritesJournalFirst(t *testing.T) {
	templates := build.Operation(api.Moving, build.ReplacesSet, build.DerivedID)
	ordered := movingOne(api.MemberWaiting, build.ReplacesSet)
	kept := givenUp(api.MemberKept, build.ReplacesSet)
	order := build.Annotation(api.RecreateAnnotation, "{}")
	check(t,
		testCase{"the journal is created first", situation(setWithOldTemplate(templates), pod(0))},
		testCase{"another controller's finalizer was added after the order: the order is withdrawn",
			situation(setWith(kept, build.Finalizers("example.com/keep")),
				objects{build.With(journalOf(web0)[0].(*appsv1.ControllerRevision), order)},
				untouchedClaim(web0), pod(0))},
		testCase{"the order stays while the gate is open",
			situation(setWithOldTemplate(ordered), journalOf(web0), source(web0), target(web0), pod(0))},
	)
}

// TestEnlargedClaimIsNotReplaced: another client enlarges a claim while it is copied to a volume of 128Mi. A swap would undo that.
// Invariants: I1.
func TestEnlargedClaimIsNotReplaced(t *testing.T) {
	sized := func(requested, capacity string) build.Option {
		return build.Edit(func(c *corev1.PersistentVolumeClaim) {
			c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(requested)}
			c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(capacity)}
		})
	}
	for name, row := range map[string]struct {
		claim build.Option
		fails bool
	}{
		"to more than the copy":               {sized("1Gi", "1Gi"), true},
		"to less than the copy":               {sized("100Mi", "100Mi"), false},
		"the storage has not enlarged it yet": {sized("1Gi", "64Mi"), false},
		"not at all":                          {sized("64Mi", "64Mi"), false},
	} {
		for phase, pods := range map[api.MemberPhase]objects{api.MemberWaiting: pod(0), api.MemberFinalPass: heldPodOf(0),
			api.MemberSwapping: heldPodOf(0)} {
			in := situation(setWith(movingOne(phase)), journalOf(web0), source(web0, row.claim), target(web0), pods)
			p := Decide(in)
			record := build.Stored(p)
			fails := p.Reason == api.ClaimEnlarged && record != nil && record.Phase == api.Reverting
			if fails != row.fails {
				t.Errorf("%s, %s: %s, want it to be given up: %t", name, phase, p, row.fails)
			}
		}
	}
}
