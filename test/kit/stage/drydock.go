package stage

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"drydock.dev/test/kit"
)

// Command returns a command for drydock-standalone on this stage, with the accounts of the functions. The settings have the form
// NAME=VALUE.
func (s *Stage) Command(t testing.TB, settings []string, args ...string) *exec.Cmd {
	t.Helper()
	binary := filepath.Join(kit.Root(t), "bin", "drydock-standalone")
	if _, err := os.Stat(binary); err != nil {
		t.Fatalf("looking for drydock-standalone: %v; build it with: make build", err)
	}
	command := exec.Command(binary, append([]string{"--namespace", s.Namespace, "--lease-namespace", s.Namespace,
		"--listen", "127.0.0.1:0", "--broker", "none", "--gateway", "none", "--status-page", "none"}, args...)...)
	command.Env = append(append(os.Environ(), "KUBECONFIG="+s.Kubeconfig, "DRYDOCK_IMAGE="+Image,
		"DRYDOCK_ALLOW_TAGS=true", "DRYDOCK_IMPERSONATE=true",
		"DRYDOCK_MOVERS=0"), settings...) // several tests share the list of turns, and none may wait for another one's resize
	return command
}

// StartDrydock starts drydock-standalone for this stage, with the accounts of the functions and their fences. It ends with the test, or
// before. The settings have the form NAME=VALUE.
func (s *Stage) StartDrydock(t testing.TB, settings []string, args ...string) *exec.Cmd {
	t.Helper()
	s.InstallRights(t)
	log, command := &Log{}, s.Command(t, settings, args...)
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		t.Fatalf("starting drydock-standalone: %v", err)
	}
	t.Cleanup(func() {
		Stop(command, syscall.SIGTERM)
		if t.Failed() {
			t.Logf("log of drydock-standalone:\n%s", log.Tail(6000))
		}
	})
	return command
}

// Stop sends the signal to the process and waits for its end.
func Stop(command *exec.Cmd, signal syscall.Signal) {
	if command.ProcessState == nil {
		_ = command.Process.Signal(signal)
		_ = command.Wait()
	}
}

// Log collects the output of a process while the test reads it.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write appends to the log.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// Tail returns the last n bytes of the log.
func (l *Log) Tail(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.text.Bytes()
	return string(text[max(0, len(text)-n):])
}

// rights are those of the functions. Several tests run at once, and each needs them.
var rights struct {
	mu        sync.Mutex
	installed bool
}

// InstallRights installs the accounts, roles and fences of the functions, unless an earlier test did.
func (s *Stage) InstallRights(t testing.TB) {
	t.Helper()
	rights.mu.Lock()
	defer rights.mu.Unlock()
	if !rights.installed {
		kit.InstallRights(t, s.Kubeconfig, Image)
		rights.installed = true
	}
}

// RightsRemoved says that a test has removed the rights of the functions.
func RightsRemoved() {
	rights.mu.Lock()
	defer rights.mu.Unlock()
	rights.installed = false
}

// FreeAddress returns a free loopback address.
func FreeAddress(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") // closed at once
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
