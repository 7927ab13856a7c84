package backup

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/operation"
	"drydock.dev/test/kit/build"
)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(build.Now.Add(-d)) }

// waitingContainer makes the mover's pod have a container that the kubelet does not start.
func waitingContainer(reason, message string) build.Option {
	return build.Edit(func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodPending
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: moverreport.FirstContainer,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
	})
}

// silentNode returns the member's node, which has not reported for the given time.
func silentNode(since time.Duration) objects {
	return objects{build.Node(build.Edit(func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: ago(since)}}
	}))}
}

func notReady(reason string, since time.Duration) build.Option {
	return build.Edit(func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: reason,
			LastTransitionTime: ago(since)}}
	})
}

func deletedSince(d time.Duration) build.Option {
	return build.Edit(func(p *corev1.Pod) { at := ago(d); p.DeletionTimestamp = &at })
}

// TestStalls: a stall of a mover is shown within a minute, and fails the operation if it lasts.
func TestStalls(t *testing.T) {
	const limit = 11 * time.Minute
	pending, unplaced := build.InPhase(corev1.PodPending), build.Edit(func(p *corev1.Pod) { p.Spec.NodeName = "" })
	aged := func(age time.Duration, options ...build.Option) objects {
		all := moverPod(1, options...)
		build.Age(age)(all[0])
		build.Age(age)(all[1])
		return all
	}
	alone := func(age time.Duration) objects { return aged(age)[:1] }
	was := func(cause string, since time.Duration) func(*api.Resize) {
		return func(r *api.Resize) {
			r.Members[0].Stalled, r.Members[0].StalledSince = cause, operation.Moment(build.Now.Add(-since))
			if cause != "" {
				r.Reason, r.Message = api.MoverStalled, cause+" (pod web-0)"
			}
		}
	}
	warned := func(name, reason, message string) func(*Input) {
		return func(in *Input) {
			in.Warnings = map[string]Warning{name: {Reason: reason, Message: message, At: build.Now}}
		}
	}
	silent := func(since time.Duration) func(*Input) {
		return func(in *Input) { in.Moved = map[int]time.Time{0: build.Now.Add(-since)} }
	}
	job := api.MoverName(id, 0, 1)
	chosen := build.Target(web0, "128Mi", build.BoundTo(""), build.Annotation(selectedNode, build.NodeName))
	unprovisioned := append(append(set(whileMoving(api.MemberCopying)), append(journal(web0), source(web0)...)...), chosen)
	rolling := copying(build.Rolling)
	signalled := build.Annotation(moverreport.SignalAnnotation, signal.Encode())
	long := func(stop time.Duration) func(*api.Resize) {
		return build.EditMember(0, func(m *api.Member) { m.StoppedAt = operation.Moment(build.Now.Add(-stop)) })
	}
	check(t,
		row{"an image that cannot be pulled", given(copying(), pod(0), aged(time.Second, waitingContainer("ErrImagePull", "no such image")))},
		row{"an image that cannot be pulled is reported only once", given(copying(was("ImagePullBackOff: no such image", time.Minute)), pod(0),
			aged(time.Minute, waitingContainer("ImagePullBackOff", "no such image, again")))},
		row{"an image that cannot be pulled for too long",
			given(copying(), pod(0), aged(limit, waitingContainer("ImagePullBackOff", "no such image")))},
		row{"the pod does not start, for no known reason, since a short time", given(copying(), pod(0), aged(20*time.Second, pending))},
		row{"the pod does not start, for no known reason", given(copying(), pod(0), aged(21*time.Second, pending))},
		row{"a volume that cannot be mounted",
			with(given(copying(), pod(0), aged(time.Minute, pending)), warned(job+"-x", "FailedMount", "timed out"))},
		row{"whole: no node has room, so the member is copied after its stop",
			given(copying(), pod(0), aged(limit, pending, unplaced))},
		row{"rolling: no node has room", given(rolling, pod(0), aged(limit, pending, unplaced))},
		row{"a node was selected, but no volume is provisioned there", given(unprovisioned, pod(0), aged(limit, pending, unplaced))},
		row{"the pod has been terminating for too long", given(copying(), pod(0), aged(time.Hour, deletedSince(limit)))},
		row{"the node of a stopped member does not report",
			given(stopped(), aged(time.Hour, build.FirstPassConverged(), signalled), silentNode(time.Minute))},
		row{"the node of a stopped member has not reported for too long",
			given(stopped(), aged(time.Hour, build.FirstPassConverged(), signalled), silentNode(limit))},
		row{"the node does not report", given(copying(), pod(0), aged(time.Hour, notReady("", time.Minute)))},
		row{"the node has not reported for too long", given(copying(), pod(0), aged(time.Hour, notReady("", limit)))},
		row{"the mover reports no progress", with(given(copying(), pod(0), aged(time.Hour)), silent(6*time.Minute))},
		row{"the mover has reported no progress for too long", with(given(copying(), pod(0), aged(time.Hour)), silent(25*time.Minute))},
		row{"the final pass reports no progress",
			with(given(stopped(long(7*time.Minute)), aged(time.Hour, build.FirstPassConverged(), signalled)), silent(6*time.Minute))},
		row{"the final pass has reported no progress for too long",
			with(given(stopped(long(time.Hour)), aged(time.Hour, build.FirstPassConverged(), signalled)), silent(25*time.Minute))},
		row{"the mover waited for a long time, and the member has just stopped",
			with(given(stopped(), aged(time.Hour, build.FirstPassConverged(), signalled)), silent(25*time.Minute))},
		row{"the API server rejects the pod",
			with(given(copying(), pod(0), alone(time.Second)), warned(job, "FailedCreate", "must specify limits.cpu"))},
		row{"the API server has rejected the pod for too long", with(given(copying(was("FailedCreate: must specify", limit)), pod(0),
			alone(time.Hour)), warned(job, "FailedCreate", "must specify limits.cpu"))},
		row{"no pod appears: only the time is stored", given(copying(), pod(0), alone(2*time.Minute))},
		row{"no pod appears", given(copying(was("", 61*time.Second)), pod(0), alone(time.Hour))},
		row{"no pod has appeared for too long", given(copying(was("", limit)), pod(0), alone(time.Hour))},
		row{"the mover makes progress again", given(copying(was("ImagePullBackOff: no such image", time.Minute)), pod(0), aged(time.Hour))},
		row{"the text of another program is cut",
			given(copying(), pod(0), aged(time.Minute, waitingContainer("Failed", strings.Repeat("x", 500)+"\n")))},
		row{"progress is stored", with(given(copying(), pod(0), aged(time.Minute)), func(in *Input) {
			in.Progress, in.Moved = map[int]moverreport.Progress{0: {Claim: "data", BytesDone: 5, BytesTotal: 10}}, map[int]time.Time{0: build.Now}
		})},
	)
}

