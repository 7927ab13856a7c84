package backup

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(build.Now.Add(-d)) }

// waiting is a container that the kubelet does not start.
func waiting(reason, message string) build.Option {
	return build.Edit(func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodPending
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "copy", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
	})
}

// copiedBeside is a container copy that has ended beside one that runs.
func copiedBeside(sidecar string, ended time.Duration) build.Option {
	return build.Edit(func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{
			{Name: "copy", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: ago(ended)}}},
			{Name: sidecar, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	})
}

func notReady(reason string, since time.Duration) build.Option {
	return build.Edit(func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: reason, LastTransitionTime: ago(since)}}
	})
}

func deletedSince(d time.Duration) build.Option {
	return build.Edit(func(p *corev1.Pod) { at := ago(d); p.DeletionTimestamp = &at })
}

// stalled is the record of a stall of claim 0.
func stalled(cause string, since time.Duration) func(*api.Resize) {
	return func(s *api.Resize) {
		s.Claims[0].Stalled, s.Claims[0].StalledSince = cause, operation.Moment(build.Now.Add(-since))
		if cause != "" {
			s.Reason, s.Message = api.MoverStalled, cause+" (claim data-web-0)"
		}
	}
}

// TestStallIsNamedThenFails: what the status says of claim 0 after a look, and whether the operation fails, while the set runs and when
// it is stopped.
func TestStallIsNamedThenFails(t *testing.T) {
	const limit = 11 * time.Minute
	node0 := node("node-0")
	for name, row := range map[string]struct {
		age     time.Duration // of Job and pod
		pod     []build.Option
		noPod   bool
		warning Warning
		moved   time.Duration // how long ago
		was     func(*api.Resize)
		want    string // the prefix of the cause; empty: none
		fails   bool
	}{
		"it runs":                                          {age: time.Hour},
		"an image that cannot be pulled":                   {age: time.Second, pod: []build.Option{waiting("ErrImagePull", "no such image"), node0}, want: "ImagePullBackOff: no such image"},
		"a moment before it is told":                       {age: 20 * time.Second, pod: []build.Option{build.InPhase(corev1.PodPending), node0}},
		"nothing says why it does not start":               {age: 21 * time.Second, pod: []build.Option{build.InPhase(corev1.PodPending), node0}, want: "NotStarted: look at kubectl describe pod"},
		"an image, for too long":                           {age: limit, pod: []build.Option{waiting("ImagePullBackOff", "no such image"), node0}, want: "ImagePullBackOff", fails: true},
		"a volume that cannot be mounted":                  {age: time.Minute, pod: []build.Option{build.InPhase(corev1.PodPending), node0}, warning: Warning{Reason: "FailedMount", Message: "timed out"}, want: "FailedMount: timed out"},
		"a pod that is being deleted for too long":         {age: time.Hour, pod: []build.Option{deletedSince(limit), node0}, want: "Terminating: pod", fails: true},
		"a pod that is being deleted":                      {age: time.Hour, pod: []build.Option{deletedSince(time.Minute), node0}, want: "Terminating: pod"},
		"a pod with time left to end":                      {age: time.Hour, pod: []build.Option{deletedSince(-time.Second), node0}},
		"an injected container outlives the copy":          {age: time.Hour, pod: []build.Option{copiedBeside("mesh-proxy", time.Minute)}, want: "SidecarRunning: the copy has ended, but container mesh-proxy"},
		"an injected container, for too long":              {age: time.Hour, pod: []build.Option{copiedBeside("mesh-proxy", limit)}, want: "SidecarRunning", fails: true},
		"the node does not report":                         {age: time.Hour, pod: []build.Option{notReady("", time.Minute), node0}, want: "NodeNotReady: node node-0"},
		"the node does not report for too long":            {age: time.Hour, pod: []build.Option{notReady("", limit), node0}, want: "NodeNotReady", fails: true},
		"another container is not ready: the copy goes on": {age: time.Hour, pod: []build.Option{notReady("ContainersNotReady", time.Hour)}},
		"it reports progress":                              {age: time.Hour, moved: time.Minute},
		"it reports no progress":                           {age: time.Hour, moved: 6 * time.Minute, want: "NoProgress: pod"},
		"it reports no progress for too long":              {age: time.Hour, moved: 25 * time.Minute, want: "NoProgress", fails: true},
		"the API server refuses its pod":                   {age: time.Second, noPod: true, warning: Warning{Reason: "FailedCreate", Message: "must specify limits.cpu", At: build.Now}, want: "FailedCreate: must specify"},
		"it refuses it for too long":                       {age: time.Hour, noPod: true, warning: Warning{Reason: "FailedCreate", Message: "must specify limits.cpu", At: build.Now}, was: stalled("FailedCreate: must specify", limit), want: "FailedCreate", fails: true},
		"the refusal is older than the Job":                {age: time.Second, noPod: true, warning: Warning{Reason: "FailedCreate", Message: "of another Job", At: build.Now.Add(-time.Minute)}},
		"a pod that was deleted is replaced in a moment":   {age: time.Hour, noPod: true},
		"no pod comes":                                     {age: time.Hour, noPod: true, was: stalled("", 61*time.Second), want: "NoPod: job"},
		"no pod comes for too long":                        {age: time.Hour, noPod: true, was: stalled("", limit), want: "", fails: true},
		"the pod that was stalled is gone: time begins":    {age: time.Hour, noPod: true, was: stalled("ImagePullBackOff: no such image", time.Hour)},
		"it goes on": {age: time.Hour, was: stalled("ImagePullBackOff: no such image", time.Minute)},
	} {
		for _, round := range []int{warmRound, 1} {
			t.Run(map[int]string{warmRound: "running: ", 1: "stopped: "}[round]+name, func(t *testing.T) {
				status := copyOperation(api.ClaimWarming, beside("uid-web-0", "uid-web-1"))
				if round == 1 {
					status = copyOperation(api.ClaimCopying, build.Quiet(5))
				}
				if row.was != nil {
					row.was(status)
				}
				job, other := build.Job(names[0], round, build.Age(row.age)), build.Job(names[1], round)
				all := append(running(status), job, other, build.Mover(other))
				if round == 1 {
					all = append(running(status, build.Replicas(0)), job, other, build.Mover(other))
				} else {
					all = append(all, users()...)
				}
				if !row.noPod {
					all = append(all, build.Mover(job, row.pod...))
				}
				in := world(all)
				in.Warnings = map[string]Warning{job.Name: row.warning, job.Name + "-x": row.warning}
				if row.moved > 0 {
					in.Moved = map[string]time.Time{names[0]: build.Now.Add(-row.moved)}
				}
				expectStalled(t, Decide(in), status, row.want, row.fails)
			})
		}
	}
}

