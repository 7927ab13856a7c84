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
		Copy:  Cost{File: 10 * time.Millisecond, Rate: 100 * mib, Workers: 4},
		Check: Cost{File: 5 * time.Millisecond, Rate: 200 * mib, Workers: 2},
	}
	for name, c := range map[string]struct {
		left Work
		want float64 // seconds
	}{
		"nothing remains":                   {Work{}, 3.5},
		"small files, on several workers":   {Work{Files: 400}, 3.5 + 1 + 1},
		"a single big file uses one worker": {Work{Bytes: 1000 * mib, Largest: 1000 * mib}, 3.5 + 10 + 5},
		"many big files use all workers":    {Work{Bytes: 4000 * mib, Largest: 1000 * mib}, 3.5 + 10 + 10},
		"files to delete":                   {Work{Deletions: 20_000}, 3.5 + 1},
		"both":                              {Work{Files: 400, Bytes: 4000 * mib, Largest: 500 * mib}, 3.5 + 11 + 11},
	} {
		f := base
		f.Remaining = c.left
		if got := f.Forecast().Seconds(); math.Abs(got-c.want) > 0.001 {
			t.Errorf("%s: %.3f s, want %.3f s", name, got, c.want)
		}
	}
}

func TestGapsAreFilledFromEarlierPasses(t *testing.T) {
	earlier := Figures{Copy: Cost{File: 1, Rate: 10, Workers: 1}, Check: Cost{File: 2, Rate: 5, Workers: 1}}
	if f := (Figures{Copy: Cost{Rate: 7}}).WithGapsFrom(earlier); f.Copy != (Cost{1, 7, 1}) || f.Check != earlier.Check {
		t.Errorf("%+v", f)
	}
	if _, check := (Figures{Copy: Cost{3, 1e15, 2}}).costs(); check.File != 3 || check.Rate <= 0 || check.Rate >= 1e15 {
		t.Errorf("verification must not be faster than hashing: %+v", check)
	}
	if copying, check := (Figures{Check: Cost{3, 4, 2}}).costs(); copying != check {
		t.Errorf("%+v", copying)
	}
	unmeasured := Figures{Copy: Cost{Workers: 2}}
	if copying, check := unmeasured.costs(); copying.Rate != defaultCost.Rate || check.File != defaultCost.File {
		t.Errorf("a cost that was not measured must not be zero: %+v", copying)
	}
	after := (Figures{Check: Cost{Rate: 7}}).WithGapsFrom(unmeasured.WithGapsFrom(Figures{}))
	if after.Copy.Rate != 0 || after.Check.Rate != 7 {
		t.Errorf("a default was stored as a measurement: %+v", after)
	}
}

// The cost measures work, not the wait for bandwidth.
func TestCostExcludesWaitsForLimit(t *testing.T) {
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
