//go:build linux && root

package mover

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drydock.dev/shared/moverreport"
	"drydock.dev/test/seed"
)

// However often and wherever the copy is killed, every name in the target is either the old file or the complete new
// one. At the end the target is a copy.
// Invariants: I1.
func TestKilledCopyResumes(t *testing.T) {
	src, dst := newVolume(t, 128), newVolume(t, 128)
	r := seed.Random(t)
	total := int64(0)
	for i := range 120 {
		size := 1 + r.IntN(400_000)
		total += int64(size)
		name := fmt.Sprintf("d%d/f%d", i%7, i)
		must(t, os.MkdirAll(filepath.Join(src.dir, filepath.Dir(name)), 0o755))
		must(t, os.MkdirAll(filepath.Join(dst.dir, filepath.Dir(name)), 0o755))
		must(t, os.WriteFile(filepath.Join(src.dir, name), bytes.Repeat([]byte("n"), size), 0o640))
		if i%2 == 0 {
			must(t, os.WriteFile(filepath.Join(dst.dir, name), bytes.Repeat([]byte("o"), 1000+i), 0o600))
		}
		if i%9 == 0 {
			must(t, os.Link(filepath.Join(src.dir, name), filepath.Join(src.dir, fmt.Sprintf("link%d", i))))
		}
	}
	kills := 0
	for range 12 {
		c := child{Source: src.dir, Target: dst.dir}
		var after time.Duration
		switch r.IntN(3) {
		case 0:
			c.KillAfter = 1 + r.Int64N(total/3)
		case 1:
			c.KillAtFile = 1 + r.Int64N(25)
		default:
			after = time.Duration(r.Int64N(int64(60 * time.Millisecond)))
		}
		if killed(t, c, after) {
			kills++
		}
		requireCompleteFiles(t, src.dir, dst.dir)
	}
	t.Logf("%d of 12 runs were killed", kills)
	if report := (child{Source: src.dir, Target: dst.dir}).run(t, 0); report.Code != moverreport.CodeOK {
		t.Fatalf("%+v", report)
	}
	requireEqualTrees(t, src.dir, dst.dir)
	requireNoTemps(t, dst.dir)
}

func requireCompleteFiles(t *testing.T, src, dst string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dst, "d*/f*"))
	must(t, err)
	links, err := filepath.Glob(filepath.Join(dst, "link*"))
	must(t, err)
	for _, path := range append(names, links...) {
		got, err := os.ReadFile(path)
		must(t, err)
		want, err := os.ReadFile(filepath.Join(src, strings.TrimPrefix(path, dst)))
		must(t, err)
		old := len(got) >= 1000 && len(got) < 1120 && len(bytes.Trim(got, "o")) == 0
		if !old && !bytes.Equal(got, want) {
			t.Fatalf("%s has %d bytes: it is not the old file, and the new one has %d", path, len(got), len(want))
		}
	}
}

// In a directory that the killed run created, a torn file may have its final name. The next run recognizes and replaces
// it.
func TestTornFilesAreReplaced(t *testing.T) {
	src, dst := newVolume(t, 128), newVolume(t, 128)
	must(t, os.Mkdir(filepath.Join(src.dir, "d"), 0o755))
	for i := range 20 {
		writeFile(t, filepath.Join(src.dir, "d", fmt.Sprintf("f%02d", i)), strings.Repeat("x", 500_000))
	}
	must(t, os.Chmod(filepath.Join(src.dir, "d", "f07"), 0))
	for after := range int64(6) {
		must(t, os.RemoveAll(filepath.Join(dst.dir, "d")))
		if !killed(t, child{Source: src.dir, Target: dst.dir, KillAfter: 1 + after*1_300_001}, 0) {
			t.Fatal("the child was not killed")
		}
		torn, err := filepath.Glob(filepath.Join(dst.dir, "d", "f*"))
		must(t, err)
		r := copyTree(t, Options{Source: src.dir, Target: dst.dir})
		if len(torn) == 0 || r.Skipped >= int64(len(torn)) || r.Files+r.Skipped != 20 {
			t.Errorf("%d files existed, %+v", len(torn), r)
		}
		requireEqualTrees(t, src.dir, dst.dir)
		requireNoTemps(t, dst.dir)
	}
}
