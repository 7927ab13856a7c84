package engine

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// newTestGate returns a gate with room for one event, its handler for events from outside, and a reader of its metrics.
func newTestGate(t *testing.T, deliver http.HandlerFunc) (*admissionGate, http.Handler, *sdkmetric.ManualReader) {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	g, err := newAdmissionGate(1, nil, sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test"),
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	g.next = deliver
	g.open(context.Background())
	return g, g.admitFromOutside(g), reader // without an ingress between them
}

// counterSum returns the sum of the counter for the result. An empty result selects data points without one.
func counterSum(t *testing.T, reader *sdkmetric.ManualReader, name, result string) int64 {
	t.Helper()
	var collected metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &collected); err != nil {
		t.Fatal(err)
	}
	var sum int64
	for _, m := range collected.ScopeMetrics[0].Metrics {
		counter, ok := m.Data.(metricdata.Sum[int64])
		if !ok || m.Name != name {
			continue
		}
		for _, p := range counter.DataPoints {
			if value, _ := p.Attributes.Value("result"); value.AsString() == result {
				sum += p.Value
			}
		}
	}
	return sum
}

func post(t *testing.T, h http.Handler) int {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("{}")))
	return w.Code
}

func TestEventWithoutRoomWaitsThenIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		g, outside, reader := newTestGate(t, func(w http.ResponseWriter, _ *http.Request) { <-free; w.WriteHeader(http.StatusAccepted) })
		if code := post(t, outside); code != http.StatusAccepted {
			t.Fatalf("the first event: %d, want 202", code)
		}
		start := time.Now()
		if code := post(t, outside); code != http.StatusServiceUnavailable || time.Since(start) != admissionTimeout {
			t.Errorf("an event without room: %d after %s, want 503 after %s", code, time.Since(start), admissionTimeout)
		}
		if got := counterSum(t, reader, "drydock.engine.refused", ""); got != 1 {
			t.Errorf("%v refused, want 1", got)
		}
		if code := post(t, g); code != http.StatusAccepted {
			t.Errorf("a reply without room: %d, want 202", code)
		}
		time.AfterFunc(time.Second, func() { close(free) })
		if code := post(t, outside); code != http.StatusAccepted {
			t.Errorf("an event that waits until there is room: %d, want 202", code)
		}
		synctest.Wait()
		if got := counterSum(t, reader, "drydock.engine.events", "delivered"); got != 3 {
			t.Errorf("%v delivered, want 3", got)
		}
		if g.inFlightCount() != 0 {
			t.Errorf("%d events in flight at the end, want none", g.inFlightCount())
		}
	})
}

func TestDrainWaitsUpToTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := time.Second
		g, outside, _ := newTestGate(t, func(http.ResponseWriter, *http.Request) { time.Sleep(work) })
		for _, row := range []struct{ work, want time.Duration }{{time.Second, time.Second}, {time.Hour, 6 * time.Second}} {
			work = row.work
			g.open(context.Background())
			post(t, g)
			start := time.Now()
			g.drain(6 * time.Second)
			if took := time.Since(start); took != row.want {
				t.Errorf("draining work of %s took %s, want %s", row.work, took, row.want)
			}
			if code := post(t, outside); code != http.StatusServiceUnavailable {
				t.Errorf("an event after the drain: %d, want 503", code)
			}
		}
		time.Sleep(time.Hour)
	})
}

func TestLostEventIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, outside, reader := newTestGate(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
		post(t, outside)
		synctest.Wait()
		if got := counterSum(t, reader, "drydock.engine.events", "lost"); got != 1 {
			t.Errorf("%v lost, want 1", got)
		}
	})
}
