package prom

import (
	"strings"
	"testing"

	"drydock.dev/shared/api"
)

// TestPasswordOfPrometheusIsNotInErrors: the error is logged (functions/idletimeout/prober.go, logAndHide).
func TestPasswordOfPrometheusIsNotInErrors(t *testing.T) {
	server := New(api.Settings{Prometheus: "https://drydock:hunter2%@prometheus.monitoring:9090"})
	_, _, err := server.Query(t.Context(), "shop", "up", 1, 100)
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%v", err)
	}
}
