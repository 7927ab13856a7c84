package restore

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit/build"
)

const web2 = "data-web-2"

// lastOfThree is a set of three members; the last one is moved.
func lastOfThree(phase api.MemberPhase, options ...func(*api.Resize)) objects {
	record := build.Operation(api.Moving, append([]func(*api.Resize){build.Rolling, build.Members(phase, web2)}, options...)...)
	all := append(setWith(record, build.Replicas(3)), journalOf(web2)...)
	return append(all, append(source(web2), target(web2)...)...)
}

// otherMembers are the running pods of members 0 and 1.
func otherMembers(options ...build.Option) objects { return append(pod(0), pod(1, options...)...) }

// twoTogether is a set of two members that are moved together.
func twoTogether(options ...func(*api.Resize)) objects {
	record := build.Operation(api.Moving, options...)
	all := append(setWith(record, build.Replicas(2)), journalOf(web0, web1)...)
	return append(append(all, append(source(web0), target(web0)...)...), append(source(web1), target(web1)...)...)
}

// onlyMember is a set with one member, which is moved.
func onlyMember(phase api.MemberPhase, options ...func(*api.Resize)) objects {
	return append(setWith(movingOne(phase, options...)), append(journalOf(web0), append(source(web0), target(web0)...)...)...)
}

// endingPod is a held pod that was deleted and still runs.
func endingPod(ordinal int, options ...build.Option) objects {
	return pod(ordinal, append([]build.Option{build.Held(ordinal), build.Deleting()}, options...)...)
}

func notReady() build.Option {
	return build.Edit(func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse })
}

func stops(ordinal, n int) func(*api.Resize) {
	return build.EditMember(ordinal, func(m *api.Member) { m.Stops = n })
}

func budgetForbids(in *Input) {
	in.BudgetRefusal = "Cannot evict pod as it would violate the pod's disruption budget"
}

// TestRollingStopOfOneMember shows the stop of one member in a rolling resize, step by step.
func TestRollingStopOfOneMember(t *testing.T) {
	waiting, stopping := lastOfThree(api.MemberWaiting), lastOfThree(api.MemberStopping, build.MemberDue(2, time.Minute))
	late := build.MemberDue(2, -time.Second)
	check(t,
		testCase{"01 the gate is open: a dry run comes first, then the pod is held and evicted",
			situation(waiting, otherMembers(), pod(2))},
		testCase{"02 a budget forbids the stop: only the reason is stored",
			with(situation(waiting, otherMembers(), pod(2)), budgetForbids)},
		testCase{"02 the set was just created again, and has not adopted the pod yet: restore may not hold it",
			situation(waiting, otherMembers(), pod(2, build.Edit(func(p *corev1.Pod) { p.OwnerReferences = nil })))},
		testCase{"03 the process died before the pod was held", situation(stopping, otherMembers(), pod(2))},
		testCase{"04 the process died before the eviction", situation(stopping, otherMembers(), pod(2, build.Held(2)))},
		testCase{"05 the budget now forbids the stop: the pod is released",
			with(situation(stopping, otherMembers(), pod(2, build.Held(2))), budgetForbids)},
		testCase{"06 another member is lost before the eviction: the pod is released",
			situation(stopping, otherMembers(notReady()), pod(2, build.Held(2)))},
		testCase{"07 the pod is terminating", situation(stopping, otherMembers(), endingPod(2))},
		testCase{"08 another member is lost while the pod is terminating: the pod is released",
			situation(stopping, otherMembers(notReady()), endingPod(2))},
		testCase{"09 the pod has stopped: backup makes the final pass", situation(stopping, otherMembers(), heldPodOf(2))},
		testCase{"10 the pod does not stop in time: it is released",
			situation(lastOfThree(api.MemberStopping, late), otherMembers(), endingPod(2))},
		testCase{"11 the fourth stop was not proven: the operation is given up",
			situation(lastOfThree(api.MemberStopping, late, stops(2, maxStops)), otherMembers(),
				endingPod(2))},
		testCase{"12 during the final pass, restore waits",
			situation(lastOfThree(api.MemberFinalPass, build.MemberDue(2, time.Minute)), otherMembers(),
				heldPodOf(2))},
		testCase{"13 another member is lost during the final pass: the pod is released",
			situation(lastOfThree(api.MemberFinalPass), otherMembers(notReady()), heldPodOf(2))},
		testCase{"14 the final pass takes too long: the pod is released",
			situation(lastOfThree(api.MemberFinalPass, late), otherMembers(), heldPodOf(2))},
	)
}

