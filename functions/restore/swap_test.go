package restore

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// TestSwapOfOneClaim is the story of a swap: each row is what the step before has led to.
func TestSwapOfOneClaim(t *testing.T) {
	at := append(set(moving0(api.MemberSwapping)), append(journal(web0), held(0)...)...)
	bare := successor(web0, new0, "128Mi", build.Label(api.OperationLabel, ""), build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Annotations, c.Finalizers = nil, []string{protection}
	}), build.Pending())
	reserved := copied(web0, build.Reserved(manifest(web0, new0, "128Mi")))
	taken := build.TakenBy(web0, "uid-successor")
	goes := build.Deleting()
	check(t,
		row{"01 both volumes are retained, mover and temporary claim go",
			given(at, source(web0), target(web0), objects{build.Job(0, 1, build.Complete())})},
		row{"02 an old volume that another process has set back is retained again",
			given(at, source(web0)[:1], objects{build.VolumeOf(build.Claim(web0, "64Mi"))}, copied(web0))},
		row{"03 a finalizer of another controller would keep the claim after its deletion, so it is not begun",
			given(at, source(web0, build.Finalizers(protection, "example.com/keep")), target(web0))},
		row{"04 a temporary claim that is kept by another controller is waited for",
			given(at, source(web0), target(web0, goes, build.Finalizers(protection, "example.com/keep"))[:1], copied(web0))},
		row{"05 a temporary claim that a pod uses is waited for",
			given(at, source(web0), target(web0, goes)[:1], copied(web0),
				objects{build.Pod("debug", []string{api.TargetName(id, web0, 0)})})},
		row{"06 the new volume is free: it is reserved for the name, with the claim to come", given(at, source(web0), copied(web0))},
		row{"07 the volume controller has not seen the reservation yet",
			given(at, source(web0), copied(web0, build.Reserved(manifest(web0, new0, "128Mi")), build.Released()))},
		row{"08 the old claim gets our finalizer before it is deleted", given(at, source(web0), reserved)},
		row{"09 it is deleted", given(at, source(web0, build.Finalizers(protection, api.SwitchFinalizer)), reserved)},
		row{"10 only the held pod uses it: protection and finalizer are taken off, and the new claim is created",
			given(at, doomed(web0, protection), reserved)},
		row{"11 the process died when the old claim was gone", given(at, oldVolume(web0), reserved)},
		row{"12 the new claim is being bound", given(at, oldVolume(web0), objects{bare}, reserved)},
		row{"13 the volume is bound to it: what people wrote on the old claim comes back",
			given(at, oldVolume(web0), objects{bare}, copied(web0, build.Reserved(manifest(web0, new0, "128Mi")), taken))},
		row{"14 the claim itself is not bound yet", given(at, oldVolume(web0), objects{successor(web0, new0, "128Mi", build.Pending())},
			copied(web0, build.Reserved(manifest(web0, new0, "128Mi")), taken))},
		row{"15 the manifest has served: it goes, and the pod is released",
			given(at, oldVolume(web0), objects{successor(web0, new0, "128Mi")},
				copied(web0, build.Reserved(manifest(web0, new0, "128Mi")), taken))},
		row{"16 the process died after the manifest was removed", given(at, switched(web0))},
		row{"17 the claim is lost since the volume does not name its UID any more: it does again",
			given(at, oldVolume(web0), objects{successor(web0, new0, "128Mi", build.Edit(func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost }))}, reserved)},
	)
}

