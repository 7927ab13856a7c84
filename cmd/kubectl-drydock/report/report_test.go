package report

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"

	"drydock.dev/cmd/kubectl-drydock/logs"
	"drydock.dev/shared/api"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

// render returns the files as one text.
func render(t *testing.T, in Input) string {
	t.Helper()
	files, err := Files(in)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range files {
		b.WriteString("=== " + f.Name + "\n" + string(f.Content))
	}
	return b.String()
}

// TestReportWithoutFactsSaysWhatIsMissing: a report is useful even if nothing could be read.
func TestReportWithoutFactsSaysWhatIsMissing(t *testing.T) {
	golden.Equal(t, render(t, Input{Now: build.Now, Namespace: "shop", Set: "web", Missing: []string{"You may not read\n\x1b[2Jthe pods."},
		Groups: []Group{{File: "pods.yaml", Kind: "Pod", About: "its pods"}}, Logs: &logs.Document{Notes: []string{"No line was found."}}}))
}

// TestLinesOfUsersProgramsAreRemoved: functions and movers keep their known fields.
func TestLinesOfUsersProgramsAreRemoved(t *testing.T) {
	lines := []logs.Line{
		{Origin: "restore", Kind: logs.Function, Fields: map[string]any{"msg": "done", "mine": "hunter2",
			"plan": map[string]any{"a": "hunter2"}}},
		{Origin: "a/first", Kind: logs.Mover, Fields: map[string]any{"phase": "copy", "claims": []any{map[string]any{"name": "data",
			"mine": "hunter2"}}, "mine": []any{"hunter2"}}},
		{Origin: "a/final", Kind: logs.Mover, Text: "panic: password=hunter2"},
		{Origin: "b/drain", Kind: logs.Hook, Text: "hunter2"},
		{Origin: "c/clean", Kind: logs.Cleanup, Text: "hunter2"},
		{Origin: "d/x", Kind: "unknown", Text: "hunter2", Fields: map[string]any{"msg": "hunter2"}},
	}
	text := strings.Join(logs.Render(Lines(lines)), "\n") + "\n"
	if strings.Contains(text, "hunter2") {
		t.Error("a secret is left")
	}
	golden.Equal(t, text)
}

// TestSettingsKeepKnownVariables: a variable of another program may contain anything.
func TestSettingsKeepKnownVariables(t *testing.T) {
	golden.Equal(t, render(t, Input{Now: build.Now, Settings: map[string]string{
		"DRYDOCK_RETENTION": "48h", "DRYDOCK_PROMETHEUS": "https://user:hunter2@prometheus/{namespace}", "DRYDOCK_NEW": "hunter2",
		"OTEL_EXPORTER_OTLP_HEADERS": "authorization=hunter2", "OTEL_RESOURCE_ATTRIBUTES": "hunter2", "K_SINK": "http://broker", "": "hunter2"}}))
}

