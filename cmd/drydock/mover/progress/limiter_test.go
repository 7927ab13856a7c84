//go:build linux

package progress

import (
	"testing"
	"time"
)

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
