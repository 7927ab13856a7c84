//go:build cluster

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/stage"
)

// TestNodeAgentsAndControllersRestartWhileMemberIsHeld: the controllers, the container runtime and the kubelet are
// killed and started again while a pod ends, is held, and its mover waits. No other test runs in parallel, because it
// would need them.
func TestNodeAgentsAndControllersRestartWhileMemberIsHeld(t *testing.T) {
	s := newAcks(t, stage.WithSlowStop(4, acksSet(2, api.StrategyRolling)))
	drydock(t, s.Stage)
	s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi"})
	s.awaitHeld()
	for _, name := range []string{"kube-controller-manager", "containerd", "kubelet"} {
		restart(t, s.Stage, name)
	}
	s.expectMovedTo(t, "160Mi")
}

// component is a process of the local cluster with its command line and environment.
type component struct {
	process           *os.Process
	binary, folder    string
	args, environment []string
	log               string
}

// supervised are the components that a test has killed. From then on they are restarted whenever they end.
var supervised = map[string]bool{}

// restart kills a component of the local cluster and starts it again in the same way.
func restart(t *testing.T, s *stage.Stage, name string) {
	t.Helper()
	was := findComponent(t, s, name)
	if was == nil {
		t.Fatalf("%s does not run beside %s; this test needs the node of make cluster", name, s.Kubeconfig)
	}
	if err := was.process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.Eventually(name+" has ended", func() string {
		if is := findComponent(t, s, name); is != nil && is.process.Pid == was.process.Pid {
			return "it runs"
		}
		return ""
	})
	if supervised[name] {
		return
	}
	supervised[name] = true
	if err := was.start(); err != nil {
		t.Fatal(err)
	}
}

// start starts the component, and restarts it whenever it ends, like the service manager of a node. The kubelet ends if
// containerd does not listen yet.
func (c *component) start() error {
	running, err := c.startOnce()
	if err != nil {
		return err
	}
	go func() { // until the tests end; the process itself keeps running
		for ; err == nil; running, err = c.startOnce() {
			_ = running.Wait()
			time.Sleep(time.Second)
		}
	}()
	return nil
}

func (c *component) startOnce() (*exec.Cmd, error) {
	log, err := os.OpenFile(c.log, os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	command := &exec.Cmd{Path: c.binary, Args: c.args, Env: c.environment, Dir: c.folder, Stdout: log, Stderr: log,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	return command, command.Start()
}

// findComponent finds the process by its environment, like test/cluster, or returns nil. Its child processes have the
// same environment and another name.
func findComponent(t *testing.T, s *stage.Stage, name string) *component {
	t.Helper()
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(filepath.Dir(s.Kubeconfig), "node")
	for _, folder := range folders {
		args, environment := words(folder, "cmdline"), words(folder, "environ")
		if len(args) > 0 && args[0] == name && slices.Contains(environment, "DRYDOCK_CLUSTER_DIR="+dir) &&
			slices.Contains(environment, "DRYDOCK_CLUSTER_COMPONENT="+name) {
			return inspect(t, folder, args, environment)
		}
	}
	return nil
}

// words returns the words of a file in /proc, which end with a zero byte. A process that has ended has none.
func words(folder, file string) []string {
	text, err := os.ReadFile(filepath.Join(folder, file))
	if err != nil || len(text) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
}

// inspect reads the command line and the environment of the process.
func inspect(t *testing.T, folder string, args, environment []string) *component {
	t.Helper()
	link := func(name string) string {
		target, err := os.Readlink(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		return target
	}
	pid, err := strconv.Atoi(filepath.Base(folder))
	if err != nil {
		t.Fatal(err)
	}
	process, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	return &component{process: process, binary: link("exe"), folder: link("cwd"), args: args, environment: environment, log: link("fd/1")}
}