// TestSwapOfOneClaimWhoseHoldIsGone: the pod may have run on the old volume since it was copied, so the claim stays there or goes back.
func TestSwapOfOneClaimWhoseHoldIsGone(t *testing.T) {
	at := append(set(moving0(api.MemberSwapping)), journal(web0)...)
	runs := pod(0, build.UID("uid-other"))
	back := manifest(web0, old0, "64Mi")
	reserved := copied(web0, build.Reserved(manifest(web0, new0, "128Mi")))
	check(t,
		row{"nothing was begun: the member is copied again", given(at, runs, source(web0), target(web0))},
		row{"the held pod's finalizer was removed and the pod is gone: the member is copied again", given(at, source(web0), copied(web0))},
		row{"the new volume is reserved: that is withdrawn first", given(at, runs, source(web0), reserved)},
		row{"the claim was marked: it is not deleted", given(at, runs, source(web0, build.Finalizers(protection, api.SwitchFinalizer)),
			copied(web0))},
		row{"the claim was deleted while its pod was held: nothing tells what has happened since, so it goes back",
			given(at, doomed(web0, protection), reserved)},
		row{"a replacement waits for the claim that is being deleted, on no node: the claim goes back",
			given(at, pod(0, build.UID("uid-other"), build.Edit(func(p *corev1.Pod) { p.Spec.NodeName = "" })), doomed(web0, protection),
				reserved)},
		row{"a replacement runs on the claim that is being deleted: its name gets the old volume",
			given(at, runs, doomed(web0, protection), copied(web0))},
		row{"a replacement waits on no node, and the old volume is reserved: the pod goes first, and its name is locked then",
			given(at, pod(0, build.UID("uid-other"), build.Edit(func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase = "", corev1.PodPending })),
				doomed(web0, protection)[:1], oldVolume(web0, build.Reserved(back)), copied(web0))},
		row{"the pod's name is locked: the claim that is being deleted is let go, and created on its old volume",
			given(at, lock(0), doomed(web0, protection)[:1], oldVolume(web0, build.Reserved(back)), copied(web0))},
		row{"the claim is on its old volume again, and the pod's name is locked still",
			given(at, lock(0), objects{successor(web0, old0, "64Mi", build.Finalizers(protection, "example.com/keep"))},
				oldVolume(web0, build.TakenBy(web0, "uid-successor")), copied(web0))},
		row{"the old volume is reserved, and there is no pod: its name is locked before the claim goes",
			given(at, doomed(web0, protection)[:1], oldVolume(web0, build.Reserved(back)), copied(web0))},
		row{"the claim is gone, its old volume is reserved: it is created on that",
			given(at, oldVolume(web0, build.Reserved(back)), copied(web0))},
		row{"the claim is on its old volume again: the member is copied again",
			given(at, objects{successor(web0, old0, "64Mi", build.Finalizers(protection, "example.com/keep"))},
				oldVolume(web0, build.TakenBy(web0, "uid-successor")), copied(web0))},
		row{"another pod uses the claim of a held member", given(at, held(0), source(web0), copied(web0),
			objects{build.Pod("debug", []string{web0}, build.Edit(func(p *corev1.Pod) { p.Spec.NodeName = build.NodeName }))})},
	)
}

// TestPodThatUsedTheClaimBesideTheSwapMakesTheCopyStale: another pod was placed on the claim between the look and the deletion, and runs on.
// When it has gone, nothing shows any more that it may have written, so the record keeps it.
func TestPodThatUsedTheClaimBesideTheSwapMakesTheCopyStale(t *testing.T) {
	at := func(record *api.Resize) objects { return append(set(record), append(journal(web0), held(0)...)...) }
	record := moving0(api.MemberSwapping)
	reserved := copied(web0, build.Reserved(manifest(web0, new0, "128Mi")))
	debug := objects{build.Pod("debug", []string{web0}, build.Edit(func(p *corev1.Pod) { p.Spec.NodeName = build.NodeName }))}
	if seen := build.Stored(Decide(given(at(record), doomed(web0, protection), reserved, debug))); seen != nil {
		record = seen
	}
	if p := Decide(given(at(record), doomed(web0, protection), reserved, debug)); p.Kind != plan.KindWait {
		t.Errorf("the pod is not waited for: %s", p)
	}
	if p := Decide(given(at(record), doomed(web0, protection), reserved)); writesOf(p)[0].Name != new0 || slices.ContainsFunc(p.Actions,
		func(a plan.Action) bool { return a.Verb == plan.VerbCreate }) {
		t.Errorf("the pod has gone, and the claim gets a copy without its writes: %s", p)
	}
	back := oldVolume(web0, build.TakenBy(web0, "uid-successor"))
	p := Decide(given(at(record), objects{successor(web0, old0, "64Mi", build.Finalizers(protection, "example.com/keep"))}, back, copied(web0)))
	if again := build.Stored(p); again == nil || again.Member(0).Phase != api.MemberCopying || again.Member(0).Claims[0].Copies == 0 {
		t.Errorf("the member is not copied again, to another volume: %s", p)
	}
}

