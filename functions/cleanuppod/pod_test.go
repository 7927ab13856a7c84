package cleanuppod

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/podend"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

var longText = "é" + strings.Repeat("too long ", 20<<10)

func containers(init []corev1.ContainerStatus, others ...corev1.ContainerStatus) build.Option {
	return build.Edit(func(p *corev1.Pod) { p.Status.InitContainerStatuses, p.Status.ContainerStatuses = init, others })
}

func terminated(name string, code int32, ago time.Duration) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code,
		FinishedAt: metav1.NewTime(build.Now.Add(-ago))}}}
}

// saying returns the status of a container that has exited with 0 and left the termination message.
func saying(message string) corev1.ContainerStatus {
	c := terminated("drain", 0, 0)
	c.State.Terminated.Message = message
	return c
}

// evicted returns the Event of a kubelet that ends the pod because of a limit of its emptyDir.
func evicted() *corev1.Event {
	return &corev1.Event{Reason: "Evicted", Message: `Usage of EmptyDir volume "tmp" exceeds the limit "1Mi".`}
}

// killed returns the input with an Event that the kubelet ended each cleanup pod.
func killed(in Input) Input {
	for uid := range in.Kills.Events {
		in.Kills.Events[uid] = podend.Told{Kill: evicted()}
	}
	return in
}

// unread returns the input if the Events about the cleanup pods cannot be read.
func unread(in Input) Input {
	in.Kills = podend.Kills{Unread: "reading the Events about pod web-1: the server is shutting down"}
	return in
}

// restarted lets the container of a pod that has ended have this many failed runs before.
func restarted(times int32) build.Option {
	return build.Edit(func(p *corev1.Pod) { p.Status.ContainerStatuses[0].RestartCount = times })
}

// disruptedByKubelet sets the condition of a pod that ends because its node shuts down.
func disruptedByKubelet(o metav1.Object) {
	pod := o.(*corev1.Pod)
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
		Reason: "TerminationByKubelet", Message: "Pod was terminated in response to imminent node shutdown."})
}

func running(name string, restarts int32) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, RestartCount: restarts, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
}

func waits(name, reason string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}
}

func beside(names ...string) build.Option {
	return build.Edit(func(p *corev1.Pod) {
		for _, name := range names {
			p.Spec.InitContainers = append(p.Spec.InitContainers,
				corev1.Container{Name: name, RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)})
		}
	})
}

func unscheduled(message string) build.Option {
	return build.Edit(func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse},
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: message}}
	})
}

func TestTryFailure(t *testing.T) {
	old, older := build.Age(12*time.Minute), build.Age(24*time.Hour)
	type list = []corev1.ContainerStatus
	pods := map[string]struct {
		tries   int
		options []build.Option
	}{
		"it runs":                                 {0, nil},
		"the pod has run for a day":               {0, []build.Option{older}},
		"the pod was just created":                {0, []build.Option{pending}},
		"the pod does not start without a reason": {0, []build.Option{pending, old}},
		"the pod cannot be scheduled":             {0, []build.Option{pending, old, unscheduled("0/3 nodes\n")}},
		"an init container cannot start": {
			0, []build.Option{pending, old, containers(list{waits("init", "ErrImagePull")}, waits("drain", "PodInitializing"))}},
		"an init container runs for long": {
			0, []build.Option{pending, old, containers(list{running("init", 0)}, waits("drain", "PodInitializing"))}},
		"an init container has just ended": {
			0, []build.Option{pending, old, containers(list{terminated("init", 0, time.Minute)}, waits("drain", "PodInitializing"))}},
		"an init container ended long ago without progress since": {
			0, []build.Option{pending, older, containers(list{terminated("init", 0, time.Hour)}, waits("drain", "ErrImagePull"))}},
		"only the sidecar runs": {
			0, []build.Option{pending, old, beside("log"), containers(list{running("log", 0)}, waits("drain", "ErrImagePull"))}},
		"an init container fails":                       {0, []build.Option{pending, old, containers(list{terminated("init", 2, time.Hour)})}},
		"the init container failed as often as allowed": {2, []build.Option{pending, containers(list{terminated("init", 2, time.Hour)})}},
		"the sidecar fails often": {
			0, []build.Option{beside("log"), containers(list{running("log", 9)}, running("drain", 1))}},
		"the container was restarted twice":            {0, []build.Option{failing(2, "")}},
		"the container was restarted without a reason": {0, []build.Option{containers(nil, running("drain", 3))}},
		"the container was restarted after exit code 0": {
			0, []build.Option{containers(nil, corev1.ContainerStatus{Name: "drain", RestartCount: 1, State: terminated("drain", 0, 0).State})}},
		"one container failed, another succeeded": {2, []build.Option{containers(nil, terminated("a", 0, 0), terminated("b", 137, 0))}},
		"the pod does not end in time":            {0, []build.Option{build.Age(26 * time.Hour)}},
	}
	file := golden.Open(t)
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		row := pods[name]
		t.Run(name, func(t *testing.T) {
			entry := &api.OrdinalStatus{Tries: row.tries}
			if row.tries == 0 {
				entry = nil
			}
			file.Entry(t, name, cmp.Or(on(web()).round().tryFailure(entry, cleanupPod(1, row.options...)), "no trouble"))
		})
	}
}

