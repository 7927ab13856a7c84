package progress

import (
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// Age returns a duration in words, for example "97s", "4m" or "3h5m". From two minutes on it has no seconds, so that a text that is drawn
// again rarely changes. It is never negative, because clocks differ.
func Age(d time.Duration) string {
	if d >= 2*time.Minute {
		d = d.Truncate(time.Minute)
	}
	return duration.HumanDuration(max(d, 0))
}
