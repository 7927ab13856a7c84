package restore

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

const web2 = "data-web-2"

// rolling3 is a set of three members whose last one is moved.
func rolling3(phase api.MemberPhase, options ...func(*api.Resize)) objects {
	record := build.Operation(api.Moving, append([]func(*api.Resize){build.Rolling, build.Members(phase, web2)}, options...)...)
	all := append(set(record, build.Replicas(3)), journal(web2)...)
	return append(all, append(source(web2), target(web2)...)...)
}

// others are the members that serve meanwhile.
func others(options ...build.Option) objects { return append(pod(0), pod(1, options...)...) }

// whole2 is a set of two members that are moved together.
func whole2(options ...func(*api.Resize)) objects {
	record := build.Operation(api.Moving, options...)
	all := append(set(record, build.Replicas(2)), journal(web0, web1)...)
	return append(append(all, append(source(web0), target(web0)...)...), append(source(web1), target(web1)...)...)
}

// alone is a set whose only member is moved.
func alone(phase api.MemberPhase, options ...func(*api.Resize)) objects {
	return append(set(moving0(phase, options...)), append(journal(web0), append(source(web0), target(web0)...)...)...)
}

// ending is a held pod that was told to stop, and runs.
func ending(ordinal int, options ...build.Option) objects {
	return pod(ordinal, append([]build.Option{build.Held(ordinal), build.Deleting()}, options...)...)
}

func notReady() build.Option {
	return build.Edit(func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse })
}

func stops(ordinal, n int) func(*api.Resize) {
	return build.EditMember(ordinal, func(m *api.Member) { m.Stops = n })
}

func forbidden(in *Input) {
	in.Budget = "Cannot evict pod as it would violate the pod's disruption budget"
}

// TestStopOfOneMember is the story of a stop, where members stop one after the other.
func TestStopOfOneMember(t *testing.T) {
	waiting, stopping := rolling3(api.MemberWaiting), rolling3(api.MemberStopping, build.MemberDue(2, time.Minute))
	late := build.MemberDue(2, -time.Second)
	check(t,
		row{"01 the gate is open: the API server is asked first, then the pod is held and evicted", given(waiting, others(), pod(2))},
		row{"02 a budget does not allow it: only why is written", but(given(waiting, others(), pod(2)), forbidden)},
		row{"03 the process died before the pod was held", given(stopping, others(), pod(2))},
		row{"04 the process died before the eviction", given(stopping, others(), pod(2, build.Held(2)))},
		row{"05 the budget does not allow it any more: the pod is released",
			but(given(stopping, others(), pod(2, build.Held(2))), forbidden)},
		row{"06 another member is lost before the eviction: the pod is released",
			given(stopping, others(notReady()), pod(2, build.Held(2)))},
		row{"07 it ends", given(stopping, others(), ending(2))},
		row{"08 another member is lost while it ends: the pod is released", given(stopping, others(notReady()), ending(2))},
		row{"09 it has stopped: backup makes the final pass", given(stopping, others(), held(2))},
		row{"10 it does not stop in time: it is released", given(rolling3(api.MemberStopping, late), others(), ending(2))},
		row{"11 the fourth time, the operation is given up", given(rolling3(api.MemberStopping, late, stops(2, maxStops)), others(),
			ending(2))},
		row{"12 during the final pass it is waited for", given(rolling3(api.MemberFinalPass, build.MemberDue(2, time.Minute)), others(),
			held(2))},
		row{"13 another member is lost during the final pass: the pod is released",
			given(rolling3(api.MemberFinalPass), others(notReady()), held(2))},
		row{"14 the final pass takes too long: the pod is released", given(rolling3(api.MemberFinalPass, late), others(), held(2))},
	)
}

