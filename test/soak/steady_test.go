package soak

import (
	"strings"
	"testing"
	"time"
)

// life returns a sample each five seconds. grow changes the i-th sample.
func life(count int, grow func(i int, s *Sample)) []Sample {
	var all []Sample
	for i := range count {
		s := Sample{Age: time.Duration(i) * 5 * time.Second, Goroutines: 300, Heap: 60 << 20, Resident: 120 << 20}
		grow(i, &s)
		all = append(all, s)
	}
	return all
}

func TestGrowthIsReported(t *testing.T) {
	for name, row := range map[string]struct {
		samples []Sample
		want    string
	}{
		"a steady process":                {life(60, func(int, *Sample) {}), ""},
		"noise":                           {life(60, func(i int, s *Sample) { s.Heap += float64(i%7) * (4 << 20) }), ""},
		"one peak":                        {life(60, func(i int, s *Sample) { s.Goroutines += float64(i/59) * 5000 }), ""},
		"caches fill at the start":        {life(60, func(i int, s *Sample) { s.Heap *= min(1, float64(i+1)/12) }), ""},
		"a goroutine of each event leaks": {life(60, func(i int, s *Sample) { s.Goroutines += float64(70 * i) }), "goroutines"},
		"four megabytes leak each":        {life(60, func(i int, s *Sample) { s.Heap += float64(i) * (4 << 20) }), "bytes of Go's memory"},
		"memory outside Go leaks":         {life(60, func(i int, s *Sample) { s.Resident += float64(i) * (6 << 20) }), "resident memory"},
		"too few samples to judge":        {life(20, func(int, *Sample) {}), "only 8 samples"},
		"everything was killed at once":   {nil, "only 0 samples"},
	} {
		got := strings.Join(Growth(row.samples), "; ")
		if (got == "") != (row.want == "") || !strings.Contains(got, row.want) {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
}
