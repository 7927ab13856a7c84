//go:build linux && root

package mover

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/shared/moverreport"
)

// run runs the child to its end and returns its report.
func (c child) run(t *testing.T, uid uint32) moverreport.Report {
	t.Helper()
	cmd, out := c.command(t, uid)
	return report(t, cmd, out)
}

// runIn is run with other attributes of the process.
func (c child) runIn(t *testing.T, attributes *syscall.SysProcAttr) moverreport.Report {
	t.Helper()
	cmd, out := c.command(t, 0)
	cmd.SysProcAttr = attributes
	return report(t, cmd, out)
}

func report(t *testing.T, cmd *exec.Cmd, out *bytes.Buffer) moverreport.Report {
	t.Helper()
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

func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("these tests make file systems and devices: run them as root")
	}
}

// publicTempDir returns a temporary directory that other users can access.
func publicTempDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o755))
	must(t, os.Chmod(filepath.Dir(dir), 0o755))
	return dir
}

// volume is a file system on a separate image, mounted during a test.
type volume struct{ dir, image string }

func newVolume(t testing.TB, megabytes int, mkfs ...string) volume {
	t.Helper()
	needRoot(t)
	base := publicTempDir(t)
	v := volume{filepath.Join(base, "mnt"), filepath.Join(base, "image")}
	f, err := os.Create(v.image)
	must(t, err)
	must(t, f.Truncate(int64(megabytes)<<20))
	must(t, f.Close())
	if len(mkfs) == 0 {
		mkfs = []string{"mkfs.ext4", "-q", "-F"}
	}
	runCommand(t, mkfs[0], append(mkfs[1:], v.image)...)
	must(t, os.Mkdir(v.dir, 0o755))
	runCommand(t, "mount", "-o", "loop", v.image, v.dir)
	t.Cleanup(func() { unmount(t, v.dir) })
	return v
}

// unmount ends a mount. A container that starts on this machine copies all mounts, which makes them busy for an instant.
func unmount(t testing.TB, dir string) {
	t.Helper()
	for range 20 {
		if unix.Unmount(dir, 0) == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	runCommand(t, "umount", dir)
}

// namesIn returns the names in a directory, separated by commas.
func namesIn(t testing.TB, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, ",")
}

// dataMap describes the runs of data in a file.
func dataMap(t testing.TB, path string) string {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	st, err := f.Stat()
	must(t, err)
	var b strings.Builder
	for off := int64(0); off < st.Size(); {
		from, to, err := fsys.SeekData(int(f.Fd()), off, st.Size())
		must(t, err)
		if from < to {
			fmt.Fprintf(&b, "%d-%d ", from, to)
		}
		off = to
	}
	return b.String()
}

func runCommand(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v: %s", name, args, err, out)
	}
	return string(out)
}

// requireEqualTrees fails if rsync would change anything after the copy.
func requireEqualTrees(t testing.TB, src, dst string) {
	t.Helper()
	out := runCommand(t, "rsync", "-n", "-aHAXc", "--specials", "--devices", "--numeric-ids", "--delete", "--itemize-changes",
		"--exclude=/lost+found", "--filter=-x trusted.SGI_ACL_*", src+"/", dst+"/")
	if out != "" {
		t.Fatalf("rsync would still change:\n%.3000s", out)
	}
}