// TestHoldThatIsLost: what others do to a pod that is being stopped.
func TestHoldThatIsLost(t *testing.T) {
	stopping, final := alone(api.MemberStopping), alone(api.MemberFinalPass)
	other := build.UID("uid-other")
	check(t,
		row{"the pod was deleted before it was held: it is held no more", given(stopping, pod(0, build.Deleting()))},
		row{"the pod is gone", given(stopping)},
		row{"the pod was replaced", given(stopping, pod(0, other))},
		row{"the finalizer was removed before the pod was told to stop: it is put back",
			given(stopping, pod(0, build.MemberLink(api.RoleHeld, 0)))},
		row{"the finalizer was removed from a pod that ends", given(stopping, ending(0, build.Finalizers()))},
		row{"the finalizer was removed during the final pass: the copy counts for nothing", given(final, held(0, build.Finalizers()))},
		row{"the pod is gone during the final pass", given(final)},
		row{"the pod was replaced during the final pass", given(final, pod(0, other))},
		row{"the pod was replaced during the final pass, and the new one is held by another operation", given(final, held(0, other))},
		row{"a claim is deleted while its pod stops: the operation is given up, and the claim put back", given(
			append(set(moving0(api.MemberStopping)), append(journal(web0),
				append(source(web0, build.Deleting()), target(web0)...)...)...), ending(0))},
		row{"a claim was replaced during the final pass", given(
			append(set(moving0(api.MemberFinalPass)), append(journal(web0),
				append(source(web0, build.UID("uid-other")), target(web0)...)...)...), held(0))},
	)
}

// TestPodThatWasDeletedByForceIsReleasedWhenItsContainersHaveEnded: its object goes at once, and the next process must not start beside them.
func TestPodThatWasDeletedByForceIsReleasedWhenItsContainersHaveEnded(t *testing.T) {
	forced := build.Edit(func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = ptr.To[int64](0) })
	long := build.Edit(func(p *corev1.Pod) {
		p.DeletionTimestamp = ptr.To(metav1.NewTime(build.Now.Add(-build.Settings().QuiesceTimeout - time.Second)))
	})
	stopping, returned := rolling3(api.MemberStopping), rolling3(api.MemberCopying)
	reverting := set(build.Operation(api.Reverting, build.Members(api.MemberStopping, web0)))
	silent := func(in *Input) { in.Nodes = nil }
	check(t,
		row{"another member is lost: the pod is not released yet", given(stopping, others(notReady()), ending(2, forced))},
		row{"the member was given back: the pod is not released yet", given(returned, others(), ending(2, forced))},
		row{"the member was given back, and the containers have ended", given(returned, others(), held(2, forced))},
		row{"the node does not report them for long", given(returned, others(), ending(2, forced, long))},
		row{"the node does not exist", but(given(returned, others(), ending(2, forced)), silent)},
		row{"the operation is given up: the pod is not released yet", given(reverting, journal(web0), source(web0), ending(0, forced))},
		row{"the operation is given up, and the containers have ended", given(reverting, journal(web0), source(web0), held(0, forced))},
	)
}

// TestProofThatMemberHasStopped: without it, its volumes may still be written to.
func TestProofThatMemberHasStopped(t *testing.T) {
	stopping := alone(api.MemberStopping)
	edit := func(change func(*corev1.Pod)) objects { return held(0, build.Edit(change)) }
	unproven := func(objects ...objects) Input { return given(append(objects, stopping)...) }
	network := func(v *corev1.PersistentVolume) {
		v.Spec.CSI, v.Spec.NFS = nil, &corev1.NFSVolumeSource{Server: "files", Path: "/a"}
	}
	onNFS := func(grace int64) Input {
		in := given(stopping, edit(func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = ptr.To(grace) }))
		network(in.Volumes[old0])
		return in
	}
	away := unproven(held(0))
	away.Nodes = nil
	check(t,
		row{"all containers have ended", unproven(held(0))},
		row{"a container has not ended",
			unproven(edit(func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State = corev1.ContainerState{} }))},
		row{"the node does not know how a container has ended",
			unproven(edit(func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State.Terminated.Reason = "ContainerStatusUnknown" }))},
		row{"the node has not reported all containers", unproven(edit(func(p *corev1.Pod) { p.Status.ContainerStatuses = nil }))},
		row{"a container that was added to the running pod has not ended", unproven(edit(func(p *corev1.Pod) {
			debug := corev1.EphemeralContainerCommon{Name: "debug"}
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: debug}}
			p.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{Name: "debug",
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		}))},
		row{"the garbage collector of pods has given it up", unproven(edit(func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions,
				corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByPodGC"})
		}))},
		row{"it was deleted by force, and runs", unproven(ending(0,
			build.Edit(func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = ptr.To[int64](0) })))},
		row{"its node does not exist", away},
		row{"its node does not report", func() Input {
			in := unproven(held(0))
			unknown := func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }
			in.Nodes[build.NodeName] = build.Node(build.Edit(unknown))
			return in
		}()},
		row{"a network file system is not unmounted yet", onNFS(30)},
		row{"a network file system is unmounted", onNFS(0)},
	)
}

