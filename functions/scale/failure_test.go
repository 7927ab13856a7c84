package scale

import (
	"strings"
	"testing"
	"time"
	"unicode"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// hookPod returns a failed pod of the Job with the exit code and termination message.
func hookPod(job *batchv1.Job, code int32, message string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: job.Name + "-x", CreationTimestamp: metav1.NewTime(build.Now),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: job.Name, UID: job.UID,
				Controller: ptr.To(true)}}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "hook", TerminationMessagePolicy: corev1.TerminationMessageReadFile}}},
		Status: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{Name: "hook",
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message,
				Reason: "Error"}}}}},
	}
}

// TestFailureQuotesExitCodeAndTerminationMessage: the message never quotes the container's log.
func TestFailureQuotesExitCodeAndTerminationMessage(t *testing.T) {
	job := hookJob("pre", failed)
	for name, row := range map[string]struct {
		code    int32
		message string
		change  func(*corev1.Pod)
		want    string
	}{
		"a message":        {3, "web-2 has 4 shards", nil, "; container hook ended with exit code 3: web-2 has 4 shards"},
		"no message":       {3, "", nil, "; container hook ended with exit code 3"},
		"several lines":    {3, "one\n\ttwo\r\n", nil, "; container hook ended with exit code 3: one two"},
		"terminal escapes": {3, "\x1b[31mred\u202e\u009b", nil, "; container hook ended with exit code 3: [31mred"},
		"invalid UTF-8":    {3, "a\xffb", nil, "; container hook ended with exit code 3: a b"},
		"message from the log": {3, "secret", func(p *corev1.Pod) {
			p.Spec.Containers[0].TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
		}, "; container hook ended with exit code 3"},
		"container not in the spec": {3, "secret", func(p *corev1.Pod) { p.Spec.Containers = nil },
			"; container hook ended with exit code 3"},
		"out of memory": {137, "", func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State.Terminated.Reason = "OOMKilled" },
			"; container hook ended with exit code 137 (OOMKilled)"},
		"container succeeded":  {0, "done", nil, ""},
		"container is running": {3, "", func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State = corev1.ContainerState{} }, ""},
		"init container failed": {0, "", func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "wait",
				State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}}}
		}, "; container wait ended with exit code 1"},
	} {
		in := observed(web(2, withRecord(api.PreScaling)), pilot(withHooks), job)
		pod := hookPod(job, row.code, row.message)
		if row.change != nil {
			row.change(pod)
		}
		in.HookPods = []*corev1.Pod{pod}
		if got := in.containerFailure(); got != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
		checkHealthMessage(t, Decide(in), row.want)
	}
}

// TestQuotedTerminationMessageIsShort: it is short and printable, whatever the container writes.
func TestQuotedTerminationMessageIsShort(t *testing.T) {
	job := hookJob("pre", failed)
	in := observed(web(2, withRecord(api.PreScaling)), pilot(withHooks), job)
	for _, message := range []string{strings.Repeat("x", 4096), strings.Repeat("ä\n", 2048), strings.Repeat("\xff", 4096)} {
		in.HookPods = []*corev1.Pod{hookPod(job, 3, message)}
		got := in.containerFailure()
		if len(got) > maxContainerMessage+60 || strings.ContainsFunc(got, func(r rune) bool {
			return !unicode.IsPrint(r) ||
				r == unicode.ReplacementChar
		}) {
			t.Errorf("%d bytes: %q", len(got), got)
		}
	}
}

// TestFailureReadsLatestFailedPodOfJob: pods of other owners, and pods that have not failed, are ignored.
func TestFailureReadsLatestFailedPodOfJob(t *testing.T) {
	job := hookJob("pre", failed)
	older, newer := hookPod(job, 1, ""), hookPod(job, 2, "")
	newer.CreationTimestamp = metav1.NewTime(build.Now.Add(time.Minute))
	if latestFailedPod(older, newer, job) != newer || latestFailedPod(newer, older, job) != newer ||
		latestFailedPod(nil, older, job) != older {
		t.Error("the pod is not the latest one")
	}
	for name, change := range map[string]func(*corev1.Pod){
		"a pod with the label of the Job":   func(p *corev1.Pod) { p.OwnerReferences = nil },
		"the pod of a Job of the same name": func(p *corev1.Pod) { p.OwnerReferences[0].UID = "other" },
		"a pod that runs":                   func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning },
	} {
		pod := hookPod(job, 2, "")
		change(pod)
		if latestFailedPod(nil, pod, job) != nil {
			t.Error(name)
		}
	}
}