// TestInterferenceDuringStop shows what other processes may do to a pod that is being stopped.
func TestInterferenceDuringStop(t *testing.T) {
	stopping, final := onlyMember(api.MemberStopping), onlyMember(api.MemberFinalPass)
	other := build.UID("uid-other")
	check(t,
		testCase{"the pod was deleted before it was held: it is held no more", situation(stopping, pod(0, build.Deleting()))},
		testCase{"the pod is gone", situation(stopping)},
		testCase{"the pod was replaced", situation(stopping, pod(0, other))},
		testCase{"the finalizer was removed before the pod was deleted: it is restored",
			situation(stopping, pod(0, build.MemberLink(api.RoleHeld, 0)))},
		testCase{"the finalizer was removed from a terminating pod", situation(stopping, endingPod(0, build.Finalizers()))},
		testCase{"the finalizer was removed during the final pass: the copy is discarded",
			situation(final, heldPodOf(0, build.Finalizers()))},
		testCase{"the pod is gone during the final pass", situation(final)},
		testCase{"the pod was replaced during the final pass", situation(final, pod(0, other))},
		testCase{"the pod was replaced during the final pass, and the new one is held by another operation",
			situation(final, heldPodOf(0, other))},
		testCase{"a claim is deleted while its pod stops: the operation is given up, and the claim is restored", situation(
			append(setWith(movingOne(api.MemberStopping)), append(journalOf(web0),
				append(source(web0, build.Deleting()), target(web0)...)...)...), endingPod(0))},
		testCase{"a claim was replaced during the final pass", situation(
			append(setWith(movingOne(api.MemberFinalPass)), append(journalOf(web0),
				append(source(web0, build.UID("uid-other")), target(web0)...)...)...), heldPodOf(0))},
	)
}

// TestForceDeletedPodIsReleasedAfterContainersEnd: the object of such a pod disappears immediately after the release, and its replacement
// must not start beside the old containers.
func TestForceDeletedPodIsReleasedAfterContainersEnd(t *testing.T) {
	forced := build.Edit(func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = ptr.To[int64](0) })
	long := build.Edit(func(p *corev1.Pod) {
		p.DeletionTimestamp = ptr.To(metav1.NewTime(build.Now.Add(-build.Settings().QuiesceTimeout - time.Second)))
	})
	stopping, returned := lastOfThree(api.MemberStopping), lastOfThree(api.MemberCopying)
	reverting := setWith(build.Operation(api.Reverting, build.Members(api.MemberStopping, web0)))
	silent := func(in *Input) { in.Nodes = nil }
	check(t,
		testCase{"another member is lost: the pod is not released yet",
			situation(stopping, otherMembers(notReady()), endingPod(2, forced))},
		testCase{"the stop was cancelled: the pod is not released yet", situation(returned, otherMembers(), endingPod(2, forced))},
		testCase{"the stop was cancelled, and the containers have ended", situation(returned, otherMembers(), heldPodOf(2, forced))},
		testCase{"the node does not report them for long", situation(returned, otherMembers(), endingPod(2, forced, long))},
		testCase{"the node does not exist", with(situation(returned, otherMembers(), endingPod(2, forced)), silent)},
		testCase{"the operation is given up: the pod is not released yet",
			situation(reverting, journalOf(web0), source(web0), endingPod(0, forced))},
		testCase{"the operation is given up, and the containers have ended",
			situation(reverting, journalOf(web0), source(web0), heldPodOf(0, forced))},
	)
}

