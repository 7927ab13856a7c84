package resize

import (
	"testing"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/test/kit/build"
)

func TestRefusalIsRepeatedLessOftenWithTime(t *testing.T) {
	for name, row := range map[string]struct {
		reason api.Reason
		ago    time.Duration
		tick   time.Duration
		want   int // checks in an hour
	}{
		"a minute ago, a tick each minute":              {api.QuotaExceeded, time.Minute, time.Minute, 60},
		"an hour ago, a tick each minute":               {api.QuotaExceeded, time.Hour, time.Minute, 6},
		"an hour ago, a tick every five minutes":        {api.QuotaExceeded, time.Hour, 5 * time.Minute, 6},
		"an hour ago, a tick every 20 minutes":          {api.QuotaExceeded, time.Hour, 20 * time.Minute, 3},
		"only a change of the set can remove the cause": {api.RequestInvalid, time.Minute, time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			status, checks := build.Operation(api.Refused), 0
			for now := build.Now; now.Before(build.Now.Add(time.Hour)); now = now.Add(row.tick) {
				status.Reason, status.Finished = row.reason, operation.Moment(now.Add(-row.ago))
				change := operation.Change{Set: build.Set("web"), Now: now, PreviousSweep: now.Add(-row.tick), Swept: true}
				if RefusalDue(change, status) {
					checks++
				}
			}
			if checks != row.want {
				t.Errorf("%d checks in an hour, want %d", checks, row.want)
			}
		})
	}
}
