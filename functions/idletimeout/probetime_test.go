package idletimeout

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/test/kit/build"
)

// TestLateEventBlamesNoProbe: an event has waited behind another one of its set, and has less time left than is reserved for writes. No
// probe is sent, so the set must not get the Warning that its probe failed, and no pause of DRYDOCK_SLEEP_RETRY. It is delivered
// again and has more time then: the probe is sent, and the set sleeps.
func TestLateEventBlamesNoProbe(t *testing.T) {
	asked := 0
	prometheus := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"scalar","result":[1,"0"]}}`))
	}))
	t.Cleanup(prometheus.Close)
	settings := build.SleepSettings()
	settings.Prometheus, settings.PromNamespaces = prometheus.URL, []string{build.Namespace}
	c := newCluster(t, staleWeb(build.Annotation(api.ActivityProbeAnnotation, "prometheus:x")))
	handleWithin := func(id string, left time.Duration) (*api.Sleep, error) {
		ctx, cancel := context.WithTimeout(t.Context(), left)
		defer cancel()
		_, err := c.function(settings).Handle(ctx, newEvent(events.ObjectChanged, id, time.Now(), aboutWeb))
		record, unreadable := api.LoadSleep(c.set("web"))
		if unreadable != nil {
			t.Fatal(unreadable)
		}
		return record, err
	}
	record, err := handleWithin("1", reservedForWrites-time.Second)
	if err == nil || !strings.Contains(err.Error(), "waited too long") || asked != 0 || record != nil {
		t.Fatalf("%d probes were sent, and the set says: %s (%v)", asked, build.Words(record), err)
	}
	record, err = handleWithin("2", reservedForWrites+time.Minute)
	if err != nil || asked != 1 || record == nil || record.Phase != api.Planned {
		t.Errorf("%d probes were sent, and the set says: %s (%v)", asked, build.Words(record), err)
	}
}
