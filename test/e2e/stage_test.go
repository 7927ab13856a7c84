//go:build cluster

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"drydock.dev/test/kit"
	"drydock.dev/test/kit/stage"
)

// drydock starts the standalone engine for this stage, with the functions' accounts and their fences. It ends with the
// test, or before.
func drydock(t testing.TB, s *stage.Stage, args ...string) *exec.Cmd {
	t.Helper()
	return drydockWith(t, s, nil, args...)
}

// drydockWith is drydock with other settings, as NAME=VALUE.
func drydockWith(t testing.TB, s *stage.Stage, settings []string, args ...string) *exec.Cmd {
	t.Helper()
	rights.install(t, s)
	log := &lockedBuffer{}
	binary := filepath.Join(kit.Root(t), "bin", "drydock-standalone")
	command := exec.Command(binary, append([]string{"--namespace", s.Namespace, "--lease-namespace", s.Namespace,
		"--listen", "127.0.0.1:0", "--broker", "none", "--gateway", "none", "--status-page", "none"}, args...)...)
	command.Env = append(append(os.Environ(), "KUBECONFIG="+s.Kubeconfig, "DRYDOCK_IMAGE="+stage.Image,
		"DRYDOCK_ALLOW_TAGS=true", "DRYDOCK_IMPERSONATE=true"), settings...)
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		t.Fatalf("starting %s: %v; build it with: make build", binary, err)
	}
	t.Cleanup(func() {
		stop(command, syscall.SIGTERM)
		if t.Failed() {
			t.Logf("log of drydock-standalone:\n%s", log.tail(6000))
		}
	})
	return command
}

// rights are those of the functions. Several tests run at once, and each needs them.
var rights fences

type fences struct {
	mu   sync.Mutex
	here bool
}

func (f *fences) install(t testing.TB, s *stage.Stage) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.here {
		kit.InstallRights(t, s.Kubeconfig, stage.Image)
		f.here = true
	}
}

// removed says that a test has removed them.
func (f *fences) removed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.here = false
}

func stop(command *exec.Cmd, signal syscall.Signal) {
	if command.ProcessState == nil {
		_ = command.Process.Signal(signal)
		_ = command.Wait()
	}
}
