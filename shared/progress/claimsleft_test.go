package progress

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/world"
	"drydock.dev/test/kit/build"
)

// TestTimeLeftIsOfAllClaims: the mover copies one claim after the other, and knows the size of a claim only when it begins it. A user plans
// a window by the time that is left.
func TestTimeLeftIsOfAllClaims(t *testing.T) {
	var rates Rates
	var left *int64
	for i := range 2 {
		now := build.Now.Add(time.Duration(i) * 30 * time.Second)
		record := build.Operation(api.Moving, build.Members(api.MemberCopying, "data-web-0", "logs-web-0"))
		member := &record.Members[0]
		member.ProgressAt = operation.Moment(now)
		member.Claims[0].BytesDone, member.Claims[0].BytesTotal = int64(i+1)<<30, 3<<30 // nothing is known about logs, of 1 TiB
		d, err := FromRecord(&world.Observed{Now: now, Set: setWith(record)})
		if err != nil {
			t.Fatal(err)
		}
		rates.Add(d, now)
		left = d.Members[0].SecondsLeft
	}
	if left != nil {
		t.Errorf("%d s are left of a copy of which one claim is not begun", *left)
	}
}

func setWith(record *api.Resize) *appsv1.StatefulSet { return build.Set("web", build.Status(record)) }
