package progress

import (
	"testing"
	"time"
)

func TestRatesComeFromTheLastHalfMinute(t *testing.T) {
	var rates Rates
	start := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	for _, step := range []struct {
		second       int
		copied, rate int64
	}{
		{0, 0, 0},
		{10, 1000, 100},
		{20, 2000, 100},
		{60, 10000, 200},
		{70, 10000, 160}, // nothing moved for ten seconds
		{80, 0, 0},       // the next pass
		{90, 500, 50},
	} {
		d := &Document{Members: []Member{{Ordinal: 1, Copied: step.copied, Bytes: 1 << 20}}}
		rates.Add(d, start.Add(time.Duration(step.second)*time.Second))
		if got := d.Members[0].Rate; got != step.rate {
			t.Errorf("after %d s: %d bytes a second, want %d", step.second, got, step.rate)
		}
	}
}
