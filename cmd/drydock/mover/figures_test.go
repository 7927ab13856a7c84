//go:build linux

package mover

import (
	"context"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"
)

func TestForecastArithmetic(t *testing.T) {
	const mib = 1 << 20
	base := Figures{
		Scan: time.Second, Metadata: 2 * time.Second, Flush: 500 * time.Millisecond,
		Copy:  Cost{File: 10 * time.Millisecond, Rate: 100 * mib, Workers: 4},
		Check: Cost{File: 5 * time.Millisecond, Rate: 200 * mib, Workers: 2},
	}
	for name, c := range map[string]struct {
		left Work
		want float64 // seconds
	}{
		"nothing is left":                 {Work{}, 3.5},
		"small files, on several workers": {Work{Files: 400}, 3.5 + 1 + 1},
		"a big file has one worker":       {Work{Bytes: 1000 * mib, Largest: 1000 * mib}, 3.5 + 10 + 5},
		"many big files have all":         {Work{Bytes: 4000 * mib, Largest: 1000 * mib}, 3.5 + 10 + 10},
		"files to delete":                 {Work{Gone: 20_000}, 3.5 + 1},
		"both":                            {Work{Files: 400, Bytes: 4000 * mib, Largest: 500 * mib}, 3.5 + 11 + 11},
	} {
		f := base
		f.Left = c.left
		if got := f.Forecast().Seconds(); math.Abs(got-c.want) > 0.001 {
			t.Errorf("%s: %.3f s, want %.3f s", name, got, c.want)
		}
	}
}

func TestFiguresOfEarlierPassesFillTheGaps(t *testing.T) {
	earlier := Figures{Copy: Cost{File: 1, Rate: 10, Workers: 1}, Check: Cost{File: 2, Rate: 5, Workers: 1}}
	if f := (Figures{Copy: Cost{Rate: 7}}).After(earlier); f.Copy != (Cost{1, 7, 1}) || f.Check != earlier.Check {
		t.Errorf("%+v", f)
	}
	if _, check := (Figures{Copy: Cost{3, 1e15, 2}}).costs(); check.File != 3 || check.Rate <= 0 || check.Rate >= 1e15 {
		t.Errorf("nothing verifies faster than it can hash: %+v", check)
	}
	if copying, check := (Figures{Check: Cost{3, 4, 2}}).costs(); copying != check {
		t.Errorf("%+v", copying)
	}
	unmeasured := Figures{Copy: Cost{Workers: 2}}
	if copying, check := unmeasured.costs(); copying.Rate != guess.Rate || check.File != guess.File {
		t.Errorf("what was not measured is free: %+v", copying)
	}
	if after := (Figures{Check: Cost{Rate: 7}}).After(unmeasured.After(Figures{})); after.Copy.Rate != 0 || after.Check.Rate != 7 {
		t.Errorf("a guess was taken for a measurement: %+v", after)
	}
}

// Costs are those of the work, not of the wait for bandwidth.
func TestEffortLeavesTheLimitOut(t *testing.T) {
	e := effort{wall: 10 * time.Second, waited: 6 * time.Second}
	e.tasks.Store(int64(20 * time.Second))
	e.big.Store(int64(8 * time.Second))
	e.bigBytes.Store(1 << 30)
	if c := e.cost(); math.Abs(c.Rate-(1<<30)/2) > 1 || c.Workers != 2 || c.File != 0 {
		t.Errorf("%+v", c)
	}
	if got := e.metadata(); got != 6*time.Second {
		t.Errorf("%v", got)
	}
	if c := new(effort).cost(); c != (Cost{}) {
		t.Errorf("%+v", c)
	}
}

func TestLimiterGrantsItsRate(t *testing.T) {
	l := NewLimiter(1000)
	now := time.Unix(0, 0)
	for i, want := range []time.Duration{500 * time.Millisecond, time.Second, 1500 * time.Millisecond} {
		if got := l.reserve(now, 500); got != want {
			t.Errorf("%d: %v, want %v", i, got, want)
		}
	}
	if got := l.reserve(now.Add(time.Hour), 100); got != 100*time.Millisecond {
		t.Errorf("what was not used is not saved: %v", got)
	}
	if NewLimiter(0) != nil || NewLimiter(-1) != nil {
		t.Error("a limit of nothing")
	}
}