// TestMemberNeedsProofOfStop: without the proof, the volumes may still be written to.
func TestMemberNeedsProofOfStop(t *testing.T) {
	stopping := onlyMember(api.MemberStopping)
	edit := func(change func(*corev1.Pod)) objects { return heldPodOf(0, build.Edit(change)) }
	unproven := func(objects ...objects) Input { return situation(append(objects, stopping)...) }
	network := func(v *corev1.PersistentVolume) {
		v.Spec.CSI, v.Spec.NFS = nil, &corev1.NFSVolumeSource{Server: "files", Path: "/a"}
	}
	onNFS := func(grace int64) Input {
		in := situation(stopping, edit(func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = ptr.To(grace) }))
		network(in.Volumes[old0])
		return in
	}
	away := unproven(heldPodOf(0))
	away.Nodes = nil
	check(t,
		testCase{"all containers have ended", unproven(heldPodOf(0))},
		testCase{"a container has not ended",
			unproven(edit(func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State = corev1.ContainerState{} }))},
		testCase{"the node does not know how a container has ended",
			unproven(edit(func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State.Terminated.Reason = "ContainerStatusUnknown" }))},
		testCase{"the node has not reported all containers", unproven(edit(func(p *corev1.Pod) { p.Status.ContainerStatuses = nil }))},
		testCase{"a container that was added to the running pod has not ended", unproven(edit(func(p *corev1.Pod) {
			debug := corev1.EphemeralContainerCommon{Name: "debug"}
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: debug}}
			p.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{Name: "debug",
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		}))},
		testCase{"the pod garbage collector has deleted it", unproven(edit(func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions,
				corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByPodGC"})
		}))},
		testCase{"it was deleted by force and still runs", unproven(endingPod(0,
			build.Edit(func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = ptr.To[int64](0) })))},
		testCase{"its node does not exist", away},
		testCase{"its node does not report", func() Input {
			in := unproven(heldPodOf(0))
			unknown := func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }
			in.Nodes[build.NodeName] = build.Node(build.Edit(unknown))
			return in
		}()},
		testCase{"a network file system is not unmounted yet", onNFS(30)},
		testCase{"a network file system is unmounted", onNFS(0)},
	)
}

// TestWholeStopFollowsScaleDownOrder: members stop in the order of a scale down.
func TestWholeStopFollowsScaleDownOrder(t *testing.T) {
	both := build.Members(api.MemberStopping, web0, web1)
	waiting := twoTogether(build.Members(api.MemberWaiting, web0, web1))
	parallel := build.Edit(func(s *appsv1.StatefulSet) { s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement })
	concurrent := func(record *api.Resize) objects {
		return append(setWith(record, build.Replicas(2), parallel), twoTogether()[1:]...)
	}
	late := build.MemberDue(1, -time.Second)
	check(t,
		testCase{"all have converged: both are held, and the highest ordinal is deleted", situation(waiting, pod(0), pod(1))},
		testCase{"the pods of a parallel set are told to stop together",
			situation(concurrent(build.Operation(api.Moving, build.Members(api.MemberWaiting, web0, web1))), pod(0), pod(1))},
		testCase{"one is still being copied",
			situation(twoTogether(build.Members(api.MemberWaiting, web0), build.Members(api.MemberCopying, web1)), pod(0),
				pod(1))},
		testCase{"the highest one is terminating, the other waits for it",
			situation(twoTogether(both), pod(0, build.Held(0)), endingPod(1))},
		testCase{"the highest one has stopped, the other is deleted", situation(twoTogether(both), pod(0, build.Held(0)), heldPodOf(1))},
		testCase{"the highest one is in its final pass, the other is terminating",
			situation(twoTogether(build.Members(api.MemberStopping, web0), build.Members(api.MemberFinalPass, web1)), endingPod(0),
				heldPodOf(1))},
		testCase{"one does not stop in time: both are released", situation(twoTogether(both, late), pod(0, build.Held(0)), endingPod(1))},
		testCase{"one is lost: both are released", situation(twoTogether(build.Members(api.MemberFinalPass, web0),
			build.Members(api.MemberStopping, web1)), heldPodOf(0), pod(1, build.UID("uid-other")))},
		testCase{"one is lost, and the finalizer of the other was removed: a released pod does not get it back",
			situation(twoTogether(both), pod(0, build.MemberLink(api.RoleHeld, 0)), pod(1, build.UID("uid-other")))},
		testCase{"one is lost in a parallel set: the other is no longer deleted",
			situation(concurrent(build.Operation(api.Moving, both)), pod(0, build.Held(0)), pod(1, build.UID("uid-other")))},
	)
}