// TestMembersThatStopTogether: the order of stops is the one of a scale down.
func TestMembersThatStopTogether(t *testing.T) {
	both := build.Members(api.MemberStopping, web0, web1)
	waiting := whole2(build.Members(api.MemberWaiting, web0, web1))
	parallel := build.Edit(func(s *appsv1.StatefulSet) { s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement })
	concurrent := func(record *api.Resize) objects {
		return append(set(record, build.Replicas(2), parallel), whole2()[1:]...)
	}
	late := build.MemberDue(1, -time.Second)
	check(t,
		row{"all have converged: both are held, the highest ordinal is told to stop", given(waiting, pod(0), pod(1))},
		row{"the pods of a parallel set are told to stop together",
			given(concurrent(build.Operation(api.Moving, build.Members(api.MemberWaiting, web0, web1))), pod(0), pod(1))},
		row{"one is copied still", given(whole2(build.Members(api.MemberWaiting, web0), build.Members(api.MemberCopying, web1)), pod(0),
			pod(1))},
		row{"the highest one ends, the other waits for it", given(whole2(both), pod(0, build.Held(0)), ending(1))},
		row{"the highest one has stopped, the other is told to stop", given(whole2(both), pod(0, build.Held(0)), held(1))},
		row{"the highest one is in its final pass, the other ends",
			given(whole2(build.Members(api.MemberStopping, web0), build.Members(api.MemberFinalPass, web1)), ending(0), held(1))},
		row{"one does not stop in time: both are released", given(whole2(both, late), pod(0, build.Held(0)), ending(1))},
		row{"one is lost: both are released", given(whole2(build.Members(api.MemberFinalPass, web0),
			build.Members(api.MemberStopping, web1)), held(0), pod(1, build.UID("uid-other")))},
		row{"one is lost, and the finalizer of the other was removed: it is not put back on a pod that is released",
			given(whole2(both), pod(0, build.MemberLink(api.RoleHeld, 0)), pod(1, build.UID("uid-other")))},
		row{"one is lost in a parallel set: the other is not told to stop any more",
			given(concurrent(build.Operation(api.Moving, both)), pod(0, build.Held(0)), pod(1, build.UID("uid-other")))},
	)
}

// TestLockOfMemberWithoutPod: the pod's name is taken, so that none can start.
func TestLockOfMemberWithoutPod(t *testing.T) {
	at := func(phase api.MemberPhase, options ...func(*api.Resize)) objects {
		record := moving0(phase, append([]func(*api.Resize){build.EditMember(0, func(m *api.Member) {
			if m.Pod = ""; phase != api.MemberWaiting {
				m.Pod, m.Locked = "uid-lock", true
			}
		})}, options...)...)
		return append(set(record, build.Replicas(0)), append(journal(web0), append(source(web0), target(web0)...)...)...)
	}
	stopping := at(api.MemberStopping, build.MemberDue(0, time.Minute))
	check(t,
		row{"01 no pod is wanted: the name is taken", given(at(api.MemberWaiting))},
		row{"02 the process died before the name was taken", given(stopping)},
		row{"03 another pod uses the claim", given(stopping, lock(0), objects{build.Pod("debug", []string{web0})})},
		row{"03 another pod uses the claim for too long: the name is given back",
			given(at(api.MemberStopping, build.MemberDue(0, -time.Second)), lock(0), objects{build.Pod("debug", []string{web0})})},
		row{"04 a node has the volume attached", given(stopping, lock(0), objects{build.Attachment(old0)})},
		row{"05 the name is taken, and nothing uses the claim: backup copies", given(stopping, lock(0))},
		row{"06 the set was scaled up before the name was taken: it starts", given(stopping, pod(0))},
		row{"07 the name could not be taken in time", given(at(api.MemberStopping, build.MemberDue(0, -time.Second)))},
		row{"08 the lock is gone during the final pass", given(at(api.MemberFinalPass))},
		row{"09 the lock is being deleted during the final pass, and kept by its finalizer",
			given(at(api.MemberFinalPass), lock(0, build.Deleting()))},
		row{"10 the claim is on its new volume: the lock goes",
			given(append(set(moving0(api.MemberSwapping, build.EditMember(0, func(m *api.Member) { m.Pod, m.Locked = "uid-lock", true })),
				build.Replicas(0)), journal(web0)...), lock(0), switched(web0))},
		row{"11 the lock is deleted first, then its finalizer goes",
			given(append(set(moving0(api.MemberStarting, build.EditMember(0, func(m *api.Member) { m.Pod, m.Locked = "uid-lock", true })),
				build.Replicas(0)), journal(web0)...), lock(0, build.Deleting()), switched(web0))},
		row{"12 no pod is wanted: the member is moved", given(append(set(moving0(api.MemberStarting,
			build.EditMember(0, func(m *api.Member) { m.Pod, m.Locked = "uid-lock", true })),
			build.Replicas(0)), journal(web0)...), switched(web0))},
	)
}

