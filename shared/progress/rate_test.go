package progress

import (
	"fmt"
	"math"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestRateIsThatBetweenReports: between two reports nothing is known, so the rate stays and the remaining time counts down.
func TestRateIsThatBetweenReports(t *testing.T) {
	const mi = 1 << 20
	start := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	var rates Rates
	for _, step := range []struct {
		second, reported int // reported is -1 without a report
		copied           int64
		want             string
	}{
		{0, -1, 0, "0 B/s, -"},
		{1, 0, 77, "0 B/s, -"},
		{4, 3, 8 * mi, "0 B/s, -"},            // too close to the first report
		{10, 10, 10 * mi, "1048568 B/s, 30s"}, // 10 MiB less 77 bytes in 10 s
		{20, 10, 10 * mi, "1048568 B/s, 20s"}, // nothing new was reported
		{30, 10, 10 * mi, "1048568 B/s, 10s"},
		{50, 10, 10 * mi, "1048568 B/s, -"}, // never negative
		{50, 50, 30 * mi, "629144 B/s, 16s"},
		{80, 80, 2 * mi, "0 B/s, -"}, // the copy was begun again
		{90, 90, 2 * mi, "0 B/s, -"}, // not one percent more
		{95, -1, 40 * mi, "0 B/s, -"},
	} {
		m := Member{Ordinal: 1, Copied: step.copied, Bytes: 40 * mi}
		if step.reported >= 0 {
			m.ReportedAt = &metav1.Time{Time: start.Add(time.Duration(step.reported) * time.Second)}
		}
		d := &Document{Members: []Member{m}}
		rates.Add(d, start.Add(time.Duration(step.second)*time.Second))
		if got := rateWords(d.Members[0]); got != step.want {
			t.Errorf("after %d s: %s, want %s", step.second, got, step.want)
		}
	}
}

func rateWords(m Member) string {
	left := "-"
	if m.SecondsLeft != nil {
		left = LeftWords(*m.SecondsLeft)
	}
	return fmt.Sprintf("%d B/s, %s", m.Rate, left)
}

// TestRateOfForgedRecordIsFinite: a user can write any number and time into a record.
func TestRateOfForgedRecordIsFinite(t *testing.T) {
	numbers := []int64{math.MinInt64, -1, 0, 1, math.MaxInt64}
	for _, bytes := range numbers {
		for _, first := range numbers {
			for _, second := range numbers {
				var rates Rates
				start := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
				for i, copied := range []int64{first, second} {
					at := metav1.NewTime(start.AddDate(1000*i, 0, 0))
					d := &Document{Members: []Member{{Copied: copied, Bytes: bytes, ReportedAt: &at}}}
					rates.Add(d, start)
					if m := d.Members[0]; m.Rate < 0 || m.SecondsLeft != nil && (*m.SecondsLeft <= 0 || LeftWords(*m.SecondsLeft) == "") {
						t.Errorf("%d, %d of %d: %+v", first, second, bytes, m)
					}
				}
			}
		}
	}
}

func TestLongRemainingTimeIsOneWord(t *testing.T) {
	for seconds, want := range map[int64]string{90: "90s", 300: "5m", 86400: "24h", 86401: "more than a day", 486 * 86400: "more than a day"} {
		if got := LeftWords(seconds); got != want {
			t.Errorf("%d s: %s, want %s", seconds, got, want)
		}
	}
}