// TestMemberWithoutPodIsLocked: a lock takes the pod's name, so that no pod can start.
func TestMemberWithoutPodIsLocked(t *testing.T) {
	at := func(phase api.MemberPhase, options ...func(*api.Resize)) objects {
		record := movingOne(phase, append([]func(*api.Resize){build.EditMember(0, func(m *api.Member) {
			if m.Pod = ""; phase != api.MemberWaiting {
				m.Pod, m.Locked = "uid-lock", true
			}
		})}, options...)...)
		return append(setWith(record, build.Replicas(0)), append(journalOf(web0), append(source(web0), target(web0)...)...)...)
	}
	stopping := at(api.MemberStopping, build.MemberDue(0, time.Minute))
	check(t,
		testCase{"01 the member needs no pod: its name is locked", situation(at(api.MemberWaiting))},
		testCase{"02 the process died before the name was locked", situation(stopping)},
		testCase{"03 another pod uses the claim", situation(stopping, lock(0), objects{build.Pod("debug", []string{web0})})},
		testCase{"03 another pod uses the claim for too long: the lock is removed",
			situation(at(api.MemberStopping, build.MemberDue(0, -time.Second)), lock(0), objects{build.Pod("debug", []string{web0})})},
		testCase{"04 the volume is attached to a node", situation(stopping, lock(0), objects{build.Attachment(old0)})},
		testCase{"05 the name is locked and nothing uses the claim: backup copies", situation(stopping, lock(0))},
		testCase{"06 the set was scaled up before the name was locked: the member starts", situation(stopping, pod(0))},
		testCase{"07 the name could not be locked in time", situation(at(api.MemberStopping, build.MemberDue(0, -time.Second)))},
		testCase{"08 the lock is gone during the final pass", situation(at(api.MemberFinalPass))},
		testCase{"09 its finalizer keeps a lock that is deleted during the final pass",
			situation(at(api.MemberFinalPass), lock(0, build.Deleting()))},
		testCase{"10 the claim is on its new volume: the lock is deleted",
			situation(append(setWith(movingOne(api.MemberSwapping, build.EditMember(0, func(m *api.Member) {
				m.Pod, m.Locked = "uid-lock",
					true
			})),
				build.Replicas(0)), journalOf(web0)...), lock(0), swappedClaim(web0))},
		testCase{"11 the lock is terminating: its finalizer is removed",
			situation(append(setWith(movingOne(api.MemberStarting, build.EditMember(0, func(m *api.Member) {
				m.Pod, m.Locked = "uid-lock",
					true
			})),
				build.Replicas(0)), journalOf(web0)...), lock(0, build.Deleting()), swappedClaim(web0))},
		testCase{"12 the member needs no pod: it is moved", situation(append(setWith(movingOne(api.MemberStarting,
			build.EditMember(0, func(m *api.Member) { m.Pod, m.Locked = "uid-lock", true })),
			build.Replicas(0)), journalOf(web0)...), swappedClaim(web0))},
	)
}

// TestLockWithoutFinalizerIsEvicted: the lock keeps the member's name as long as it exists, and no controller deletes it.
func TestLockWithoutFinalizerIsEvicted(t *testing.T) {
	bare := lock(0, build.Edit(func(p *corev1.Pod) { p.Finalizers = nil }))
	for name, at := range map[string]objects{
		"the member is copied again":                append(setWith(movingOne(api.MemberCopying)), journalOf(web0)...),
		"the operation has ended, and the pod runs": setWith(build.Operation(api.Succeeded)),
		"the operation was given up":                append(setWith(givenUp(api.MemberCopying)), journalOf(web0)...),
		"no record knows the operation":             {build.Set("web")},
	} {
		p := Decide(situation(at, bare, source(web0)))
		if !slices.ContainsFunc(p.Actions, func(a plan.Action) bool { return a.Verb == plan.VerbEvict && a.Name == "web-0" }) {
			t.Errorf("%s, and the lock keeps the name for ever: %s", name, p)
		}
	}
	starts := append(setWith(movingOne(api.MemberStarting)), journalOf(web0)...)
	if p := Decide(situation(starts, bare, oldVolume(web0), copyVolume(web0))); slices.ContainsFunc(p.Actions,
		func(a plan.Action) bool { return a.Verb == plan.VerbEvict }) {
		t.Errorf("the claim is missing, and its pod may start: %s", p)
	}
}

