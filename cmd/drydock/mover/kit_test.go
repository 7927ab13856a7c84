//go:build linux

package mover

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"drydock.dev/test/seed"
)

// TestMain lets the test binary run as the copying process that a test starts, kills or runs as another user.
func TestMain(m *testing.M) {
	if spec := os.Getenv("MOVER_TEST_CHILD"); spec != "" {
		os.Exit(childMain(spec))
	}
	if spec := os.Getenv("MOVER_BENCH_CHILD"); spec != "" {
		os.Exit(measuredMain(spec))
	}
	os.Exit(m.Run())
}

// newRandom returns random numbers that are the same in each run. test/seed says how to get others.
func newRandom(t testing.TB) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(seed.Of(t), 1))
}

// child is a copy in a separate process.
type child struct {
	Source, Target string
	KillAfter      int64 // kill -9 itself after this many bytes; 0 never
	KillAtFile     int64 // kill -9 itself when this many files are complete, except the last one's name; 0 never
	Pass           Pass
	KillAtRead     int64 // kill -9 itself when a first pass has verified this many files; 0 never
	OwnOnly        bool
	KillAtRecord   bool // kill -9 itself when the record is written, before it has its name
}

func childMain(spec string) int {
	var c child
	if err := json.Unmarshal([]byte(spec), &c); err != nil {
		panic(err)
	}
	var bytes, files, read atomic.Int64
	die := func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL); select {} }
	o := Options{Source: c.Source, Target: c.Target, Workers: 3, Pass: c.Pass, Token: operation, Settled: settled, OwnOnly: c.OwnOnly}
	o.hooks.wrote = func(_ string, n int64) {
		if c.KillAfter > 0 && bytes.Add(n) >= c.KillAfter {
			die()
		}
	}
	o.hooks.copying = func(string) {
		if c.KillAtFile > 0 && files.Add(1) >= c.KillAtFile {
			die()
		}
	}
	o.hooks.confirmed = func(string) {
		if c.KillAtRead > 0 && read.Add(1) >= c.KillAtRead {
			die()
		}
	}
	o.hooks.recording = func() {
		if c.KillAtRecord {
			die()
		}
	}
	result, err := Copy(context.Background(), o)
	report := NewReport(result, err, 0)
	fmt.Printf("%s\n", report.Encode(16<<10))
	return report.Code
}

// command prepares the child. A uid of 0 means the user of the test.
func (c child) command(t *testing.T, uid uint32) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	spec, err := json.Marshal(c)
	must(t, err)
	cmd := exec.Command("/proc/self/exe", "-test.run=^$")
	cmd.Env = []string{"MOVER_TEST_CHILD=" + string(spec)}
	out := new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	if uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid, Groups: []uint32{fsGroup}}}
	}
	return cmd, out
}

// fsGroup is the supplementary group that Kubernetes would give to a pod.
const fsGroup = 7777

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// copyTree copies and requires success. Unless verification is off, it compares the digest of both trees with the
// report.
func copyTree(t testing.TB, o Options) Result {
	t.Helper()
	r, err := Copy(context.Background(), o)
	if err != nil {
		t.Fatalf("%+v: %v", r, err)
	}
	if !o.NoVerify {
		for _, dir := range []string{o.Source, o.Target} {
			if d, err := Digest(context.Background(), dir, 2); err != nil || d != r.Digest {
				t.Fatalf("digest of %s: %s (%v), the report says %s", dir, d, err, r.Digest)
			}
		}
	}
	return r
}

// copyFails copies and requires an error with the code.
func copyFails(t testing.TB, o Options, code int) *Error {
	t.Helper()
	r, err := Copy(context.Background(), o)
	e := new(Error)
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("want code %d, got %v, %+v", code, err, r)
	}
	return e
}

// write creates a file.
func write(t testing.TB, path string, contents string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(contents), 0o644))
}

// requireNoTemps fails if a temporary name remains.
func requireNoTemps(t testing.TB, dir string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if strings.HasPrefix(d.Name(), tempPrefix) {
			t.Errorf("the temporary file %q remains", path)
		}
		return err
	}))
}

// setTime sets the time of anything, to the nanosecond, without following links.
func setTime(t testing.TB, path string, nanos int64) {
	t.Helper()
	ts := []unix.Timespec{unix.NsecToTimespec(nanos), unix.NsecToTimespec(nanos)}
	must(t, unix.UtimesNanoAt(unix.AT_FDCWD, path, ts, unix.AT_SYMLINK_NOFOLLOW))
}
