package kit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

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