// TestStaleHoldsAreReleased: a pod whose hold no operation needs would stay Terminating for ever once it is deleted.
func TestStaleHoldsAreReleased(t *testing.T) {
	done := build.Operation(api.Succeeded)
	another := build.LinkOf(api.Link{Operation: "ba9876543210", Role: api.RoleHeld, Namespace: build.Namespace,
		Set: api.SetRef{Name: "web"}, Member: ptr.To(0)})
	check(t,
		testCase{"the operation has ended, and the pod runs", situation(setWith(done), pod(0, build.Held(0)), source(web0))},
		testCase{"the operation has ended, and a slow process has created a mover", situation(setWith(done), pod(0), source(web0),
			objects{build.Job(0, 1)})},
		testCase{"the operation has ended, and its journal is there: its Jobs go with it", situation(setWith(done), journalOf(web0), pod(0),
			source(web0), objects{build.Job(0, 1)})},
		testCase{"the record is lost, and a slow process has created a mover", situation(objects{build.Set("web")}, pod(0), source(web0),
			objects{build.Job(0, 1)})},
		testCase{"the operation has ended, and the pod has stopped", situation(setWith(done), heldPodOf(0), source(web0))},
		testCase{"no record knows the operation", situation(objects{build.Set("web")}, heldPodOf(0), source(web0))},
		testCase{"a lock of an ended operation", situation(setWith(done), lock(0), source(web0))},
		testCase{"a lock of an ended operation, whose claim is gone: the user gets a warning", situation(setWith(done), lock(0))},
		testCase{"a lock that lacks its claim does not keep the next member from being stopped",
			situation(setWith(build.Operation(api.Moving, build.Members(api.MemberWaiting, web1)), build.Replicas(2)), journalOf(web1),
				lock(0, another),
				pod(1), source(web1), target(web1))},
		testCase{"the journal is there: the undoing of the operation releases it",
			situation(objects{build.Set("web")}, journalOf(web0), heldPodOf(0), source(web0))},
		testCase{"the member waits for its stop again",
			situation(append(setWith(movingOne(api.MemberWaiting)), journalOf(web0)...), heldPodOf(0), source(web0),
				target(web0))},
		testCase{"the member was moved, and its old pod is still held",
			situation(append(setWith(movingOne(api.MemberMoved)), journalOf(web0)...), heldPodOf(0), swappedClaim(web0))},
		testCase{"the pod is held by an operation before this one", situation(onlyMember(api.MemberWaiting), heldPodOf(0, another))},
		testCase{"a pod with another finalizer only", situation(setWith(done), pod(0, build.Finalizers("example.com/keep")), source(web0))},
	)
}

// oneRunsOneRemoved is a set with one replica, whose members 0 and 1 stop together. Member 1 was removed by a scale-down, so its name is
// locked.
func oneRunsOneRemoved(phase api.MemberPhase, options ...func(*api.Resize)) objects {
	record := build.Operation(api.Moving, append([]func(*api.Resize){build.Members(phase, web0, web1),
		build.EditMember(1, func(m *api.Member) { m.Pod, m.Locked = "", phase != api.MemberWaiting })}, options...)...)
	all := append(setWith(record, build.Replicas(1)), journalOf(web0, web1)...)
	return append(append(all, append(source(web0), target(web0)...)...), append(source(web1), target(web1)...)...)
}

const tooStrict = `pods "web-1" is forbidden: failed quota: compute: must specify limits.cpu for: lock`

// TestRefusedLockStopsNobody: the namespace may not admit the lock. No other step has asked: the preflight tries the pod of a mover only.
// A refusal must be known before running members are stopped for nothing, four times.
func TestRefusedLockStopsNobody(t *testing.T) {
	for name, row := range map[string]struct {
		rejected string
		made     objects
		want     string
	}{
		"the lock is refused": {tooStrict, nil, "create web-1"},
		"no lock is made yet": {"", nil, "create web-1"},
		"the lock exists":     {"", lock(1), "delete web-0"},
	} {
		in := with(situation(oneRunsOneRemoved(api.MemberStopping, build.MemberDue(0, time.Minute), build.MemberDue(1, time.Minute)),
			pod(0, build.Held(0)), row.made), func(in *Input) { in.Rejected = row.rejected })
		p, got := Decide(in), []string(nil)
		for _, a := range p.Actions {
			if a.Resource == plan.Pods && a.Verb != plan.VerbPatch {
				got = append(got, string(a.Verb)+" "+a.Name)
			}
		}
		if strings.Join(got, ", ") != row.want {
			t.Errorf("%s: got %q, want %q: %s", name, got, row.want, p)
		}
	}
}

