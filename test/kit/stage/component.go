package stage

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// component is a process of the local cluster with its command line and environment.
type component struct {
	process           *os.Process
	binary, folder    string
	args, environment []string
	log               string
}

// supervised are the components that a test has started. They are restarted whenever they end.
var supervised struct {
	mu    sync.Mutex
	names map[string]bool
}

func isSupervised(component string) bool {
	supervised.mu.Lock()
	defer supervised.mu.Unlock()
	return supervised.names[component]
}

// supervise reports whether the caller has to start the component.
func supervise(component string) bool {
	supervised.mu.Lock()
	defer supervised.mu.Unlock()
	if supervised.names[component] {
		return false
	}
	if supervised.names == nil {
		supervised.names = map[string]bool{}
	}
	supervised.names[component] = true
	return true
}

// RestartComponent kills a component of the local cluster and starts it again in the same way. It does not wait until the component works
// again. Only one test may call it at a time.
func (s *Stage) RestartComponent(t testing.TB, name string) {
	t.Helper()
	was, err := s.findComponent(name)
	if err != nil {
		t.Fatal(err)
	}
	if was == nil {
		t.Fatalf("%s does not run beside %s; this test needs the node of make cluster", name, s.Kubeconfig)
		return
	}
	mine := supervise(name) // before it ends, so that nothing else starts it
	if err := was.process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.Eventually(name+" has ended", func() string {
		if is, err := s.findComponent(name); err == nil && is != nil && is.process.Pid == was.process.Pid {
			return "it runs"
		}
		return ""
	})
	if !mine {
		s.Eventually(name+" runs again", func() string { // the process of the tests may end before
			if is, err := s.findComponent(name); err != nil || is == nil {
				return fmt.Sprintf("it does not: %v", err)
			}
			return ""
		})
		return
	}
	if err := was.start(); err != nil {
		t.Fatal(err)
	}
}

// ReconfigureKubelet adds lines to the kubelet's configuration and restarts it. The returned function restores the former one. It is called
// at the latest when the test ends.
func (s *Stage) ReconfigureKubelet(t testing.TB, lines string) (restore func()) {
	t.Helper()
	path := filepath.Join(filepath.Dir(s.Kubeconfig), "node", "config", "kubelet.yaml")
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	put := func(text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Error(err)
		}
		s.RestartComponent(t, "kubelet")
	}
	restore = sync.OnceFunc(func() { put(before) })
	t.Cleanup(restore)
	put(append(slices.Clone(before), lines...))
	return restore
}

// SuperviseComponents restarts the components of the local cluster that end by themselves, until the test ends. For example,
// kube-scheduler ends if its cache is wrong after a restart of the API server.
func (s *Stage) SuperviseComponents(t testing.TB) {
	t.Helper()
	all, err := s.findComponents()
	if err != nil || len(all) == 0 {
		t.Fatalf("looking for the components beside %s: %v; this test needs the node of make cluster", s.Kubeconfig, err)
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for ticks := time.NewTicker(time.Second); ; {
			select {
			case <-stop:
				ticks.Stop()
				return
			case <-ticks.C:
			}
			for _, c := range all {
				if !isSupervised(c.args[0]) && c.process.Signal(syscall.Signal(0)) != nil && supervise(c.args[0]) {
					err := c.start()
					t.Logf("%s has ended by itself and was started again: %v", c.args[0], err)
				}
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-ended })
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

// findComponent returns the component, or nil if it does not run.
func (s *Stage) findComponent(name string) (*component, error) {
	all, err := s.findComponents()
	for _, c := range all {
		if c.args[0] == name {
			return c, nil
		}
	}
	return nil, err
}

// findComponents finds the components by their environment, like test/cluster. Their child processes have the same environment and
// another name.
func (s *Stage) findComponents() ([]*component, error) {
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(filepath.Dir(s.Kubeconfig), "node")
	var all []*component
	for _, folder := range folders {
		args, environment := words(folder, "cmdline"), words(folder, "environ")
		if len(args) == 0 || !slices.Contains(environment, "DRYDOCK_CLUSTER_DIR="+dir) ||
			!slices.Contains(environment, "DRYDOCK_CLUSTER_COMPONENT="+args[0]) {
			continue
		}
		c, err := inspect(folder, args, environment)
		if errors.Is(err, os.ErrNotExist) {
			continue // it has just ended
		}
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
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
func inspect(folder string, args, environment []string) (*component, error) {
	c := &component{args: args, environment: environment}
	for link, target := range map[string]*string{"exe": &c.binary, "cwd": &c.folder, "fd/1": &c.log} {
		var err error
		if *target, err = os.Readlink(filepath.Join(folder, link)); err != nil {
			return nil, fmt.Errorf("inspecting process %s: %w", args[0], err)
		}
	}
	pid, err := strconv.Atoi(filepath.Base(folder))
	if err != nil {
		return nil, fmt.Errorf("inspecting process %s: %w", args[0], err)
	}
	c.process, err = os.FindProcess(pid)
	return c, err
}
