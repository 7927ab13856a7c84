//go:build linux && root

package mover

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestCompressedFlagBelowRootWithoutCopyOnWrite: as TestCompressedFlagIsCarriedOnBtrfs, but the volume's root has the flag C, as for
// databases. missingFlags tries the flag c on a file in this root, which inherits C, and C excludes c.
func TestCompressedFlagBelowRootWithoutCopyOnWrite(t *testing.T) {
	src, dst := newVolume(t, 300, "mkfs.btrfs", "-q", "-f"), newVolume(t, 300, "mkfs.btrfs", "-q", "-f")
	must(t, os.Mkdir(src.dir+"/archive", 0o755))
	runCommand(t, "chattr", "+C", src.dir)
	must(t, os.WriteFile(src.dir+"/archive/table", bytes.Repeat([]byte("0123456789abcdef"), 1<<18), 0o600)) // 4 MiB
	o := Options{Source: src.dir, Target: dst.dir, Workers: 2, Pass: PassFirst, Token: operation, Settled: settled, OwnOnly: true}
	first, err := Copy(context.Background(), o)
	must(t, err)
	runCommand(t, "chattr", "+c", src.dir+"/archive/table")
	f, err := os.OpenFile(src.dir+"/archive/table", os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteAt([]byte("changed"), 1<<20)
	must(t, err)
	must(t, f.Close())
	o.Pass, o.Last = PassFinal, first
	r, err := Copy(context.Background(), o)
	must(t, err)
	flags := func(dir string) string {
		out, err := exec.Command("lsattr", dir+"/archive/table").Output()
		must(t, err)
		return strings.Fields(string(out))[0]
	}
	if s, d := flags(src.dir), flags(dst.dir); s != d {
		t.Errorf("source %s, target %s, warnings %q", s, d, r.Warnings)
	}
}

// TestFlagThatTheTargetInherits: the file has lost its flag m since the first pass, and its directory has the flag c.
func TestFlagThatTheTargetInherits(t *testing.T) {
	src, dst := newVolume(t, 300, "mkfs.btrfs", "-q", "-f"), newVolume(t, 300, "mkfs.btrfs", "-q", "-f")
	must(t, os.WriteFile(src.dir+"/table", bytes.Repeat([]byte("0123456789abcdef"), 1<<18), 0o600))
	runCommand(t, "chattr", "+c", src.dir)
	runCommand(t, "chattr", "+m", src.dir+"/table")
	o := Options{Source: src.dir, Target: dst.dir, Workers: 2, Pass: PassFirst, Token: operation, Settled: settled, OwnOnly: true}
	first, err := Copy(context.Background(), o)
	must(t, err)
	runCommand(t, "chattr", "-m", src.dir+"/table")
	o.Pass, o.Last = PassFinal, first
	r, err := Copy(context.Background(), o)
	must(t, err)
	for _, n := range []string{"", "/table"} {
		s, _ := exec.Command("lsattr", "-d", src.dir+n).Output()
		d, _ := exec.Command("lsattr", "-d", dst.dir+n).Output()
		if strings.Fields(string(s))[0] != strings.Fields(string(d))[0] {
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
			o := Options{Source: src.dir, Target: dst.dir, Workers: 2, Pass: PassFirst, Token: operation, Settled: settled, OwnOnly: true}
			first, err := Copy(context.Background(), o)
			must(t, err)
			o.Pass, o.Last = PassFinal, first
			r, err := Copy(context.Background(), o)
			must(t, err)
			s, _ := exec.Command("lsattr", src.dir+"/d/table").Output()
			d, _ := exec.Command("lsattr", dst.dir+"/d/table").Output()
			if strings.Fields(string(s))[0] != strings.Fields(string(d))[0] || r.Bytes > 0 {
				t.Errorf("source %s target %s bytes %d warnings %q", s, d, r.Bytes, r.Warnings)
			}
		})
	}
}