// TestLockThatLostItsFinalizerGoes: it keeps the member's name for as long as it exists, and no controller deletes it.
func TestLockThatLostItsFinalizerGoes(t *testing.T) {
	bare := lock(0, build.Edit(func(p *corev1.Pod) { p.Finalizers = nil }))
	for name, at := range map[string]objects{
		"the member is copied again": append(set(moving0(api.MemberCopying)), journal(web0)...),
		"the operation has ended":    set(build.Operation(api.Succeeded)),
		"the operation was given up": append(set(givenUp(api.MemberCopying)), journal(web0)...),
		"no record tells of it":      {build.Set("web")},
	} {
		p := Decide(given(at, bare, source(web0)))
		if !slices.ContainsFunc(p.Actions, func(a plan.Action) bool { return a.Verb == plan.VerbEvict && a.Name == "web-0" }) {
			t.Errorf("%s, and no pod of the name can ever start: %s", name, p)
		}
	}
	starts := append(set(moving0(api.MemberStarting)), journal(web0)...)
	if p := Decide(given(starts, bare, oldVolume(web0), copied(web0))); slices.ContainsFunc(p.Actions,
		func(a plan.Action) bool { return a.Verb == plan.VerbEvict }) {
		t.Errorf("the claim is not there, and its pod may start: %s", p)
	}
}

// TestHoldsThatNothingNeeds: a pod that is held by an operation that does not hold it would stay for ever when it is deleted.
func TestHoldsThatNothingNeeds(t *testing.T) {
	done := build.Operation(api.Succeeded)
	another := build.LinkOf(api.Link{Operation: "ba9876543210", Role: api.RoleHeld, Namespace: build.Namespace,
		Set: api.SetRef{Name: "web"}, Member: ptr.To(0)})
	check(t,
		row{"the operation has ended", given(set(done), pod(0, build.Held(0)), source(web0))},
		row{"it has ended, and the pod ends", given(set(done), held(0), source(web0))},
		row{"no record tells of it", given(objects{build.Set("web")}, held(0), source(web0))},
		row{"a lock of an operation that has ended", given(set(done), lock(0), source(web0))},
		row{"a lock of an operation that has ended, and the claim is gone: a person has to look", given(set(done), lock(0))},
		row{"a lock that lacks its claim does not keep the next member from being stopped",
			given(set(build.Operation(api.Moving, build.Members(api.MemberWaiting, web1)), build.Replicas(2)), journal(web1), lock(0, another),
				pod(1), source(web1), target(web1))},
		row{"the journal is there: the undoing of the operation releases it",
			given(objects{build.Set("web")}, journal(web0), held(0), source(web0))},
		row{"the member waits at the gate again", given(append(set(moving0(api.MemberWaiting)), journal(web0)...), held(0), source(web0),
			target(web0))},
		row{"the member was moved, and its old pod is still held",
			given(append(set(moving0(api.MemberMoved)), journal(web0)...), held(0), switched(web0))},
		row{"the pod is held by an operation before this one", given(alone(api.MemberWaiting), held(0, another))},
		row{"a pod with another finalizer only", given(set(done), pod(0, build.Finalizers("example.com/keep")), source(web0))},
	)
}