// TestLogIsReadOnlyForProgress: the log is read in first passes and in a long final pass. A stop must not wait for a log.
func TestLogIsReadOnlyForProgress(t *testing.T) {
	running := func(name string) build.Option {
		return build.Edit(func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: moverreport.FirstContainer}}
			if name == moverreport.FinalContainer {
				p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, corev1.ContainerStatus{Name: name})
			}
			last := &p.Status.InitContainerStatuses[len(p.Status.InitContainerStatuses)-1]
			last.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
		})
	}
	for name, row := range map[string]struct {
		phase   api.MemberPhase
		stopped time.Duration
		pod     build.Option
		want    string
	}{
		"first passes":    {api.MemberCopying, 0, running(moverreport.FirstContainer), moverreport.FirstContainer},
		"a waiting mover": {api.MemberWaiting, 0, running(moverreport.FinalContainer), ""},
		"a final pass":    {api.MemberFinalPass, time.Minute, running(moverreport.FinalContainer), ""},
		"a long final pass": {api.MemberFinalPass, 6 * time.Minute, running(moverreport.FinalContainer),
			moverreport.FinalContainer},
		"a copy that started after the stop": {api.MemberFinalPass, 6 * time.Minute, running(moverreport.FirstContainer),
			moverreport.FirstContainer},
		"a final pass on a lost node": {api.MemberFinalPass, 6 * time.Minute, notReady("", time.Minute), ""},
	} {
		member := build.Member(0, row.phase)
		member.StoppedAt = operation.Moment(build.Now.Add(-row.stopped))
		in := given(set(whileMoving(row.phase)))
		if got := in.progressContainer(&member, moverPod(1, row.pod)[1].(*corev1.Pod)); got != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
}

func neverStarted(o *corev1.Pod) {
	build.Age(3 * time.Hour)(o)
	o.Spec.NodeName, o.Status.Phase = "", corev1.PodPending
	o.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable",
		Message: "0/3 nodes are available: 3 Insufficient cpu."}}
	o.Status.ContainerStatuses = nil
}

// TestStallOfMemberEndsWithItsRemedy: the stall advises to scale the set to 0. Then the member is handed to restore, and the stall must
// end.
func TestStallOfMemberEndsWithItsRemedy(t *testing.T) {
	first := Decide(given(copying(build.Due(24*time.Hour)), pod(0, build.Edit(neverStarted))))
	stalled := build.Stored(first)
	if stalled == nil || stalled.Members[0].Stalled == "" {
		t.Fatalf("control: %s", first)
	}
	at := append(set(stalled, build.Replicas(0)), append(journal(web0), append(source(web0), target(web0)...)...)...)
	p := Decide(given(at))
	next := build.Stored(p)
	if next == nil || next.Members[0].Phase != api.MemberWaiting {
		t.Fatalf("control: %s", p)
	}
	if next.Members[0].Stalled != "" || next.Reason == api.MoverStalled {
		t.Errorf("the user has followed the advice; the pod is gone, and the record still says: %s: %s (member: %q)", next.Reason, next.Message,
			next.Members[0].Stalled)
	}
	// restore writes why it does not stop the member yet. backup must leave that alone.
	next.Reason, next.Message = api.GateClosed, "the cutover waits for the window Sat 02:00-04:00"
	at = append(set(next, build.Replicas(0)), append(journal(web0), append(source(web0), target(web0)...)...)...)
	if stored := build.Stored(Decide(given(at))); stored != nil {
		t.Errorf("backup overwrites restore's message, and restore will overwrite backup's: %s: %s", stored.Reason, stored.Message)
	}
}

// TestStallOfMemberEndsWhenPodRuns: the pod runs, and its mover only waits for the turn of another member.
func TestStallOfMemberEndsWhenPodRuns(t *testing.T) {
	first := Decide(given(copying(build.Due(24*time.Hour)), pod(0, build.Edit(neverStarted))))
	stalled := build.Stored(first)
	at := append(set(stalled), append(journal(web0), append(source(web0), target(web0)...)...)...)
	p := Decide(given(at, pod(0)))
	next := build.Stored(p)
	t.Logf("%s", p)
	if next == nil || next.Members[0].Stalled != "" {
		t.Errorf("the pod runs, and the record says: %q", stalled.Members[0].Stalled)
	}
}
