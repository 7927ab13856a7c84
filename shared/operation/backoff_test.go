package operation

import (
	"testing"
	"time"
)

func TestBackoff(t *testing.T) {
	for name, row := range map[string]struct {
		first    time.Duration
		failures int
		want     time.Duration
	}{
		"no failure":             {10 * time.Second, 0, 10 * time.Second},
		"the first failure":      {10 * time.Second, 1, 10 * time.Second},
		"the second":             {10 * time.Second, 2, 20 * time.Second},
		"the third":              {10 * time.Second, 3, 40 * time.Second},
		"at the limit":           {10 * time.Second, 6, 5 * time.Minute},
		"far beyond the limit":   {10 * time.Second, 1 << 40, 5 * time.Minute},
		"a first wait above it":  {10 * time.Minute, 1, 10 * time.Minute},
		"a second wait above it": {10 * time.Minute, 2, 10 * time.Minute},
		"a negative count":       {10 * time.Second, -1, 10 * time.Second},
	} {
		if got := Backoff(row.first, 5*time.Minute, row.failures); got != row.want {
			t.Errorf("%s: %s, want %s", name, got, row.want)
		}
	}
}
