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

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// newTestGate has room for one event, and delivers when told.
func newTestGate(deliver http.HandlerFunc) (*gate, http.Handler) {
	g := newGate(1, nil, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	g.next = deliver
	g.open(context.Background())
	return g, g.admit(g) // without an ingress in between
}

func knock(t *testing.T, h http.Handler) int {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("{}")))
	return w.Code
}

func TestFullEngineHoldsBackItsSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		g, outside := newTestGate(func(w http.ResponseWriter, _ *http.Request) { <-free; w.WriteHeader(http.StatusAccepted) })
		if code := knock(t, outside); code != http.StatusAccepted {
			t.Fatalf("the first event: %d, want 202", code)
		}
		start := time.Now()
		if code := knock(t, outside); code != http.StatusServiceUnavailable || time.Since(start) != admissionWait {
			t.Errorf("an event without room: %d after %s, want 503 after %s", code, time.Since(start), admissionWait)
		}
		if got := testutil.ToFloat64(g.refused); got != 1 {
			t.Errorf("%v refused, want 1", got)
		}
		if code := knock(t, g); code != http.StatusAccepted {
			t.Errorf("a reply, without room: %d, want 202 nevertheless", code)
		}
		time.AfterFunc(time.Second, func() { close(free) })
		if code := knock(t, outside); code != http.StatusAccepted {
			t.Errorf("an event while room is made: %d, want 202", code)
		}
		synctest.Wait()
		if g.count() != 0 {
			t.Errorf("%d events under way at the end, want none", g.count())
		}
	})
}

func TestDrainWaitsButNotForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := time.Second
		g, outside := newTestGate(func(http.ResponseWriter, *http.Request) { time.Sleep(work) })
		for _, row := range []struct{ work, want time.Duration }{{time.Second, time.Second}, {time.Hour, 6 * time.Second}} {
			work = row.work
			g.open(context.Background())
			knock(t, g)
			start := time.Now()
			g.drain(6 * time.Second)
			if took := time.Since(start); took != row.want {
				t.Errorf("draining work of %s took %s, want %s", row.work, took, row.want)
			}
			if code := knock(t, outside); code != http.StatusServiceUnavailable {
				t.Errorf("an event after the end: %d, want 503", code)
			}
		}
		time.Sleep(time.Hour)
	})
}

func TestLossIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, outside := newTestGate(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
		knock(t, outside)
		synctest.Wait()
		if got := testutil.ToFloat64(g.events.WithLabelValues("lost")); got != 1 {
			t.Errorf("%v lost, want 1", got)
		}
	})
}
