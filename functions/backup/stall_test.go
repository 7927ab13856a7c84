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

// waitsFor is a container that the kubelet does not start.
func waitsFor(reason, message string) build.Option {
	return build.Edit(func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodPending
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: moverreport.FirstContainer,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
	})
}

// silentNode is the node of the member, which has not reported for so long.
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

// TestStalls: what keeps a mover is told within a minute, and the operation is given up when it lasts.
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
	chosen := build.Target(web0, "128Mi", build.On(""), build.Annotation(selectedNode, build.NodeName))
	unprovisioned := append(append(set(moving0(api.MemberCopying)), append(journal(web0), source(web0)...)...), chosen)
	rolling := copying(build.Rolling)
	told := build.Annotation(moverreport.SignalAnnotation, signal.Encode())
	long := func(stop time.Duration) func(*api.Resize) {
		return build.EditMember(0, func(m *api.Member) { m.Stopped = operation.Moment(build.Now.Add(-stop)) })
	}
	check(t,
		row{"an image that cannot be pulled", given(copying(), pod(0), aged(time.Second, waitsFor("ErrImagePull", "no such image")))},
		row{"an image that cannot be pulled is told once", given(copying(was("ImagePullBackOff: no such image", time.Minute)), pod(0),
			aged(time.Minute, waitsFor("ImagePullBackOff", "no such image, again")))},
		row{"an image that cannot be pulled for too long", given(copying(), pod(0),
			aged(limit, waitsFor("ImagePullBackOff", "no such image")))},
		row{"nothing says why it does not start, and that is not long", given(copying(), pod(0), aged(20*time.Second, pending))},
		row{"nothing says why it does not start", given(copying(), pod(0), aged(21*time.Second, pending))},
		row{"a volume that cannot be mounted", but(given(copying(), pod(0), aged(time.Minute, pending)),
			warned(job+"-x", "FailedMount", "timed out"))},
		row{"no node has room, where all members stop: it is copied when the member has stopped",
			given(copying(), pod(0), aged(limit, pending, unplaced))},
		row{"no node has room, where one member stops", given(rolling, pod(0), aged(limit, pending, unplaced))},
		row{"a node was found, and no volume is provisioned there", given(unprovisioned, pod(0), aged(limit, pending, unplaced))},
		row{"it is being deleted for too long", given(copying(), pod(0), aged(time.Hour, deletedSince(limit)))},
		row{"the node of a member that has stopped does not report",
			given(stopped(), aged(time.Hour, build.Waits(), told), silentNode(time.Minute))},
		row{"the node of a member that has stopped does not report for too long",
			given(stopped(), aged(time.Hour, build.Waits(), told), silentNode(limit))},
		row{"the node does not report", given(copying(), pod(0), aged(time.Hour, notReady("", time.Minute)))},
		row{"the node does not report for too long", given(copying(), pod(0), aged(time.Hour, notReady("", limit)))},
		row{"it reports no progress", but(given(copying(), pod(0), aged(time.Hour)), silent(6*time.Minute))},
		row{"it reports no progress for too long", but(given(copying(), pod(0), aged(time.Hour)), silent(25*time.Minute))},
		row{"the final pass reports no progress",
			but(given(stopped(long(7*time.Minute)), aged(time.Hour, build.Waits(), told)), silent(6*time.Minute))},
		row{"the final pass reports no progress for too long",
			but(given(stopped(long(time.Hour)), aged(time.Hour, build.Waits(), told)), silent(25*time.Minute))},
		row{"the mover waited for long, and the member has just stopped",
			but(given(stopped(), aged(time.Hour, build.Waits(), told)), silent(25*time.Minute))},
		row{"the API server refuses its pod", but(given(copying(), pod(0), alone(time.Second)),
			warned(job, "FailedCreate", "must specify limits.cpu"))},
		row{"the API server refuses its pod for too long", but(given(copying(was("FailedCreate: must specify", limit)), pod(0),
			alone(time.Hour)), warned(job, "FailedCreate", "must specify limits.cpu"))},
		row{"no pod comes: its time runs", given(copying(), pod(0), alone(2*time.Minute))},
		row{"no pod comes", given(copying(was("", 61*time.Second)), pod(0), alone(time.Hour))},
		row{"no pod comes for too long", given(copying(was("", limit)), pod(0), alone(time.Hour))},
		row{"it goes on", given(copying(was("ImagePullBackOff: no such image", time.Minute)), pod(0), aged(time.Hour))},
		row{"a cause of others is bounded", given(copying(), pod(0), aged(time.Minute, waitsFor("Failed", strings.Repeat("x", 500)+"\n")))},
		row{"progress is written", but(given(copying(), pod(0), aged(time.Minute)), func(in *Input) {
			in.Progress, in.Moved = map[int]moverreport.Progress{0: {BytesDone: 5, BytesTotal: 10}}, map[int]time.Time{0: build.Now}
		})},
	)
}

// TestLogIsReadWhereItTellsProgress: in first passes, and in a final pass that lasts. A stop is not to wait for a log.
func TestLogIsReadWhereItTellsProgress(t *testing.T) {
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
		"first passes": {api.MemberCopying, 0, running(moverreport.FirstContainer), moverreport.FirstContainer},
		"it waits":     {api.MemberWaiting, 0, running(moverreport.FinalContainer), ""},
		"a final pass": {api.MemberFinalPass, time.Minute, running(moverreport.FinalContainer), ""},
		"a final pass that lasts": {api.MemberFinalPass, 6 * time.Minute, running(moverreport.FinalContainer),
			moverreport.FinalContainer},
		"a copy that began after the stop": {api.MemberFinalPass, 6 * time.Minute, running(moverreport.FirstContainer),
			moverreport.FirstContainer},
		"a final pass on a node that is away": {api.MemberFinalPass, 6 * time.Minute, notReady("", time.Minute), ""},
	} {
		member := build.Member(0, row.phase)
		member.Stopped = operation.Moment(build.Now.Add(-row.stopped))
		in := given(set(moving0(row.phase)))
		if got := in.logOf(&member, moverPod(1, row.pod)[1].(*corev1.Pod)); got != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
}
