package scalehooks

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
	"drydock.dev/test/kit/build"
)

// hookPod is a pod of the Job that has failed with the code and the message.
func hookPod(job *batchv1.Job, code int32, message string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: job.Name + "-x", CreationTimestamp: metav1.NewTime(build.Now),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: job.Name, UID: job.UID, Controller: ptr.To(true)}}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "hook", TerminationMessagePolicy: corev1.TerminationMessageReadFile}}},
		Status: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{Name: "hook",
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message, Reason: "Error"}}}}},
	}
}

// TestFailureTellsHowTheContainerEnded, and nothing that it has logged.
func TestFailureTellsHowTheContainerEnded(t *testing.T) {
	job := hook("pre", failed)
	for name, row := range map[string]struct {
		code    int32
		message string
		change  func(*corev1.Pod)
		want    string
	}{
		"a message":     {3, "web-2 has 4 shards", nil, "; container hook ended with exit code 3: web-2 has 4 shards"},
		"no message":    {3, "", nil, "; container hook ended with exit code 3"},
		"several lines": {3, "one\n\ttwo\r\n", nil, "; container hook ended with exit code 3: one two"},
		"of a terminal": {3, "\x1b[31mred\u202e\u009b", nil, "; container hook ended with exit code 3: [31mred"},
		"not UTF-8":     {3, "a\xffb", nil, "; container hook ended with exit code 3: a b"},
		"from the log": {3, "secret", func(p *corev1.Pod) {
			p.Spec.Containers[0].TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
		}, "; container hook ended with exit code 3"},
		"of no container": {3, "secret", func(p *corev1.Pod) { p.Spec.Containers = nil }, "; container hook ended with exit code 3"},
		"out of memory":   {137, "", func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State.Terminated.Reason = "OOMKilled" }, "; container hook ended with exit code 137 (OOMKilled)"},
		"it succeeded":    {0, "done", nil, ""},
		"it runs":         {3, "", func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State = corev1.ContainerState{} }, ""},
		"an init container": {0, "", func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "wait", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}}}
		}, "; container wait ended with exit code 1"},
	} {
		in := on(web(2, records(api.PreScaling)), pilot(hooked), job)
		in.FailedPod = hookPod(job, row.code, row.message)
		if row.change != nil {
			row.change(in.FailedPod)
		}
		if got := in.failure(); got != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
		tellsUser(t, Decide(in), row.want)
	}
}

// TestFailureStaysShort whatever a container writes.
func TestFailureStaysShort(t *testing.T) {
	job := hook("pre", failed)
	in := on(web(2, records(api.PreScaling)), pilot(hooked), job)
	for _, message := range []string{strings.Repeat("x", 4096), strings.Repeat("ä\n", 2048), strings.Repeat("\xff", 4096)} {
		in.FailedPod = hookPod(job, 3, message)
		got := in.failure()
		if len(got) > longestReport+60 || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
			t.Errorf("%d bytes: %q", len(got), got)
		}
	}
}

// TestWhosePodIsRead: the latest one of the Job's own that has failed.
func TestWhosePodIsRead(t *testing.T) {
	job := hook("pre", failed)
	older, newer := hookPod(job, 1, ""), hookPod(job, 2, "")
	newer.CreationTimestamp = metav1.NewTime(build.Now.Add(time.Minute))
	if later(older, newer, job) != newer || later(newer, older, job) != newer || later(nil, older, job) != older {
		t.Error("not the latest")
	}
	for name, change := range map[string]func(*corev1.Pod){
		"a pod with the label of the Job":   func(p *corev1.Pod) { p.OwnerReferences = nil },
		"the pod of a Job of the same name": func(p *corev1.Pod) { p.OwnerReferences[0].UID = "other" },
		"a pod that runs":                   func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning },
	} {
		pod := hookPod(job, 2, "")
		change(pod)
		if later(nil, pod, job) != nil {
			t.Error(name)
		}
	}
}

// TestWhenPodsAreRead: only for the Job of the present phase, once it has failed.
func TestWhenPodsAreRead(t *testing.T) {
	for name, row := range map[string]struct {
		in   Input
		want bool
	}{
		"failed":           {on(web(2, records(api.PreScaling)), hook("pre", failed)), true},
		"runs":             {on(web(2, records(api.PreScaling)), hook("pre")), false},
		"complete":         {on(web(2, records(api.PreScaling)), hook("pre", complete)), false},
		"of another phase": {on(web(2, records(api.PreScaling)), hook("post", failed)), false},
		"for a failure":    {on(web(2, records(api.Failing)), hook("onFailure", failed)), false},
		"nothing runs":     {on(web(2, records(api.Succeeded)), hook("pre", failed)), false},
		"no record":        {on(web(2), hook("pre", failed)), false},
		"no set":           {on(hook("pre", failed)), false},
	} {
		if got := row.in.failedHook() != nil; got != row.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// calls gives the Scaler hooks by HTTP before the scaling.
func calls(url string) build.Option {
	return edited(func(s *v1alpha1.Scaler) {
		s.Spec.Hooks = v1alpha1.ScalerHooks{Pre: &v1alpha1.Hook{HTTP: &v1alpha1.HookHTTP{URL: url, Timeout: "10s"}}}
	})
}

// TestHookByHTTPIsAPodOfDrydocksImage, and a scaling whose URL is no good does not begin.
func TestHookByHTTPIsAPodOfDrydocksImage(t *testing.T) {
	in := on(web(2, records(api.PreScaling)), pilot(calls("http://drain/hook")))
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
		idle.Set, idle.Scalers = web(2, quiet(2)), []*v1alpha1.Scaler{pilot(calls(url))}
		p := Decide(idle)
		if record := stored(p); record != nil {
			t.Errorf("%s: a scaling begins: %s", url, p)
		}
		tellsUser(t, p, words)
	}
	idle := in
	idle.Set, idle.Settings = web(2, quiet(2)), api.Settings{}
	tellsUser(t, Decide(idle), "Set DRYDOCK_IMAGE")
}

// TestBackoffLimitIsTheJobs, and 0 without one.
func TestBackoffLimitIsTheJobs(t *testing.T) {
	for _, limit := range []int32{0, 3, 10} {
		in := on(web(2, records(api.PreScaling)), pilot(hooked, edited(func(s *v1alpha1.Scaler) { s.Spec.Hooks.Pre.Job.BackoffLimit = limit })))
		job, is := Decide(in).Actions[0].Object.(*batchv1.Job)
		if !is || job.Spec.BackoffLimit == nil || *job.Spec.BackoffLimit != limit || job.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyNever {
			t.Errorf("%d: %+v", limit, job)
		}
	}
}
