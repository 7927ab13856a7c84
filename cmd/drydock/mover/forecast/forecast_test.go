//go:build linux

package forecast

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
	copying, checking := Effort{Wall: 10 * time.Second, Waited: 6 * time.Second}, Effort{Wall: 10 * time.Second, Waited: 2 * time.Second}
	copying.tasks.Store(int64(20 * time.Second))
	copying.big.Store(int64(8 * time.Second))
	copying.bigBytes.Store(1 << 30)
	if c := CostOf(&copying); math.Abs(c.Rate-(1<<30)/2) > 1 || c.Workers != 2 || c.File != 0 {
		t.Errorf("%+v", c)
	}
	checking.big.Store(int64(8 * time.Second))
	checking.bigBytes.Store(1 << 30)
	if c := CostOf(&copying, &checking); math.Abs(c.Rate-(1<<30)/4) > 1 || c.Workers != 1 {
		t.Errorf("%+v", c)
	}
	if got := copying.Metadata(); got != 6*time.Second {
		t.Errorf("%v", got)
	}
	if c := CostOf(new(Effort)); c != (Cost{}) {
		t.Errorf("%+v", c)
	}
}
