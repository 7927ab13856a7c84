package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/telemetry/export"
	"drydock.dev/test/kit/build"
)

// TestGatewayThatShutsDownAnswers: a request that waits gets 503, which a proxy repeats at another replica.
func TestGatewayThatShutsDownAnswers(t *testing.T) {
	set := build.Set("web", build.IdleTimeout("30m"), build.Annotation(api.AwakeUntilAnnotation, idle.FormatTime(time.Now().Add(5*time.Hour))))
	set.Status.ReadyReplicas = 0
	asked := make(chan bool, 100)
	apiServer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(set)
		asked <- true
	}))
	t.Cleanup(apiServer.Close)
	measure, err := export.Setup("drydock-standalone", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(measure.Shutdown)
	for range 10 {
		var log bytes.Buffer
		stop, err := listenGateway(options{Gateway: "127.0.0.1:0"}, &rest.Config{Host: apiServer.URL}, measure,
			slog.New(slog.NewJSONHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		var line struct{ URL string }
		first, _, _ := bytes.Cut(log.Bytes(), []byte("\n"))
		if err := json.Unmarshal(first, &line); err != nil {
			t.Fatal(err)
		}
		answer := make(chan string, 1)
		go func() {
			response, err := http.Get(line.URL + "/api/strategies/blocking?names=shop/web&timeout=1m")
			if err != nil {
				answer <- err.Error()
				return
			}
			defer response.Body.Close()
			answer <- response.Status
		}()
		<-asked
		stop()
		if got := <-answer; got != "503 Service Unavailable" {
			t.Error(got)
		}
	}
}