// TestClaimOnAVolumeThatIsNotReservedForItAnyMoreGoesBack: a process stood still between its look and its writes. Meanwhile the hold was lost,
// and another process has reserved the old volume. The first one has created the claim on the new volume then, which no volume controller binds.
func TestClaimOnAVolumeThatIsNotReservedForItAnyMoreGoesBack(t *testing.T) {
	at := append(set(moving0(api.MemberSwapping)), append(journal(web0), lock(0)...)...)
	back := oldVolume(web0, build.Reserved(manifest(web0, old0, "64Mi")))
	withdrawn := copied(web0, build.TakenBy(web0, "uid-web"), build.Released())
	late := func(options ...build.Option) objects {
		return objects{successor(web0, new0, "128Mi", append([]build.Option{build.Pending()}, options...)...)}
	}
	check(t,
		row{"the claim was never bound: it goes", given(at, late(build.Finalizers(protection)), back, withdrawn)},
		row{"another controller would keep it", given(at, late(build.Finalizers(protection, "example.com/keep")), back, withdrawn)},
		row{"it is being deleted: its name gets the old volume",
			given(at, late(build.Finalizers(protection), build.Deleting()), back, withdrawn)},
		row{"the claim is bound, so its pod may have written to it: it stays",
			given(at, objects{successor(web0, new0, "128Mi", build.Finalizers(protection))}, back, copied(web0, build.TakenBy(web0, "uid-successor")))},
	)
}

// TestSwapOfClaimThatOthersTouched: what was not done by Drydock.
func TestSwapOfClaimThatOthersTouched(t *testing.T) {
	at := append(set(moving0(api.MemberSwapping)), append(journal(web0), held(0)...)...)
	reserved := copied(web0, build.Reserved(manifest(web0, new0, "128Mi")))
	gold := build.Edit(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = ptr.To("gold") })
	class := build.Edit(func(v *corev1.PersistentVolume) { v.Spec.VolumeAttributesClassName = ptr.To("gold") })
	many := build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	})
	check(t,
		row{"the claim was deleted by hand before anything was begun: its name gets the verified copy",
			given(at, oldVolume(web0), copied(web0))},
		row{"the claim is being deleted by hand before its temporary claim has gone",
			given(at, source(web0, build.Deleting()), target(web0))},
		row{"the claim is being deleted by hand: the copy is reserved for it", given(at, source(web0, build.Deleting()), copied(web0))},
		row{"a claim that is being deleted is kept by another controller",
			given(at, doomed(web0, protection, "example.com/keep"), reserved)},
		row{"a running pod uses the claim that is being deleted",
			given(at, doomed(web0, protection), reserved, objects{build.Pod("debug", []string{web0},
				build.Edit(func(p *corev1.Pod) { p.Spec.NodeName = build.NodeName }))})},
		row{"the StatefulSet controller made the claim first: it is bound to the reserved volume",
			given(at, oldVolume(web0), reserved, objects{build.Claim(web0, "64Mi", build.On(""))})},
		row{"the StatefulSet controller made the claim first, larger than the volume: it is empty, and goes",
			given(at, oldVolume(web0), reserved, objects{build.Claim(web0, "256Mi", build.On(""))})},
		row{"the claim that the StatefulSet controller made first is being deleted: it is linked, or the fence would not let it go",
			given(at, oldVolume(web0), objects{build.Claim(web0, "64Mi", build.Pending(), build.Deleting())}, reserved)},
		row{"the StatefulSet controller made the claim first, of another class",
			given(at, oldVolume(web0), reserved, objects{build.Claim(web0, "64Mi", build.On(""), build.OfClass("fast"))})},
		row{"the StatefulSet controller made the claim first, of another access mode",
			given(at, oldVolume(web0), reserved, objects{build.Claim(web0, "64Mi", build.On(""), many)})},
		row{"the StatefulSet controller made the claim first, of another attributes class",
			given(at, oldVolume(web0), reserved, objects{build.Claim(web0, "64Mi", build.On(""), gold)})},
		row{"claim and volume have the same attributes class: it is waited for",
			given(at, oldVolume(web0), objects{build.With(reserved[0].(*corev1.PersistentVolume).DeepCopy(), class)},
				objects{build.Claim(web0, "64Mi", build.On(""), gold)})},
		row{"the claim is on a third volume: a person has to look",
			given(at, oldVolume(web0), reserved, objects{build.Claim(web0, "64Mi", build.On("pv-x"))})},
		row{"the copy is gone: the member is copied again", given(at, source(web0))},
		row{"the copy is being deleted: the member is copied again", given(at, source(web0), copied(web0, build.Deleting()))},
		row{"the old volume is gone, the claim names it still", given(at, source(web0)[:1], copied(web0))},
		row{"the old volume is gone, the claim is being deleted: the verified copy is reserved",
			given(at, doomed(web0, protection)[:1], copied(web0))},
		row{"the old volume is gone, and the copy is not verified",
			given(append(set(moving0(api.MemberSwapping, build.EditMember(0, func(m *api.Member) { m.Claims[0].Digest = "" }))),
				append(journal(web0), held(0)...)...), source(web0)[:1], copied(web0))},
		row{"the old volume is gone, the claim is being deleted, and the copy is not verified",
			given(append(set(moving0(api.MemberSwapping, build.EditMember(0, func(m *api.Member) { m.Claims[0].Digest = "" }))),
				append(journal(web0), held(0)...)...), doomed(web0, protection)[:1], copied(web0))},
		row{"the fourth stop was in vain: the operation is given up",
			given(append(set(moving0(api.MemberSwapping, build.EditMember(0, func(m *api.Member) { m.Stops = maxStops }))),
				journal(web0)...),
				pod(0, build.UID("uid-other")), source(web0), copied(web0))},
		row{"the record names a copy that was not provisioned for the operation", given(append(set(moving0(api.MemberSwapping,
			build.EditMember(0,
				func(m *api.Member) { m.Claims[0].NewVolume = "pv-data-payroll-0" }))), append(journal(web0), held(0)...)...),
			source(web0), objects{build.VolumeOf(build.Claim("data-payroll-0", "64Mi"), build.Released())})},
		row{"claim and copy are gone: the old volume is reserved", given(at, oldVolume(web0))},
		row{"claim and volumes are gone: a person has to look", given(at)},
		row{"the claim that was switched is being deleted: its name gets the same volume again", given(at, oldVolume(web0),
			objects{successor(web0, new0, "128Mi", build.Deleting())}, copied(web0, build.TakenBy(web0, "uid-successor")))},
		row{"the deadline of the swap is over: people are told what the member waits for",
			given(append(set(moving0(api.MemberSwapping, build.MemberDue(0, -time.Second))), append(journal(web0), held(0)...)...),
				doomed(web0, "example.com/keep"), reserved)},
	)
}