// TestPodsAreReadOnlyForEndedHookOfThisPhase: in other situations Drydock needs no request for pods.
func TestPodsAreReadOnlyForEndedHookOfThisPhase(t *testing.T) {
	for name, row := range map[string]struct {
		in   Input
		want bool
	}{
		"failed":                {observed(web(2, withRecord(api.PreScaling)), hookJob("pre", failed)), true},
		"running":               {observed(web(2, withRecord(api.PreScaling)), hookJob("pre")), false},
		"complete":              {observed(web(2, withRecord(api.PreScaling)), hookJob("pre", completed)), true},
		"hook of another phase": {observed(web(2, withRecord(api.PreScaling)), hookJob("post", failed)), false},
		"failure hook":          {observed(web(2, withRecord(api.Failing)), hookJob("onFailure", failed)), false},
		"no active scaling":     {observed(web(2, withRecord(api.Succeeded)), hookJob("pre", failed)), false},
		"no record":             {observed(web(2), hookJob("pre", failed)), false},
		"no set":                {observed(hookJob("pre", failed)), false},
	} {
		if got := row.in.endedHook() != nil; got != row.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// withHTTPHook gives the Scaler a pre hook by HTTP.
func withHTTPHook(url string) build.Option {
	return editScaler(func(s *v1alpha1.Scaler) {
		s.Spec.Hooks = v1alpha1.ScalerHooks{Pre: &v1alpha1.Hook{HTTP: &v1alpha1.HookHTTP{URL: url, Timeout: "10s"}}}
	})
}

// TestHTTPHookRunsInDrydockImage: a Job with Drydock's image calls the URL. A scaling with an invalid URL does not begin.
func TestHTTPHookRunsInDrydockImage(t *testing.T) {
	in := observed(web(2, withRecord(api.PreScaling)), pilot(withHTTPHook("http://drain/hook")))
	in.Settings = build.Settings()
	in.Settings.AllowTags = true
	p := Decide(in)
	if len(p.Actions) == 0 {
		t.Fatalf("%s", p)
	}
	job, is := p.Actions[0].Object.(*batchv1.Job)
	if !is || job.Spec.Template.Spec.Containers[0].Image != in.Settings.Image || *job.Spec.BackoffLimit != 0 {
		t.Errorf("%s: %+v", p, job)
	}
	for url, words := range map[string]string{"http://u:secret@drain/": "user or a password", "http:///": "names no host"} {
		idle := in
		idle.Set, idle.Scalers = web(2, withEndedScaling(2)), []*v1alpha1.Scaler{pilot(withHTTPHook(url))}
		p := Decide(idle)
		if record := build.StoredScale(p); record != nil {
			t.Errorf("%s: a scaling begins: %s", url, p)
		}
		checkHealthMessage(t, p, words)
	}
	idle := in
	idle.Set, idle.Settings = web(2, withEndedScaling(2)), api.Settings{}
	checkHealthMessage(t, Decide(idle), "Set DRYDOCK_IMAGE")
}

// TestHookJobHasBackoffLimitOfScaler: the backoff limit is 0 by default.
func TestHookJobHasBackoffLimitOfScaler(t *testing.T) {
	for _, limit := range []int32{0, 3, 10} {
		in := observed(web(2, withRecord(api.PreScaling)), pilot(withHooks,
			editScaler(func(s *v1alpha1.Scaler) { s.Spec.Hooks.Pre.Job.BackoffLimit = limit })))
		job, is := Decide(in).Actions[0].Object.(*batchv1.Job)
		if !is || job.Spec.BackoffLimit == nil || *job.Spec.BackoffLimit != limit ||
			job.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyNever {
			t.Errorf("%d: %+v", limit, job)
		}
	}
}

// TestRetryWithInvalidHookSaysSo: a scaling has failed, and the user edits the hook and retries. The new hook is invalid, so no
// scaling begins. The condition Healthy must say that, and not ask for the retry that the user has made.
func TestRetryWithInvalidHookSaysSo(t *testing.T) {
	in := observed(web(2, withRecord(api.Failed, failedAt(api.PreScaling))), pilot(withInvalidHooks, withRetry))
	said := ""
	for range 10 {
		p := Decide(in)
		if p.Kind != plan.KindDo {
			break
		}
		for _, a := range p.Actions {
			in = in.afterAction(a)
		}
	}
	for _, c := range in.Scalers[0].Status.Conditions {
		if c.Type == "Healthy" || c.Type == "Failed" {
			said += c.Type + " " + c.Reason + ": " + c.Message + "\n"
		}
	}
	if !strings.Contains(said, string(api.HookInvalid)) {
		t.Errorf("the retry cannot begin (HookInvalid), and the Scaler says only:\n%s", said)
	}
}
