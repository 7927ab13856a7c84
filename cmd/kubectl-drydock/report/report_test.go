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
