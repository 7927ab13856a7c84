package kit

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"drydock.dev/shared/events"
	"drydock.dev/shared/serve"
)

// Function is a function in a process of its own, with the memory limit of a deployed one.
type Function struct {
	Address string
	Output  *bytes.Buffer
	Process
}

// Process is the id of a process.
type Process int

// FunctionMemory is the memory limit of a deployed function in bytes.
const FunctionMemory = 128 << 20

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

// StartFunction builds drydock and runs a function with it until the test ends.
func StartFunction(t testing.TB, name, kubeconfig string, variables ...string) *Function {
	t.Helper()
	binary := Build(t, "drydock")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	_ = listener.Close()
	command := exec.CommandContext(t.Context(), binary, "serve", name)
	command.Env = append(append(os.Environ(), "PORT="+port, "KUBECONFIG="+kubeconfig, "GOMEMLIMIT=110MiB"), variables...)
	f := &Function{Address: "http://127.0.0.1:" + port + "/", Output: &bytes.Buffer{}}
	command.Stdout, command.Stderr = f.Output, f.Output
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	f.Process = Process(command.Process.Pid)
	return f
}

// Tick sends a tick until the process accepts it.
func (f *Function) Tick(t testing.TB, id string) {
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