func TestFailureTextNamesReason(t *testing.T) {
	oom := terminated("drain", 137, 0)
	oom.State.Terminated.Reason = "OOMKilled"
	if got := failureText(cleanupPod(1, containers(nil, oom))); got != "container drain exited with 137 (OOMKilled)" {
		t.Error(got)
	}
}

// TestLastOutput: the output of a container is untrusted. It appears in an annotation, in Kubernetes Events and on terminals.
func TestLastOutput(t *testing.T) {
	for name, row := range map[string]struct{ text, want string }{
		"nothing":            {"", ""},
		"a line":             {"no route to host\n", "no route to host"},
		"the last lines":     {"1\n2\r\n3\n\n4\n5\n6\n7", "3 | 4 | 5 | 6 | 7"},
		"control characters": {"\x1b[31mred\x1b[0m\a\b\x00\u202etxt\u0085", "[31mred [0m txt"},
		"a tab":              {"a\tb", "a b"},
		"invalid UTF-8":      {"a\xffb\xc3", "a b"},
		"other scripts":      {"données – 数据", "données – 数据"},
		"only control":       {"\x1b\n\x07", "|"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := lastOutput(row.text); got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
	for name, text := range map[string]string{"100 KB on a line": strings.Repeat("é", 50<<10),
		"100 KB of lines":   strings.Repeat("x\n", 50<<10),
		"100 KB of garbage": strings.Repeat("\xff\xfe\x00", 40<<10), "100 KB of wide ones": "a" + strings.Repeat("数", 40<<10)} {
		got := lastOutput(text)
		if len(got) > maxOutputBytes || !utf8.ValidString(got) || strings.ContainsFunc(got, unicode.IsControl) {
			t.Errorf("%s: %d bytes: %q", name, len(got), got)
		}
	}
}

// TestHostileOutputIsClippedAndPrintable: whatever a pod prints, stored text and Events stay short and printable.
func TestHostileOutputIsClippedAndPrintable(t *testing.T) {
	for _, words := range []string{strings.Repeat("\x1b[2J\xff", 30<<10), strings.Repeat("\"\\\u2028", 30<<10),
		strings.Repeat("%s%n", 30<<10)} {
		p := Decide(on(web(cleaning()), usedClaim("data-web-1"), cleanupPod(1, failing(3, words))))
		record := build.StoredCleanup(p)
		if record == nil || len(record.Encode()) > 4<<10 {
			t.Fatalf("%.1000s", p)
		}
		if message := record.Ordinals[0].Message; len(message) > 1<<10 || !utf8.ValidString(message) || strings.Contains(message, "%!") ||
			strings.ContainsFunc(message, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q", message)
		}
	}
}
