package kit

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"drydock.dev/shared/events"
	"drydock.dev/shared/serve"
)

// Program is a program of Drydock in a process of its own, with the settings and the memory limit of its manifest in deploy.
type Program struct {
	Address string
	Output  *bytes.Buffer
	Process
	*Cgroup
	ended chan struct{}
}

// Process is the id of a process.
type Process int

// Build builds a program of cmd, and returns the path of its binary.
func Build(t testing.TB, program string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), program)
	compile := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./cmd/"+program)
	compile.Dir = Root(t)
	if said, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v: %s", program, err, said)
	}
	return binary
}

// StartFunction builds drydock and runs a function with it until the test ends. The variables replace settings of the manifest.
func StartFunction(t testing.TB, name, kubeconfig string, variables ...string) *Program {
	t.Helper()
	return StartProgram(t, Build(t, "drydock"), name, append([]string{"KUBECONFIG=" + kubeconfig}, variables...)...)
}

// StartProgram runs the binary like the container of deploy/NAME until the test ends.
func StartProgram(t testing.TB, binary, name string, variables ...string) *Program {
	t.Helper()
	container := deployed(t, name)
	address := FreeAddress(t)
	_, port, _ := net.SplitHostPort(address)
	f := &Program{Address: "http://" + address + "/", Output: &bytes.Buffer{}, ended: make(chan struct{}),
		Cgroup: NewCgroup(t, int(container.Resources.Limits.Memory().Value()))}
	command := f.Command(binary, container.Args...)
	command.Env = os.Environ()
	for _, variable := range container.Env {
		command.Env = append(command.Env, variable.Name+"="+variable.Value)
	}
	command.Env = append(append(command.Env, "PORT="+port), variables...)
	command.Stdout, command.Stderr = f.Output, f.Output
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	f.Process = Process(command.Process.Pid)
	go func() {
		_ = command.Wait()
		close(f.ended)
	}()
	t.Cleanup(func() {
		_ = command.Process.Kill()
		<-f.ended
	})
	return f
}

// deployed returns the container of deploy/NAME. Its Env has the plain values of its variables, with those of the ConfigMap for all
// functions.
func deployed(t testing.TB, name string) corev1.Container {
	t.Helper()
	var container corev1.Container
	settings := map[string]string{}
	for _, folder := range []string{"config", "deploy/" + name} {
		objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(Root(t), folder))
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range objects.Resources() {
			text := object.MustYaml()
			switch object.GetKind() {
			case "ConfigMap":
				config := corev1.ConfigMap{}
				if err := yaml.Unmarshal([]byte(text), &config); err != nil {
					t.Fatal(err)
				}
				if config.Name == "drydock-settings" {
					settings = config.Data
				}
			case "Service", "Deployment":
				workload := struct {
					Spec struct{ Template corev1.PodTemplateSpec }
				}{}
				if err := yaml.Unmarshal([]byte(text), &workload); err != nil {
					t.Fatal(err)
				}
				if containers := workload.Spec.Template.Spec.Containers; len(containers) > 0 {
					container = containers[0]
				}
			}
		}
	}
	var all []corev1.EnvVar
	for key, value := range settings {
		all = append(all, corev1.EnvVar{Name: key, Value: value})
	}
	container.Env = append(all, slices.DeleteFunc(container.Env, func(v corev1.EnvVar) bool { return v.ValueFrom != nil })...)
	if container.Resources.Limits.Memory().IsZero() {
		t.Fatalf("the container of deploy/%s has no memory limit", name)
	}
	return container
}

// FreeAddress returns an address of this machine with a free port.
func FreeAddress(t testing.TB) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// Tick sends a tick until the process accepts it.
func (f *Program) Tick(t testing.TB, id string) {
	t.Helper()
	tick := event.New()
	tick.SetID(id)
	tick.SetSource("test")
	tick.SetType(events.Tick)
	var err error
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
		if err = serve.NewSender(f.Address, nil).Send(t.Context(), tick); err == nil {
			return
		}
		select {
		case <-t.Context().Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	t.Fatalf("the function does not answer: %v: %s", err, f.Output)
}

// PeakMemory returns the highest resident memory of the process in bytes.
func (p Process) PeakMemory(t testing.TB) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kibibytes, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kibibytes << 10
}

// clockTick is the unit of times in /proc/PID/stat: USER_HZ is 100 on every architecture that Go supports (proc(5)).
const clockTick = 10 * time.Millisecond