func expectStalled(t *testing.T, p plan.Plan, before *api.Resize, want string, fails bool) {
	t.Helper()
	next := build.Stored(p)
	if next == nil {
		next = before
	}
	switch {
	case fails != (next.Phase == api.RollingBack):
		t.Errorf("fails %t: %s", !fails, p)
	case fails && (next.Reason != api.CopyFailed || !strings.Contains(next.Message, want) || !strings.Contains(next.Message, api.RetryAnnotation)):
		t.Errorf("%s: %s", next.Reason, next.Message)
	case !fails && (want == "") != (next.Claims[0].Stalled == "") || !fails && !strings.HasPrefix(next.Claims[0].Stalled, want):
		t.Errorf("stalled %q: %s", next.Claims[0].Stalled, p)
	case !fails && (want != "") != (next.Reason == api.MoverStalled && strings.HasPrefix(next.Message, want)):
		t.Errorf("%s: %s", next.Reason, next.Message)
	case !fails && want != "" && before.Reason != api.MoverStalled && !strings.Contains(p.String(), "event MoverStalled"):
		t.Errorf("no Event: %s", p)
	}
}

// TestStallIsWrittenOnce: its details change with every look, and are no news.
func TestStallIsWrittenOnce(t *testing.T) {
	status := copyOperation(api.ClaimWarming, beside("uid-web-0", "uid-web-1"), stalled("Unschedulable: 0/3 nodes are available", time.Minute))
	job := build.Job(names[0], warmRound, build.Age(2*time.Minute))
	unschedulable := build.Edit(func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodPending
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/4 nodes are available"}}
	})
	in := world(running(status), users(), objects{job, build.Mover(job, unschedulable)}, warming(1))
	if p := Decide(in); p.Kind != plan.KindWait {
		t.Errorf("%s", p)
	}
}

// TestCauseIsOneShortLine: its text comes from others.
func TestCauseIsOneShortLine(t *testing.T) {
	got := bounded("Failed: a\nb\t" + strings.Repeat("é", 400))
	if strings.ContainsAny(got, "\n\t") || len(got) > maxCause+3 || !strings.HasPrefix(got, "Failed: a b é") || !strings.HasSuffix(got, "...") {
		t.Errorf("%q", got)
	}
}

// TestFailedPodIsReplacedByTheJob: while the Job controller waits before the next try, nothing is stalled.
func TestFailedPodIsReplacedByTheJob(t *testing.T) {
	job := build.Job(names[0], 1, build.Age(time.Hour))
	failed := build.Mover(job, build.InPhase(corev1.PodFailed), build.Edit(func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "copy", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: ago(50 * time.Second)}}}}
	}))
	in := world(objects{failed})
	part := api.ClaimStatus{Name: names[0]}
	in.Settings.StartTimeout = time.Minute
	stallOf(in, &part, job).note(in, &part)
	if part.Stalled != "" || part.StalledSince != nil {
		t.Errorf("%+v", part)
	}
	if s := stallOf(in, &part, build.With(job.DeepCopy(), build.Complete())); s != nil {
		t.Errorf("a Job that has ended: %+v", s)
	}
}