// TestSwapThatIsNotBegunInTimeIsGivenUp: a claim that was not touched is whole on its old volume, so its pod need not stay stopped.
func TestSwapThatIsNotBegunInTimeIsGivenUp(t *testing.T) {
	keep := build.Finalizers(protection, "example.com/keep")
	at := append(set(moving0(api.MemberSwapping, build.MemberDue(0, -time.Second))), append(journal(web0), held(0)...)...)
	for name, claims := range map[string]objects{
		"another controller keeps the temporary claim": append(source(web0), append(target(web0, build.Deleting(), keep)[:1],
			copied(web0)...)...),
		"another controller keeps the claim": append(source(web0, keep), copied(web0)...),
	} {
		if p := Decide(but(given(at, claims), waited)); p.Reason != api.DeadlineExceeded || build.Stored(p).Phase != api.Reverting {
			t.Errorf("%s, and the pod stays held: %s", name, p)
		}
		if p := Decide(given(at, claims)); build.Stored(p) != nil && build.Stored(p).Phase == api.Reverting {
			t.Errorf("%s, and it is given up at once, although the functions may have been away: %s", name, p)
		}
	}
}

// TestSwapsOfTwoMembersThatAreNotBegunAreGivenUp: if every look put the message about one in the place of the other's, none would wait, and
// so none would find that the obstacle lasts.
func TestSwapsOfTwoMembersThatAreNotBegunAreGivenUp(t *testing.T) {
	keep := build.Finalizers(protection, "example.com/keep")
	in := func(record *api.Resize) Input {
		at := append(set(record, build.Replicas(2)), append(journal(web0, web1), append(held(0), held(1)...)...)...)
		for _, name := range []string{web0, web1} {
			at = append(at, append(source(name), append(target(name, build.Deleting(), keep)[:1], copied(name)...)...)...)
		}
		return given(at)
	}
	p := Decide(in(build.Operation(api.Moving, build.Members(api.MemberSwapping, web0, web1), build.MemberDue(0, -time.Second),
		build.MemberDue(1, -time.Second))))
	told := build.Stored(p)
	if told == nil || told.Reason != api.DeadlineExceeded {
		t.Fatalf("nothing is told: %s", p)
	}
	if p = Decide(in(told)); p.Kind != plan.KindWait {
		t.Errorf("it was told, and is told again: %s", p)
	}
	if p = Decide(but(in(told), waited)); build.Stored(p) == nil || build.Stored(p).Phase != api.Reverting {
		t.Errorf("the obstacle lasts, and the pods stay held: %s", p)
	}
}

