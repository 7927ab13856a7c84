//go:build linux

package mover

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fault"
	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/cmd/drydock/mover/progress"
	"drydock.dev/cmd/drydock/mover/target"
	"drydock.dev/cmd/drydock/mover/tree"
	"drydock.dev/cmd/drydock/mover/units"
)

// TestMain lets the test binary run as the copying process that a test starts, kills or runs as another user.
func TestMain(m *testing.M) {
	if recordDir = os.Getenv("MOVER_TEST_RECORDS"); recordDir == "" {
		dir, err := os.MkdirTemp("", "records")
		if err == nil {
			err = errors.Join(os.Chmod(dir, 0o777), os.Setenv("MOVER_TEST_RECORDS", dir)) // children may be other users
		}
		if err != nil {
			panic(err)
		}
		recordDir = dir
		defer os.RemoveAll(dir)
	}
	if spec := os.Getenv("MOVER_TEST_CHILD"); spec != "" {
		os.Exit(childMain(spec))
	}
	if spec := os.Getenv("MOVER_BENCH_CHILD"); spec != "" {
		os.Exit(measuredMain(spec))
	}
	m.Run() // its result is the exit code
}

// recordDir has the records of the passes of all tests.
var recordDir string

// recordOf returns the file for the record of the passes that fill a target.
func recordOf(target string) string {
	return filepath.Join(recordDir, fmt.Sprintf("%x", sha256.Sum256([]byte(target))))
}

// child is a copy in a separate process.
type child struct {
	Source, Target string
	KillAfter      int64 // kill -9 itself after this many bytes; 0 never
	KillAtFile     int64 // kill -9 itself when this many files are complete, except the last one's name; 0 never
	Pass           tree.Pass
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
	o := Options{Source: c.Source, Target: c.Target, Workers: 3, Pass: c.Pass, Token: operation, Settled: settled, OwnOnly: c.OwnOnly,
		Record: recordOf(c.Target)}
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
	cmd.Env = []string{"MOVER_TEST_CHILD=" + string(spec), "MOVER_TEST_RECORDS=" + recordDir}
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

// copyTree copies and requires success. Unless verification is off, it compares digests of both trees.
func copyTree(t testing.TB, o Options) Result {
	t.Helper()
	r, err := Copy(context.Background(), o)
	if err != nil || r.Verified == o.NoVerify {
		t.Fatalf("%+v: %v", r, err)
	}
	if !o.NoVerify {
		if a, b := treeDigest(t, o.Source), treeDigest(t, o.Target); a != b {
			t.Fatalf("the digests of the trees are %x and %x", a, b)
		}
	}
	return r
}

// treeDigest returns a hash of everything that a copy carries below a directory. It uses the scan because paths may be longer than
// PATH_MAX.
func treeDigest(t testing.TB, path string) units.Sum {
	t.Helper()
	r, err := fsys.OpenRoot(path, fault.Source)
	must(t, err)
	defer r.Close()
	scanned, err := tree.Scan(context.Background(), r, 4, progress.NewMeter(nil, 0), &fault.Problems{})
	must(t, err)
	dirs := slices.Clone(scanned.Dirs)
	slices.SortFunc(dirs, func(a, b *tree.Dir) int { return strings.Compare(a.Path(), b.Path()) })
	h := sha256.New()
	for _, d := range dirs {
		fd, err := r.Open(d.Path())
		must(t, err)
		fmt.Fprintf(h, "directory %q\n", d.Path())
		for e := range d.All() {
			hashEntry(t, h, fd, e, scanned.GroupOf(e))
		}
		unix.Close(fd)
	}
	return units.Sum(h.Sum(nil))
}

func hashEntry(t testing.TB, h io.Writer, dirfd int, e *tree.Entry, g *tree.Group) {
	t.Helper()
	st, err := fsys.Lstatat(dirfd, e.Name)
	must(t, err)
	m, link, first := fsys.MetaOf(&st), "", ""
	if m.IsSymlink() {
		link, err = fsys.Readlinkat(dirfd, e.Name)
		must(t, err)
	}
	if g != nil {
		first = g.Names[0].Path()
	}
	attrs, err := fsys.Named(dirfd, e.Name).Xattrs(nil)
	must(t, err)
	fmt.Fprintf(h, "%q %q %o %d %d %d %d.%d %q %q\n",
		e.Name, first, m.Kind()|m.Permissions(), m.Uid, m.Gid, m.Size, m.MtimeSec, m.MtimeNsec, link, attrs)
	if !m.IsRegular() {
		return
	}
	fd, err := fsys.Openat(dirfd, e.Name, unix.O_RDONLY, 0)
	must(t, err)
	defer unix.Close(fd)
	must(t, units.HashFileUnits(context.Background(), fd, m.Size, 0, nil, func(i int64, s units.Sum) {
		if s != units.ZerosOf(units.Length(m.Size, int(i))) {
			fmt.Fprintf(h, "%d %x\n", i, s)
		}
	}))
}

// copyFails copies and requires an error with the code.
func copyFails(t testing.TB, o Options, code int) *fault.Error {
	t.Helper()
	r, err := Copy(context.Background(), o)
	e := new(fault.Error)
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("want code %d, got %v, %+v", code, err, r)
	}
	return e
}

// writeFile creates a file.
func writeFile(t testing.TB, path string, contents string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(contents), 0o644))
}

// requireNoTemps fails if a temporary name remains.
func requireNoTemps(t testing.TB, dir string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if strings.HasPrefix(d.Name(), target.TempPrefix) {
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
