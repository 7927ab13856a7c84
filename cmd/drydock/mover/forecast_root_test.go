//go:build linux && root

package mover

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"drydock.dev/cmd/drydock/mover/forecast"
	"drydock.dev/cmd/drydock/mover/progress"
	"drydock.dev/test/seed"
)

func TestFirstPassKeepsBandwidthLimit(t *testing.T) {
	src, dst := newVolume(t, 32), newVolume(t, 32)
	writeFile(t, src.dir+"/f", strings.Repeat("x", 2<<20))
	o := firstPass(src.dir, dst.dir)
	o.Limit = progress.NewLimiter(4 << 20)
	began := time.Now()
	r := runFirstPass(t, o)
	if took := time.Since(began); took < 900*time.Millisecond { // 2 MiB are read and written
		t.Errorf("the pass took %v", took)
	}
	if f := r.Figures; f.Cost.Rate < 3<<20 { // at most 2 MiB/s can be copied
		t.Errorf("the forecast includes the waits for the limit: %+v", f)
	}
}

func TestSurveyFindsRemainingWork(t *testing.T) {
	src, dst := newVolume(t, 64), newVolume(t, 64)
	r := seed.Random(t)
	for i := range 10 {
		writeFile(t, fmt.Sprintf("%s/f%d", src.dir, i), "x")
	}
	writeRandomFile(t, r, src.dir+"/db", 5<<20)
	must(t, os.Link(src.dir+"/db", src.dir+"/link"))
	must(t, os.Truncate(src.dir+"/db", 40<<20)) // a hole at the end
	waitSettled()
	last := runFirstPass(t, firstPass(src.dir, dst.dir))
	survey := func() forecast.Work {
		t.Helper()
		f, err := Survey(context.Background(), firstPass(src.dir, dst.dir), last)
		must(t, err)
		return f.Remaining
	}
	if got := survey(); got != (forecast.Work{}) || last.Figures.Remaining != got {
		t.Errorf("%+v, %+v", got, last.Figures)
	}
	must(t, rewrite(src.dir+"/f3"))
	writeFile(t, src.dir+"/new", "x")
	must(t, os.Remove(src.dir+"/f4"))
	if got := survey(); got != (forecast.Work{Files: 2}) {
		t.Errorf("%+v", got)
	}
	changeBytes(t, r, src.dir+"/db", 1)
	if got := survey(); got.Files != 2 || got.Bytes < 5<<20 || got.Bytes > 6<<20 || got.Largest != got.Bytes {
		t.Errorf("%+v", got)
	}
	must(t, os.Remove(src.dir+"/f5"))
	must(t, os.Remove(src.dir+"/f6"))
	if got := survey(); got.Deletions != 2 {
		t.Errorf("%+v", got)
	}
	if _, err := Survey(context.Background(), firstPass(src.dir, dst.dir), Result{}); err == nil {
		t.Error("a survey succeeded without a first pass")
	}
}

// The files of a moved directory have to be copied to the new place, although the files themselves show no change.
func TestSurveyFindsMovedDirectories(t *testing.T) {
	src, dst := newVolume(t, 64), newVolume(t, 64)
	r := seed.Random(t)
	must(t, os.MkdirAll(src.dir+"/a/b/c", 0o755))
	must(t, os.MkdirAll(src.dir+"/z", 0o755))
	writeFile(t, src.dir+"/a/stays", "x")
	writeFile(t, src.dir+"/a/b/moves", "x")
	writeRandomFile(t, r, src.dir+"/a/b/c/db", 3<<20)
	waitSettled()
	last := runFirstPass(t, firstPass(src.dir, dst.dir))
	for _, move := range []struct {
		from, to string
		want     forecast.Work
	}{
		{"a/b", "a/renamed", forecast.Work{Files: 1, Bytes: 3 << 20, Largest: 3 << 20}},
		{"a/renamed", "a/b", forecast.Work{}},
		{"a/b", "z/b", forecast.Work{Files: 1, Bytes: 3 << 20, Largest: 3 << 20}},
		{"a", "z/a", forecast.Work{Files: 2, Bytes: 3 << 20, Largest: 3 << 20}},
	} {
		must(t, os.Rename(src.dir+"/"+move.from, src.dir+"/"+move.to))
		f, err := Survey(context.Background(), firstPass(src.dir, dst.dir), last)
		if err != nil || f.Remaining != move.want {
			t.Errorf("%s to %s: %+v %v", move.from, move.to, f.Remaining, err)
		}
	}
}
