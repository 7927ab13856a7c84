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

// TestCompressedFlagIsCarriedOnBtrfs: btrfs has the flag c. missingFlags tries it on a file that has C already, which excludes it.
func TestCompressedFlagIsCarriedOnBtrfs(t *testing.T) {
	src, dst := newVolume(t, 300, "mkfs.btrfs", "-q", "-f"), newVolume(t, 300, "mkfs.btrfs", "-q", "-f")
	must(t, os.WriteFile(src.dir+"/table", bytes.Repeat([]byte("0123456789abcdef"), 1<<18), 0o600)) // 4 MiB
	o := Options{Source: src.dir, Target: dst.dir, Workers: 2, Pass: PassFirst, Token: operation, Settled: settled, OwnOnly: true}
	first, err := Copy(context.Background(), o)
	must(t, err)
	runCommand(t, "chattr", "+c", src.dir+"/table")
	f, err := os.OpenFile(src.dir+"/table", os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteAt([]byte("changed"), 1<<20)
	must(t, err)
	must(t, f.Close())
	o.Pass, o.Last = PassFinal, first
	r, err := Copy(context.Background(), o)
	must(t, err)
	flags := func(dir string) string {
		out, err := exec.Command("lsattr", dir+"/table").Output()
		must(t, err)
		return strings.Fields(string(out))[0]
	}
	if s, d := flags(src.dir), flags(dst.dir); s != d {
		t.Errorf("source %s, target %s, warnings %q", s, d, r.Warnings)
	}
}
