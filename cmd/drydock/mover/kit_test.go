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
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drydock.dev/shared/moverreport"
)

// TestMain lets the test binary be the copying process that a test starts, kills or runs as another user.
func TestMain(m *testing.M) {
	if spec := os.Getenv("MOVER_TEST_CHILD"); spec != "" {
		os.Exit(childMain(spec))
	}
	os.Exit(m.Run())
}

// child is a copy in a process of its own.
type child struct {
	Source, Target string
	KillAfter      int64 // kill -9 itself after so many bytes; 0: not
	KillAtFile     int64 // kill -9 itself when so many files are complete but for their names; 0: not
	Pass           Pass
	KillAtRead     int64 // kill -9 itself when a warm pass has read back so many files; 0: not
	OwnOnly        bool
	KillAtRecord   bool // kill -9 itself when the record is written, but has no name
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

// command prepares the child; uid is 0 for the tester's own.
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

// run runs the child to its end.
func (c child) run(t *testing.T, uid uint32) moverreport.Report {
	t.Helper()
	cmd, out := c.command(t, uid)
	err := cmd.Run()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	var r moverreport.Report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("no report: %v in %q", err, out)
	}
	if r.Code != cmd.ProcessState.ExitCode() {
		t.Fatalf("exit code %d, report says %d", cmd.ProcessState.ExitCode(), r.Code)
	}
	return r
}

// fsGroup is the supplementary group that Kubernetes would give to a pod.
const fsGroup = 7777

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not root")
	}
}

func sh(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v: %s", name, args, err, out)
	}
	return string(out)
}

// reachable makes a test's directory accessible to other users.
func reachable(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o755))
	must(t, os.Chmod(filepath.Dir(dir), 0o755))
	return dir
}

// volume is a file system on an image of its own, mounted for the time of a test.
type volume struct{ dir, image string }

func newVolume(t testing.TB, megabytes int, mkfs ...string) volume {
	t.Helper()
	needRoot(t)
	base := reachable(t)
	v := volume{filepath.Join(base, "mnt"), filepath.Join(base, "image")}
	f, err := os.Create(v.image)
	must(t, err)
	must(t, f.Truncate(int64(megabytes)<<20))
	must(t, f.Close())
	if len(mkfs) == 0 {
		mkfs = []string{"mkfs.ext4", "-q", "-F"}
	}
	sh(t, mkfs[0], append(mkfs[1:], v.image)...)
	must(t, os.Mkdir(v.dir, 0o755))
	sh(t, "mount", "-o", "loop", v.image, v.dir)
	t.Cleanup(func() { sh(t, "umount", v.dir) })
	return v
}

// referee is rsync: after a copy it must have nothing to do.
func referee(t testing.TB, src, dst string) {
	t.Helper()
	out := sh(t, "rsync", "-n", "-aHAXc", "--specials", "--devices", "--numeric-ids", "--delete", "--itemize-changes",
		"--exclude=/lost+found", "--filter=-x trusted.SGI_ACL_*", src+"/", dst+"/")
	if out != "" {
		t.Fatalf("rsync would still change:\n%.3000s", out)
	}
}

// copyTree copies with a few workers and wants it to succeed.
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

// failing copies and wants an error with a code.
func failing(t testing.TB, o Options, code int) *Error {
	t.Helper()
	r, err := Copy(context.Background(), o)
	e := new(Error)
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("want code %d, got %v, %+v", code, err, r)
	}
	return e
}

// write makes a file with contents.
func write(t testing.TB, path string, contents string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(contents), 0o644))
}

// list returns the names in a directory, with commas between them.
func list(t testing.TB, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, ",")
}

// noTemps fails if a temporary name is left.
func noTemps(t testing.TB, dir string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if strings.HasPrefix(d.Name(), tempPrefix) {
			t.Errorf("left behind: %q", path)
		}
		return err
	}))
}

// dataMap is the runs of data of a file.
func dataMap(t testing.TB, path string) string {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	st, err := f.Stat()
	must(t, err)
	var b strings.Builder
	for off := int64(0); off < st.Size(); {
		from, to, err := nextData(int(f.Fd()), off, st.Size())
		must(t, err)
		if from < to {
			fmt.Fprintf(&b, "%d-%d ", from, to)
		}
		off = to
	}
	return b.String()
}

// newSeed is printed, and can be given with MOVER_SEED.
func newSeed(t testing.TB) (uint64, *rand.Rand) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("MOVER_SEED"); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		must(t, err)
	}
	t.Logf("MOVER_SEED=%d", seed)
	return seed, rand.New(rand.NewPCG(seed, 1))
}

// setTime sets the time of anything, to the nanosecond, without following links.
func setTime(t testing.TB, path string, nanos int64) {
	t.Helper()
	ts := []unix.Timespec{unix.NsecToTimespec(nanos), unix.NsecToTimespec(nanos)}
	must(t, unix.UtimesNanoAt(unix.AT_FDCWD, path, ts, unix.AT_SYMLINK_NOFOLLOW))
}