func TestWarmPassKeepsToItsLimit(t *testing.T) {
	src, dst := newVolume(t, 32), newVolume(t, 32)
	write(t, src.dir+"/f", strings.Repeat("x", 2<<20))
	o := warmOf(src.dir, dst.dir)
	o.Limit = NewLimiter(4 << 20)
	began := time.Now()
	r := warmTree(t, o)
	if took := time.Since(began); took < 900*time.Millisecond { // 2 MiB are read and written
		t.Errorf("it took %v", took)
	}
	if f := r.Figures; f.Copy.Rate < 3<<20 { // at most 2 MiB/s can be copied
		t.Errorf("the forecast has the limit in it: %+v", f)
	}
}

func TestSurveyFindsWhatIsLeft(t *testing.T) {
	src, dst := newVolume(t, 64), newVolume(t, 64)
	_, r := newSeed(t)
	for i := range 10 {
		write(t, fmt.Sprintf("%s/f%d", src.dir, i), "x")
	}
	big(t, r, src.dir+"/db", 5<<20)
	must(t, os.Link(src.dir+"/db", src.dir+"/link"))
	must(t, os.Truncate(src.dir+"/db", 40<<20)) // a hole at the end
	settle()
	last := warmTree(t, warmOf(src.dir, dst.dir))
	survey := func() Work {
		t.Helper()
		f, err := Survey(context.Background(), warmOf(src.dir, dst.dir), last)
		must(t, err)
		return f.Left
	}
	if got := survey(); got != (Work{}) || last.Figures.Left != got {
		t.Errorf("%+v, %+v", got, last.Figures)
	}
	must(t, rewrite(src.dir+"/f3"))
	write(t, src.dir+"/new", "x")
	must(t, os.Remove(src.dir+"/f4"))
	if got := survey(); got != (Work{Files: 2}) {
		t.Errorf("%+v", got)
	}
	poke(t, r, src.dir+"/db", 1)
	if got := survey(); got.Files != 2 || got.Bytes < 5<<20 || got.Bytes > 6<<20 || got.Largest != got.Bytes {
		t.Errorf("%+v", got)
	}
	must(t, os.Remove(src.dir+"/f5"))
	must(t, os.Remove(src.dir+"/f6"))
	if got := survey(); got.Gone != 2 {
		t.Errorf("%+v", got)
	}
	if _, err := Survey(context.Background(), warmOf(src.dir, dst.dir), Result{}); err == nil {
		t.Error("a survey without a pass")
	}
}

// The files of a directory that was moved have to be copied to the new place, although nothing is seen of that in themselves.
func TestSurveyFindsMovedDirectories(t *testing.T) {
	src, dst := newVolume(t, 64), newVolume(t, 64)
	_, r := newSeed(t)
	must(t, os.MkdirAll(src.dir+"/a/b/c", 0o755))
	must(t, os.MkdirAll(src.dir+"/z", 0o755))
	write(t, src.dir+"/a/stays", "x")
	write(t, src.dir+"/a/b/moves", "x")
	big(t, r, src.dir+"/a/b/c/db", 3<<20)
	settle()
	last := warmTree(t, warmOf(src.dir, dst.dir))
	for _, move := range []struct {
		from, to string
		want     Work
	}{
		{"a/b", "a/renamed", Work{Files: 1, Bytes: 3 << 20, Largest: 3 << 20}},
		{"a/renamed", "a/b", Work{}},
		{"a/b", "z/b", Work{Files: 1, Bytes: 3 << 20, Largest: 3 << 20}},
		{"a", "z/a", Work{Files: 2, Bytes: 3 << 20, Largest: 3 << 20}},
	} {
		must(t, os.Rename(src.dir+"/"+move.from, src.dir+"/"+move.to))
		f, err := Survey(context.Background(), warmOf(src.dir, dst.dir), last)
		if err != nil || f.Left != move.want {
			t.Errorf("%s to %s: %+v %v", move.from, move.to, f.Left, err)
		}
	}
}