// TestRefusedLockIsExplained: the message has to name the cause and the remedy.
func TestRefusedLockIsExplained(t *testing.T) {
	late := build.MemberDue(1, -time.Second)
	for name, options := range map[string][]func(*api.Resize){
		"first try": {late}, "last try": {late, stops(0, maxStops), stops(1, maxStops)},
	} {
		p := Decide(with(situation(oneRunsOneRemoved(api.MemberStopping, options...), heldPodOf(0)), func(in *Input) { in.Rejected = tooStrict }))
		next := build.Stored(p)
		if next == nil {
			t.Errorf("%s: no record is stored: %s", name, p)
		} else if !strings.Contains(next.Message, "limits.cpu") {
			t.Errorf("%s: nothing says why the name cannot be locked: %s", name, next.Message)
		}
	}
}

// TestLockRunsAsNoFixedUser: OpenShift admits only users of the namespace's range (SCC restricted-v2, MustRunAsRange), for example from
// 1000660000. Movers follow it. The level "restricted" needs no runAsUser, only runAsNonRoot, and the lock never runs.
func TestLockRunsAsNoFixedUser(t *testing.T) {
	lock := resources.MakeLock(build.Set("web"), id, 0, build.Settings())
	for _, c := range []*corev1.PodSecurityContext{lock.Spec.SecurityContext} {
		if c.RunAsUser != nil {
			t.Errorf("the lock wants to run as user %d, which OpenShift refuses", *c.RunAsUser)
		}
	}
}

// TestOrphanWithContainerNamedLockKeepsRunning: the user's pod has a second container named lock. The set was deleted with orphan
// propagation, as several operators do, after the pod got its hold and before it was told to stop (a PodDisruptionBudget refused). The pod
// must keep running.
func TestOrphanWithContainerNamedLockKeepsRunning(t *testing.T) {
	orphan := build.Edit(func(p *corev1.Pod) {
		p.OwnerReferences = nil
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "lock"})
	})
	p := Decide(situation(journalOf(web0), pod(0, build.Held(0), orphan), source(web0), target(web0)))
	if slices.ContainsFunc(p.Actions, func(a plan.Action) bool {
		return a.Resource == plan.Pods && a.Name == "web-0" && (a.Verb == plan.VerbDelete || a.Verb == plan.VerbEvict)
	}) {
		t.Errorf("a running pod of the user is deleted: %s", p)
	}
}

// injectedFirst puts a container before the lock's own one, as Linkerd (proxy-await) and Istio (holdApplicationUntilProxyStarts) do.
func injectedFirst() build.Option {
	return build.Edit(func(p *corev1.Pod) {
		p.Spec.Containers = append([]corev1.Container{{Name: "istio-proxy"}}, p.Spec.Containers...)
	})
}

// TestLockWithInjectedSidecarStaysALock: an injector of the namespace may put its container first. The pod is still Drydock's lock. If it
// is taken for another process's pod, the hold is removed, the pod stays, and it keeps the member's name for ever.
func TestLockWithInjectedSidecarStaysALock(t *testing.T) {
	record := movingOne(api.MemberStopping, build.EditMember(0, func(m *api.Member) { m.Pod, m.Locked = "uid-lock", true }),
		build.MemberDue(0, time.Minute))
	at := append(setWith(record, build.Replicas(0)), append(journalOf(web0), append(source(web0), target(web0)...)...)...)
	ends := func(a plan.Action) bool {
		return a.Resource == plan.Pods && a.Name == "web-0" && (a.Verb == plan.VerbEvict || a.Verb == plan.VerbDelete)
	}
	frees := func(a plan.Action) bool {
		return a.Resource == plan.Pods && a.Name == "web-0" && slices.Contains(a.Words, "-finalizer hold")
	}
	plain, injected := Decide(situation(at, lock(0))), Decide(situation(at, lock(0, injectedFirst())))
	if slices.ContainsFunc(injected.Actions, frees) && !slices.ContainsFunc(injected.Actions, ends) {
		t.Errorf("the lock loses its finalizer and link, but no function deletes it: %s", injected)
	}
	if plain.String() != injected.String() || plain.Kind != plan.KindDo {
		t.Errorf("a lock with a sidecar is not treated as a lock without:\n%s\n%s", injected, plain)
	}
}

