//go:build linux && root

package mover

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"drydock.dev/cmd/drydock/mover/tree"
)

// flagsOfCopy returns the flags of a name on both sides, as lsattr shows them.
func flagsOfCopy(t *testing.T, src, dst volume, name string) (source, target string) {
	t.Helper()
	var flags [2]string
	for i, dir := range []string{src.dir, dst.dir} {
		out, err := exec.Command("lsattr", "-d", dir+name).Output()
		must(t, err)
		flags[i] = strings.Fields(string(out))[0]
	}
	return flags[0], flags[1]
}

// TestFlagThatExcludesThatOfRoot: on btrfs, the flags C and c exclude each other. missingFlags tries each flag on a file that may inherit
// the other one from the root of the volume.
func TestFlagThatExcludesThatOfRoot(t *testing.T) {
	for _, root := range []string{"-C", "+C"} {
		src, dst := newVolume(t, 300, "mkfs.btrfs", "-q", "-f"), newVolume(t, 300, "mkfs.btrfs", "-q", "-f")
		must(t, os.Mkdir(src.dir+"/archive", 0o755))
		runCommand(t, "chattr", root, src.dir)
		must(t, os.WriteFile(src.dir+"/archive/table", bytes.Repeat([]byte("0123456789abcdef"), 1<<18), 0o600)) // 4 MiB
		o := Options{Source: src.dir, Target: dst.dir, Workers: 2, Pass: tree.PassFirst, Token: operation, Settled: settled, OwnOnly: true,
			Record: recordOf(dst.dir)}
		first, err := Copy(context.Background(), o)
		must(t, err)
		runCommand(t, "chattr", "+c", src.dir+"/archive/table")
		writeInPlace(t, src.dir+"/archive/table", []byte("changed"), 1<<20)
		o.Pass, o.Last = tree.PassFinal, first
		r, err := Copy(context.Background(), o)
		must(t, err)
		if s, d := flagsOfCopy(t, src, dst, "/archive/table"); s != d {
			t.Errorf("root %s: source %s, target %s, warnings %q", root, s, d, r.Warnings)
		}
	}
}

// TestFlagThatTheTargetInherits: the file has lost its flag m since the first pass, and its directory has the flag c.
func TestFlagThatTheTargetInherits(t *testing.T) {
	src, dst := newVolume(t, 300, "mkfs.btrfs", "-q", "-f"), newVolume(t, 300, "mkfs.btrfs", "-q", "-f")
	must(t, os.WriteFile(src.dir+"/table", bytes.Repeat([]byte("0123456789abcdef"), 1<<18), 0o600))
	runCommand(t, "chattr", "+c", src.dir)
	runCommand(t, "chattr", "+m", src.dir+"/table")
	o := Options{Source: src.dir, Target: dst.dir, Workers: 2, Pass: tree.PassFirst, Token: operation, Settled: settled, OwnOnly: true,
		Record: recordOf(dst.dir)}
	first, err := Copy(context.Background(), o)
	must(t, err)
	runCommand(t, "chattr", "-m", src.dir+"/table")
	o.Pass, o.Last = tree.PassFinal, first
	r, err := Copy(context.Background(), o)
	must(t, err)
	for _, n := range []string{"", "/table"} {
		if s, d := flagsOfCopy(t, src, dst, n); s != d {
			t.Errorf("%s %s %v", s, d, r.Warnings)
		}
	}
}

// TestFlagsThatExcludeEachOther: the file has another flag than its directory, and the two exclude each other.
func TestFlagsThatExcludeEachOther(t *testing.T) {
	for name, c := range map[string][2]string{
		"C below c": {"c", "C"}, "c below m": {"m", "c"}, "c below C": {"C", "c"}, "m below c": {"c", "m"},
	} {
		t.Run(name, func(t *testing.T) {
			src, dst := newVolume(t, 300, "mkfs.btrfs", "-q", "-f"), newVolume(t, 300, "mkfs.btrfs", "-q", "-f")
			must(t, os.Mkdir(src.dir+"/d", 0o755))
			must(t, os.WriteFile(src.dir+"/d/table", nil, 0o600))
			runCommand(t, "chattr", "+"+c[1], src.dir+"/d/table")
			must(t, os.WriteFile(src.dir+"/d/table", bytes.Repeat([]byte("0123456789abcdef"), 1<<18), 0o600))
			runCommand(t, "chattr", "+"+c[0], src.dir+"/d")
			o := Options{Source: src.dir, Target: dst.dir, Workers: 2, Pass: tree.PassFirst, Token: operation, Settled: settled, OwnOnly: true,
				Record: recordOf(dst.dir)}
			first, err := Copy(context.Background(), o)
			must(t, err)
			o.Pass, o.Last = tree.PassFinal, first
			r, err := Copy(context.Background(), o)
			must(t, err)
			if s, d := flagsOfCopy(t, src, dst, "/d/table"); s != d || r.Bytes > 0 {
				t.Errorf("source %s target %s bytes %d warnings %q", s, d, r.Bytes, r.Warnings)
			}
		})
	}
}