// TestQuotedCommandsAndProbesAreRemoved: kubelets and records quote what the report removes elsewhere. Other texts stay.
func TestQuotedCommandsAndProbesAreRemoved(t *testing.T) {
	const query = `sum(orders{customer="ACME-merger-hunter2"}) > 0`
	sleep := build.Sleep(api.Refused)
	sleep.Reason, sleep.Message = api.ProbeFailed, "activity probe prometheus:"+query+" failed: prometheus did not answer. The set stays awake"
	container := func(command ...any) map[string]any {
		return map[string]any{"metadata": map[string]any{"name": "mysql-0"}, "spec": map[string]any{"containers": []any{map[string]any{
			"name": "mysql", "command": command, "args": []any{"--verbose", "-phunter2", "removed", "data"},
			"readinessProbe": map[string]any{"httpGet": map[string]any{"path": "/ready/hunter2", "port": 80}}}}},
			"status": map[string]any{"containerStatuses": []any{map[string]any{"name": "mysql", "state": map[string]any{"waiting": map[string]any{
				"reason":  "RunContainerError",
				"message": `failed to create containerd task: exec: "redis-cli -a hunter2": executable file not found in $PATH`}}}}}}
	}
	event := func(message string) map[string]any {
		return map[string]any{"reason": "Failed", "message": message, "source": map[string]any{"component": "kubelet"}}
	}
	hook := map[string]any{"metadata": map[string]any{"name": "web"}, "spec": map[string]any{"hooks": map[string]any{"pre": map[string]any{
		"http": map[string]any{"url": "https://hooks.example/hunter2"}}}}}
	text := render(t, Input{Now: build.Now, Namespace: "shop", Set: "web",
		Annotations: map[string]string{api.SleepAnnotation: sleep.Encode(), api.ActivityProbeAnnotation: "prometheus:" + query,
			api.MemberCheckAnnotation: "https:8443/in-use/hunter2?k=hunter2 host=x.example"},
		Status: map[string]any{"message": "the check https:8443/in-use/hunter2?k=hunter2 host=x.example of pod web-1 failed"},
		Groups: []Group{
			{File: "pods.yaml", Kind: "Pod", Objects: []map[string]any{container("redis-cli -a hunter2"), container("mysql", "-phunter2")}},
			{File: "events.yaml", Kind: "Event", Objects: []map[string]any{event("mysql -phunter2, then -phunter2 -phunter2."),
				event("GET /ready/hunter2 failed"), event("POST https://hooks.example/hunter2: 403 Forbidden"),
				event("pod mysql-0 waits for the volume pvc-1 of claim data-mysql-0")}},
			{File: "scalers.yaml", Kind: "Scaler", Objects: []map[string]any{hook}},
		},
		Logs: &logs.Document{Lines: []logs.Line{{Origin: "idle-timeout", Kind: logs.Function, Fields: map[string]any{
			"msg": "asked", "error": "activity probe prometheus:" + query + " failed"}}}}})
	if strings.Contains(text, "hunter2") {
		t.Error("a command, a path or a query is left")
	}
	unfolded := strings.Join(strings.Fields(text), " ") // YAML breaks long lines
	for _, kept := range []string{"pod mysql-0 waits for the volume pvc-1 of claim data-mysql-0", "executable file not found in $PATH",
		"prometheus did not answer. The set stays awake", "name: mysql", "name: mysql-0", "of pod web-1 failed"} {
		if !strings.Contains(unfolded, kept) {
			t.Errorf("%q is removed", kept)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

func TestArchiveHasOneFolder(t *testing.T) {
	var out bytes.Buffer
	if err := WriteArchive(&out, "report", build.Now, []File{{Name: "a.txt", Content: []byte("x")}, {Name: "b.txt"}}); err != nil {
		t.Fatal(err)
	}
	compressed, err := gzip.NewReader(&out)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for archive := tar.NewReader(compressed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
		if header.Mode != 0o600 {
			t.Errorf("%s has mode %o", header.Name, header.Mode)
		}
	}
	if got := strings.Join(names, " "); got != "report/a.txt report/b.txt" {
		t.Error(got)
	}
}

// broken fails after some bytes.
type broken struct{ left int }

func (b *broken) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errors.New("no space left on device")
	}
	return len(p), nil
}

func TestArchiveReportsFailedWrites(t *testing.T) {
	files := []File{{Name: "a.txt", Content: bytes.Repeat([]byte("x"), 1000)}}
	for _, left := range []int{0, 10, 40} {
		if err := WriteArchive(&broken{left}, "report", build.Now, files); err == nil {
			t.Errorf("%d bytes fit, and there is no error", left)
		}
	}
}

// TestAnyCharacterCanBeReported: a converter to YAML rejects some characters, and users can write them.
func TestAnyCharacterCanBeReported(t *testing.T) {
	all := "\u0000\u001b\u007f\u0085\u009b\u202e\ufffe\U000e0041"
	render(t, Input{Now: build.Now, Status: map[string]any{"message": all}, Groups: []Group{{File: "events.yaml", Kind: "Pod",
		Objects: []map[string]any{{"status": map[string]any{"message": all}}}}}, Annotations: map[string]string{all: all}})
}