// TestSwapThatTheAPIServerRefusesSaysSo: a pod that stays held without a word why cannot be helped.
func TestSwapThatTheAPIServerRefusesSaysSo(t *testing.T) {
	at := append(set(moving0(api.MemberSwapping, build.MemberDue(0, -time.Second))), append(journal(web0), held(0)...)...)
	in := given(at, oldVolume(web0), copied(web0, build.Reserved(manifest(web0, new0, "128Mi"))))
	if p := Decide(in); build.Stored(p) != nil {
		t.Errorf("nothing is known to be in the way yet, and it is told: %s", p)
	}
	in.Rejected = "exceeded quota: team"
	if record := build.Stored(Decide(in)); record == nil || !strings.Contains(record.Message, in.Rejected) {
		t.Errorf("the record does not say what the API server refuses: %+v", record)
	}
}

// TestRefusedEndOfSwapSaysSo: a webhook may refuse what people wrote on the old claim. The record must be written before such a step, not after
// it: else it never says why the pod stays held, and no other member goes on.
func TestRefusedEndOfSwapSaysSo(t *testing.T) {
	at := append(set(moving0(api.MemberSwapping, build.MemberDue(0, -time.Second))), append(journal(web0), held(0)...)...)
	bound := copied(web0, build.Reserved(manifest(web0, new0, "128Mi")), build.TakenBy(web0, "uid-successor"))
	in := given(at, oldVolume(web0), objects{build.With(successor(web0, new0, "128Mi"), build.Finalizers())}, bound)
	in.Rejected = "finalizer example.com/keep is not allowed"
	p := Decide(in)
	if record := build.Stored(p); record == nil || !strings.Contains(record.Message, in.Rejected) {
		t.Errorf("the record does not say what the API server refuses: %s", p)
	}
	if p.Actions[0].Resource != plan.StatefulSets {
		t.Errorf("the refused step comes before the record: %s", p)
	}
	in = given(at, oldVolume(web0), objects{successor(web0, new0, "128Mi")}, bound)
	in.Rejected = "the annotation must stay"
	if p := Decide(in); p.Actions[0].Resource != plan.StatefulSets {
		t.Errorf("the removal of the manifest is refused, and the record comes after it: %s", p)
	}
}

// TestMembersThatStopTogetherStartTogether: no pod of a set that is moved as a whole starts before all have their volumes.
func TestMembersThatStopTogetherStartTogether(t *testing.T) {
	two := func(options ...func(*api.Resize)) objects {
		record := build.Operation(api.Moving, append([]func(*api.Resize){build.Members(api.MemberSwapping, web0, web1)}, options...)...)
		return append(set(record, build.Replicas(2)), append(journal(web0, web1), append(held(0), held(1)...)...)...)
	}
	last := build.EditMember(1, func(m *api.Member) { m.Phase = api.MemberFinalPass })
	check(t,
		row{"both go on at once", given(two(), source(web0), copied(web0), source(web1), copied(web1))},
		row{"one has its new volume, the other is swapped", given(two(), switched(web0), source(web1), copied(web1))},
		row{"one has its new volume, the other is still copied", given(two(last), switched(web0), source(web1), target(web1))},
		row{"both have their new volumes: both are released", given(two(), switched(web0), switched(web1))},
		row{"members that stop one after the other do not wait for each other",
			given(two(build.Rolling, last), switched(web0), source(web1), target(web1))},
	)
}