// TestForeignPodSeenInFinalPassMakesCopyStale: the final pass of a member without a pod copies everything and may take hours. Then
// another pod, such as that of a CronJob, uses the claim, writes to files that the mover has verified, ends, and is deleted. Drydock has
// seen it. The record has to keep that, as docs/decisions/2026-11-23-hold.md says: otherwise the swap discards the pod's writes.
func TestForeignPodSeenInFinalPassMakesCopyStale(t *testing.T) {
	foreign := objects{build.Pod("nightly-report", []string{web0}, onNode)}
	final := onlyMember(api.MemberFinalPass, build.MemberDue(0, time.Hour))
	p := Decide(situation(final, heldPodOf(0), foreign))
	if next := build.Stored(p); next == nil || next.Members[0].StoppedAt != nil && next.Members[0].Phase == api.MemberFinalPass {
		t.Errorf("pod nightly-report may write to claim %s, and the record does not keep that: %s", web0, p)
	}
}

const rejection = `admission webhook "primary.example.com" denied the request`

// TestRejectedHoldEndsTheResize: all members stop together, and the API server rejects the finalizer on web-0. Member 1 has stopped
// already, and must not stay so until the deadline of the whole operation.
func TestRejectedHoldEndsTheResize(t *testing.T) {
	for name, row := range map[string]struct {
		due  time.Duration
		ends bool
	}{"the stop of web-0 is late": {-time.Minute, true}, "the stop of web-0 has time left": {time.Minute, false}} {
		record := build.Operation(api.Moving, build.Members(api.MemberFinalPass, web1), build.Members(api.MemberStopping, web0),
			build.MemberDue(0, row.due), build.Due(20*time.Hour))
		record.Members[0], record.Members[1] = record.Members[1], record.Members[0]
		in := situation(setWith(record, build.Replicas(2)), journalOf(web0, web1), source(web0), source(web1), target(web0), target(web1),
			pod(0), heldPodOf(1))
		in.Rejected = rejection
		p := Decide(in)
		next := build.Stored(p)
		if ends := next != nil && next.Phase == api.Reverting; ends != row.ends {
			t.Errorf("%s: %s, want an end: %t", name, p, row.ends)
		} else if ends && (next.Reason != api.Rejected || !strings.Contains(next.Message, rejection)) {
			t.Errorf("%s: %s: %s", name, next.Reason, next.Message)
		}
	}
}

// TestRejectedReleaseIsReported: the claims are bound to the new volumes, and the API server rejects the removal of the hold. The record
// says why the pod stays held, once, and the release is tried again.
func TestRejectedReleaseIsReported(t *testing.T) {
	for _, phase := range []api.Phase{api.Moving, api.Reverting} {
		due := map[api.Phase]time.Duration{api.Moving: time.Hour, api.Reverting: -time.Hour}[phase]
		record := build.Operation(phase, build.Members(api.MemberStarting, web0), build.MemberDue(0, -time.Hour), build.Due(due))
		record.Reason, record.Message = api.CopyFailed, "the cause"
		in := situation(setWith(record), journalOf(web0), swappedClaim(web0), heldPodOf(0))
		in.Rejected = rejection
		next := build.Stored(Decide(in))
		if next == nil || !strings.HasPrefix(next.Message, "the cause; pod web-0 stays held, because") ||
			!strings.Contains(next.Message, rejection) {
			t.Fatalf("%s: %s", phase, Decide(in))
		}
		in = situation(setWith(next), journalOf(web0), swappedClaim(web0), heldPodOf(0))
		in.Rejected = rejection
		if p := Decide(in); build.Stored(p) != nil || !strings.Contains(p.String(), "-finalizer hold") {
			t.Errorf("%s: it is reported again, or not tried again: %s", phase, p)
		}
	}
}
