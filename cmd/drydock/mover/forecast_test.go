//go:build linux

package mover

import (
	"math"
	"testing"
	"time"
)

func TestForecast(t *testing.T) {
	const mib = 1 << 20
	base := Figures{
		Scan: time.Second, Metadata: 2 * time.Second, Flush: 500 * time.Millisecond,
		Cost: Cost{File: 10 * time.Millisecond, Rate: 100 * mib, Workers: 4},
	}
	for name, c := range map[string]struct {
		left Work
		want float64 // seconds
	}{
		"nothing remains":                   {Work{}, 3.5},
		"small files, on several workers":   {Work{Files: 400}, 3.5 + 1 + 1},
		"a single big file uses one worker": {Work{Bytes: 1000 * mib, Largest: 1000 * mib}, 3.5 + 10 + 10},
		"many big files use all workers":    {Work{Bytes: 4000 * mib, Largest: 1000 * mib}, 3.5 + 10 + 10},
		"files to delete":                   {Work{Deletions: 20_000}, 3.5 + 1},
		"both":                              {Work{Files: 400, Bytes: 4000 * mib, Largest: 500 * mib}, 3.5 + 11 + 11},
		"kept hashes save the verification": {Work{Bytes: 4000 * mib, Largest: 1000 * mib, Kept: 4000 * mib}, 3.5 + 10},
	} {
		f := base
		f.Remaining = c.left
		if got := f.Forecast().Seconds(); math.Abs(got-c.want) > 0.001 {
			t.Errorf("%s: %.3f s, want %.3f s", name, got, c.want)
		}
	}
}

func TestGapsAreFilledFromEarlierPasses(t *testing.T) {
	earlier := Figures{Cost: Cost{File: 1, Rate: 10, Workers: 1}}
	if f := (Figures{Cost: Cost{Rate: 7}}).WithGapsFrom(earlier); f.Cost != (Cost{1, 7, 1}) {
		t.Errorf("%+v", f)
	}
	unmeasured := Figures{Cost: Cost{Workers: 2}, Remaining: Work{Files: 1}}
	if got := unmeasured.Contents(); got != defaultCost.File {
		t.Errorf("a cost that was not measured must not be zero: %v", got)
	}
	if after := (Figures{}).WithGapsFrom(unmeasured.WithGapsFrom(Figures{})); after.Cost.File != 0 || after.Cost.Rate != 0 {
		t.Errorf("a default was stored as a measurement: %+v", after)
	}
}

// The cost measures work in both phases, not the wait for bandwidth.
func TestCostExcludesWaitsForLimit(t *testing.T) {
	copying, checking := effort{wall: 10 * time.Second, waited: 6 * time.Second}, effort{wall: 10 * time.Second, waited: 2 * time.Second}
	copying.tasks.Store(int64(20 * time.Second))
	copying.big.Store(int64(8 * time.Second))
	copying.bigBytes.Store(1 << 30)
	if c := costOf(&copying); math.Abs(c.Rate-(1<<30)/2) > 1 || c.Workers != 2 || c.File != 0 {
		t.Errorf("%+v", c)
	}
	checking.big.Store(int64(8 * time.Second))
	checking.bigBytes.Store(1 << 30)
	if c := costOf(&copying, &checking); math.Abs(c.Rate-(1<<30)/4) > 1 || c.Workers != 1 {
		t.Errorf("%+v", c)
	}
	if got := copying.metadata(); got != 6*time.Second {
		t.Errorf("%v", got)
	}
	if c := costOf(new(effort)); c != (Cost{}) {
		t.Errorf("%+v", c)
	}
}

func TestLimiterGrantsRate(t *testing.T) {
	l := NewLimiter(1000)
	now := time.Unix(0, 0)
	for i, want := range []time.Duration{500 * time.Millisecond, time.Second, 1500 * time.Millisecond} {
		if got := l.reserve(now, 500); got != want {
			t.Errorf("%d: %v, want %v", i, got, want)
		}
	}
	if got := l.reserve(now.Add(time.Hour), 100); got != 100*time.Millisecond {
		t.Errorf("unused bandwidth must not be saved: %v", got)
	}
	if NewLimiter(0) != nil || NewLimiter(-1) != nil {
		t.Error("a limit of 0 must mean no limiter")
	}
}