// pinning is the Job of the member's mover, with a pod that has made its copy and keeps the volumes attached.
func pinning(options ...build.Option) objects {
	job := build.Job(0, 1)
	return objects{job, build.Mover(job, append([]build.Option{onNode, build.Copied(moverreport.Signal{Hold: "uid-web-0", Attempt: 1})},
		options...)...)}
}

func onNode(o metav1.Object) { o.(*corev1.Pod).Spec.NodeName = build.NodeName }

// TestSwapBesidePin: a mover that has made its copy keeps the volumes attached, and is not in the way. Any other one is.
func TestSwapBesidePin(t *testing.T) {
	at := append(set(moving0(api.MemberSwapping)), append(journal(web0), held(0)...)...)
	reserved := copied(web0, build.Reserved(manifest(web0, new0, "128Mi")))
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
		row{"01 the temporary claim goes, the mover stays", given(at, source(web0), target(web0), pinning())},
		row{"02 only the mover uses the temporary claim: its protection is taken off", given(at, source(web0), doomedTarget(), pinning())},
		row{"03 only the mover and the held pod use the claim: it is let go", given(at, doomed(web0, protection), reserved, pinning())},
		row{"04 the member is released, the mover stays", given(at, switched(web0), pinning())},
		row{"a mover that still copies is ended", given(at, source(web0), doomedTarget(), pinning(build.Waits()))},
		row{"a mover that still copies keeps the claim", given(at, doomed(web0, protection), reserved, another()[1:])},
		row{"a mover whose final pass has failed is ended", given(at, source(web0), doomedTarget(),
			pinning(build.EndedFinal(moverreport.MemberReport{Result: moverreport.ResultFailed, Code: moverreport.CodeIO})))},
		row{"beside another mover, which copies, both are ended", given(at, source(web0), doomedTarget(), pinning(), another())},
		row{"beside a Job that has no pod yet, both are ended", given(at, source(web0), doomedTarget(), pinning(), another()[:1])},
		row{"a pin that was evicted is ended", given(at, source(web0), doomedTarget(), pinning(ends))},
		row{"a pin that is being deleted is waited for", given(at, source(web0), doomedTarget(), pinning(build.Deleting())[1:])},
		row{"another pod uses the temporary claim, too", given(at, source(web0), doomedTarget(), pinning(), user)},
		row{"another controller keeps the temporary claim",
			given(at, source(web0), doomedTarget(build.Finalizers(protection, "example.com/keep")), pinning())},
		row{"no second pod may use the claim: the mover goes first", given(at, single, target(web0), pinning())},
		row{"no second pod may use the new claim: the mover goes first", given(at, source(web0), doomedTarget(one), pinning())},
	)
}

// TestMemberStartsBesidePin: the pin goes with the member's end, or when it is in the way.
func TestMemberStartsBesidePin(t *testing.T) {
	at := append(set(moving0(api.MemberStarting)), append(journal(web0), switched(web0)...)...)
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
	check(t,
		row{"its pod starts on the node that has the volumes", given(at, pinning(), starts())},
		row{"its pod is not placed yet: that is looked at again soon", given(at, pinning(), starts(nowhere))},
		row{"its pod was placed on another node: the volumes are let go", given(at, pinning(), starts(elsewhere))},
		row{"its pod finds no room: the pin takes some", given(at, pinning(), starts(nowhere, noRoom))},
		row{"another process has deleted its claim, which the pin would keep",
			given(set(moving0(api.MemberStarting)), journal(web0), oldVolume(web0), pinning(), starts(nowhere),
				objects{successor(web0, new0, "128Mi", build.Deleting())}, copied(web0, build.TakenBy(web0, "uid-successor")))},
		row{"it was given up, and another process has deleted its claim, which the pin would keep",
			given(set(build.Operation(api.Reverting, build.Members(api.MemberStarting, web0))), journal(web0), oldVolume(web0), pinning(),
				starts(nowhere), objects{successor(web0, new0, "128Mi", build.Deleting())}, copied(web0, build.TakenBy(web0, "uid-successor")))},
		row{"it is ready: the pin has served", given(at, pinning(), pod(0, build.UID("uid-new")))},
	)
}
