//go:build cluster

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
	"drydock.dev/test/kit/screen"
	"drydock.dev/test/kit/stage"
)

// TestPersonAtATerminal resizes a set one member at a time, puts it to sleep and wakes it, as a person at a terminal would: the plan, the
// question, the members as they move, and the change for the manifest.
func TestPersonAtATerminal(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateSet(stage.Workload("40Mi"))
	s.AwaitReady(t)
	before := s.Data(t)
	drydock(t, s)

	seen, program := onTerminal(t, s, "resize", "sts/web", "data=96Mi", "--rolling", "--wait", "--timeout", "10m")
	s.Eventually("the command asks", func() string {
		if !strings.Contains(seen.Text(), "as planned? [y/N]") {
			return seen.Text()
		}
		return ""
	})
	if s.Set("web").Annotations[api.ResizeAnnotation] != "" {
		t.Error("the resize was requested before the answer")
	}
	seen.Type(t, "y\r")
	err := program.Wait()
	last := seen.Close()
	t.Logf("the screen at the end:\n%s", last)
	if err != nil {
		t.Fatalf("kubectl drydock resize: %v", err)
	}
	s.ExpectResized(t, before)
	for _, want := range []string{"resize data=96Mi is Succeeded (rolling", "├─ web-1     Moved", "└─ web-0     Moved",
		"+        storage: 96Mi"} {
		if !strings.Contains(last, want) {
			t.Errorf("the last screen lacks %q", want)
		}
	}
	frames := strings.Join(seen.Frames(), "\n")
	for _, want := range []string{"is Moving (rolling", "so far", "waits for"} {
		if !strings.Contains(strings.ToLower(frames), strings.ToLower(want)) {
			t.Errorf("no screen shows %q", want)
		}
	}
	if strings.Contains(last, "is Moving") {
		t.Error("an earlier frame is left on the screen")
	}

	for _, step := range []struct {
		args  []string
		shows string
	}{
		{[]string{"sleep", "sts/web", "--until-woken", "--yes", "--wait", "--timeout", "5m"}, "is Asleep"},
		{[]string{"list"}, "Asleep"},
		{[]string{"wake", "sts/web", "--wait", "--timeout", "5m"}, "2 of 2 replicas are ready"},
		{[]string{"list"}, "Awake"},
		{[]string{"status", "sts/web", "--wait", "--timeout", "1m"}, "Succeeded"},
	} {
		seen, program := onTerminal(t, s, step.args...)
		err := program.Wait()
		if text := seen.Close(); err != nil || !strings.Contains(text, step.shows) {
			t.Errorf("kubectl drydock %q: %v, and the screen shows\n%s", step.args, err, text)
		}
	}
}

// onTerminal starts kubectl drydock on a terminal.
func onTerminal(t *testing.T, s *stage.Stage, args ...string) (*screen.Screen, *exec.Cmd) {
	t.Helper()
	program := exec.CommandContext(t.Context(), filepath.Join(kit.Root(t), "bin", "kubectl-drydock"), append(args, "-n", s.Namespace)...)
	program.Env = append(os.Environ(), "KUBECONFIG="+s.Kubeconfig)
	seen := screen.New(t, screen.Columns, screen.Rows)
	seen.Run(t, program)
	return seen, program
}
