package idletimeout

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/test/kit/build"
)

// TestLateEventBlamesNoProbe: an event has waited behind another one of its set, and has less time left than is reserved for writes. No
// probe was sent, so the set must not get the Warning that its probe failed, and no pause of DRYDOCK_SLEEP_RETRY.
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
	ctx, cancel := context.WithTimeout(t.Context(), reservedForWrites-time.Second)
	defer cancel()
	_, _ = c.function(settings).Handle(ctx, newEvent(events.ObjectChanged, "1", time.Now(), aboutWeb))
	if record, err := api.LoadSleep(c.set("web")); err != nil || asked == 0 && record != nil && record.Reason == api.ProbeFailed {
		t.Errorf("the probe was never sent, and the set says: %s (%v)", record.Message, err)
	}
}