// CPU returns the CPU time that the process has used.
func (p Process) CPU(t testing.TB) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // the name of the program is in brackets
	fields := strings.Fields(rest)                // from field 3 on
	total := 0
	for _, field := range fields[11:13] { // utime and stime
		n, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		total += n
	}
	return time.Duration(total) * clockTick
}

// Cgroup is a memory cgroup, in which the kernel kills a process above the limit, as in a container.
type Cgroup struct {
	// Limit is in bytes.
	Limit int
	dir   string
	names cgroupNames
}

// cgroupNames are the files of a memory cgroup. Line is the word before the number of killed processes in the file Events.
type cgroupNames struct{ Limit, Peak, Events, Line string }

var (
	cgroup1 = cgroupNames{"memory.limit_in_bytes", "memory.max_usage_in_bytes", "memory.oom_control", "oom_kill "}
	cgroup2 = cgroupNames{"memory.max", "memory.peak", "memory.events", "oom_kill "}
)

// share is the part of its limit in percent that a process may use.
const share = 80

// NewCgroup creates a memory cgroup. The end of the test removes it, after its processes have ended.
func NewCgroup(t testing.TB, limit int) *Cgroup {
	t.Helper()
	c, err := makeCgroup(limit)
	if err != nil {
		t.Fatalf("creating a memory cgroup: %v. This test needs root, and the memory controller of cgroup v1 or v2 in /sys/fs/cgroup", err)
	}
	t.Cleanup(func() {
		// The kernel needs a moment to empty it.
		for end := time.Now().Add(10 * time.Second); os.Remove(c.dir) != nil; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Errorf("cannot remove the cgroup %s", c.dir)
				return
			}
		}
	})
	return c
}

func makeCgroup(limit int) (*Cgroup, error) {
	top, names := "/sys/fs/cgroup/memory", cgroup1
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		top, names = "/sys/fs/cgroup", cgroup2
		if err := os.WriteFile(filepath.Join(top, "cgroup.subtree_control"), []byte("+memory"), 0o644); err != nil {
			return nil, err
		}
	}
	dir, err := os.MkdirTemp(top, "drydock-test-")
	if err != nil {
		return nil, err
	}
	c := &Cgroup{Limit: limit, dir: dir, names: names}
	if err := os.WriteFile(c.file(names.Limit), []byte(strconv.Itoa(limit)), 0o644); err != nil {
		return nil, errors.Join(err, os.Remove(dir))
	}
	return c, nil
}

func (c *Cgroup) file(name string) string { return filepath.Join(c.dir, name) }

// Command returns a command whose process runs in the cgroup.
func (c *Cgroup) Command(program string, args ...string) *exec.Cmd {
	return exec.Command("sh", append([]string{"-c", `echo $$ > "$0" && exec "$@"`, c.file("cgroup.procs"), program}, args...)...)
}

// Peak returns the most bytes that the cgroup has held. That includes the kernel's memory for its processes, and pages of files that they
// were the first to read.
func (c *Cgroup) Peak(t testing.TB) int {
	t.Helper()
	text, err := os.ReadFile(c.file(c.names.Peak))
	if err != nil {
		t.Fatal(err)
	}
	peak, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return peak
}

// killed returns how many processes the kernel has killed in the cgroup for want of memory.
func (c *Cgroup) killed(t testing.TB) int {
	t.Helper()
	text, err := os.ReadFile(c.file(c.names.Events))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut("\n"+string(text), "\n"+c.names.Line)
	if !found {
		t.Fatalf("%s does not count killed processes: %s", c.names.Events, text)
	}
	count, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return count
}

// Excess says why the process needs too much memory: the kernel has killed it, or its cgroup took more than four fifths of the limit. It is
// empty if the memory suffices. Resident memory is no measure, because it contains pages of the program's file, which the kernel drops
// before it kills.
func (c *Cgroup) Excess(t testing.TB) string {
	t.Helper()
	if c.killed(t) > 0 {
		return fmt.Sprintf("the kernel has killed the process at its limit of %d MiB", c.Limit>>20)
	}
	if peak := c.Peak(t); peak > c.Limit*share/100 {
		return fmt.Sprintf("the cgroup reached %d of %d MiB, more than %d %%", peak>>20, c.Limit>>20, share)
	}
	return ""
}
