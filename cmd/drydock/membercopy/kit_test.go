//go:build linux && root

package membercopy

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"drydock.dev/shared/moverreport"
)

// TestMain lets the test binary run as the process that a test kills.
func TestMain(m *testing.M) {
	if spec := os.Getenv("MEMBERCOPY_TEST_CHILD"); spec != "" {
		os.Exit(childMain(spec))
	}
	os.Exit(m.Run())
}

// child is a container in a separate process. It kills itself when it begins a phase for the given number of times.
type child struct {
	Base   string
	Claims []moverreport.Claim
	Phase  moverreport.Phase
	Times  int
	Final  bool // run the final container and count only its final pass
}

func childMain(spec string) int {
	var c child
	if err := json.Unmarshal([]byte(spec), &c); err != nil {
		panic(err)
	}
	o := optionsAt(c.Base, c.Claims)
	o.Progress = func(p moverreport.Progress) {
		if p.Phase == c.Phase && c.Final == (p.Pass == 0) {
			if c.Times--; c.Times == 0 {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		}
	}
	if c.Final {
		return Final(context.Background(), o).Code
	}
	return First(context.Background(), o).Code
}

// killed runs the child and reports whether it was killed.
func (c child) killed(t *testing.T) bool {
	t.Helper()
	spec, err := json.Marshal(c)
	must(t, err)
	cmd := exec.Command("/proc/self/exe", "-test.run=^$")
	cmd.Env, cmd.Stderr = []string{"MEMBERCOPY_TEST_CHILD=" + string(spec)}, os.Stderr
	_ = cmd.Run()
	return cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func runCommand(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v: %s", name, args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// member is a member's volumes, on separate file systems, and the file with the annotations of its mover.
type member struct {
	t       testing.TB
	base    string
	claims  []moverreport.Claim
	mu      sync.Mutex
	written int
}

// newMember creates an ext4 file system for all sources and one for all targets. Each claim is a directory in them.
func newMember(t testing.TB, megabytes int, names ...string) *member {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("these tests mount file systems: run them as root")
	}
	m := &member{t: t, base: t.TempDir()}
	for _, side := range []string{"source", "target"} {
		image, dir := filepath.Join(m.base, side+".image"), filepath.Join(m.base, side)
		f, err := os.Create(image)
		must(t, err)
		must(t, f.Truncate(int64(megabytes)<<20))
		must(t, f.Close())
		runCommand(t, "mkfs.ext4", "-q", "-F", image)
		must(t, os.Mkdir(dir, 0o755))
		runCommand(t, "mount", "-o", "loop", image, dir)
		t.Cleanup(func() { runCommand(t, "umount", "--lazy", dir) }) // a flush that a signal interrupted may still be running
		for _, name := range names {
			must(t, os.Mkdir(filepath.Join(dir, name), 0o755))
		}
	}
	for _, name := range names {
		m.claims = append(m.claims, moverreport.Claim{Name: name})
		m.write(name+"/file", "contents of "+name)
		m.write(name+"/big", strings.Repeat("big "+name, 300_000))
	}
	m.annotate("lease", "")
	return m
}

func (m *member) source(path string) string { return filepath.Join(m.base, "source", path) }
func (m *member) target(path string) string { return filepath.Join(m.base, "target", path) }

func (m *member) write(path, contents string) {
	m.t.Helper()
	must(m.t, os.WriteFile(m.source(path), []byte(contents), 0o644))
}

// settled is short, so that tests need not wait for it, but longer than any of their writes.
const settled = 30 * time.Millisecond

func optionsAt(base string, claims []moverreport.Claim) Options {
	return Options{
		Claims: claims, Sources: filepath.Join(base, "source"), Targets: filepath.Join(base, "target"), Records: base,
		Token: "op-1", Member: "uid-1", MaxStop: time.Hour, Workers: 3, Settled: settled, Idle: 10 * time.Millisecond,
		Annotations: filepath.Join(base, "podinfo", "annotations"), Lease: time.Hour, Poll: 2 * time.Millisecond,
	}
}

func (m *member) options() Options { return optionsAt(m.base, m.claims) }

// annotate writes the annotations as the kubelet does: into a new directory, followed by a swap of the link to it.
func (m *member) annotate(lease, signal string) {
	m.t.Helper()
	lines := []string{`kubernetes.io/config.seen="2026-11-22T10:00:00Z"`}
	if signal != "" {
		lines = append(lines, fmt.Sprintf("%s=%q", moverreport.SignalAnnotation, signal))
	}
	lines = append(lines, fmt.Sprintf("%s=%q", moverreport.LeaseAnnotation, lease))
	m.publish(strings.Join(lines, "\n"))
}

func (m *member) publish(text string) {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	dir := filepath.Join(m.base, "podinfo")
	m.written++
	data := fmt.Sprintf("..%d", m.written)
	must(m.t, os.MkdirAll(filepath.Join(dir, data), 0o755))
	must(m.t, os.WriteFile(filepath.Join(dir, data, "annotations"), []byte(text), 0o644))
	must(m.t, os.Symlink(data, filepath.Join(dir, "..data_tmp")))
	must(m.t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	if m.written == 1 {
		must(m.t, os.Symlink("..data/annotations", filepath.Join(dir, "annotations")))
	}
}

var signal = moverreport.Signal{Hold: "uid-1", Attempt: 2}

// stop sends the signal, as the functions do when the member has stopped.
func (m *member) stop() { m.annotate("lease", signal.Encode()) }

// requireCopied fails unless all targets are verified copies.
func (m *member) requireCopied(report moverreport.MemberReport) {
	m.t.Helper()
	if report.Code != moverreport.CodeOK || report.Result != moverreport.ResultCopied || len(report.Claims) != len(m.claims) {
		m.t.Fatalf("%+v", report)
	}
	for _, c := range report.Claims {
		if !c.Verified {
			m.t.Errorf("claim %s is not verified", c.Name)
		}
		runCommand(m.t, "diff", "-r", "--exclude=lost+found", m.source(c.Name), m.target(c.Name))
	}
}

// requireUnverified fails if a target looks complete or the report calls it complete.
func (m *member) requireUnverified(report moverreport.MemberReport) {
	m.t.Helper()
	if report.Code == moverreport.CodeOK || report.Result == moverreport.ResultCopied {
		m.t.Errorf("%+v", report)
	}
	for _, c := range report.Claims {
		if c.Verified {
			m.t.Errorf("claim %s has a digest", c.Name)
		}
	}
}

// onPhase calls f each time the copy of a claim begins the phase.
func onPhase(phase moverreport.Phase, f func(moverreport.Progress)) func(moverreport.Progress) {
	return func(p moverreport.Progress) {
		if p.Phase == phase {
			f(p)
		}
	}
}

// passUntilRecorded makes first passes until every file is recorded, which takes some time after the last write.
func (m *member) passUntilRecorded() moverreport.MemberReport {
	m.t.Helper()
	for {
		r := First(context.Background(), m.options())
		if r.Code != moverreport.CodeOK {
			m.t.Fatalf("%+v", r)
		}
		all := true
		for _, c := range r.Claims {
			all = all && c.RecordedFiles == 2
		}
		if all {
			return r
		}
	}
}
