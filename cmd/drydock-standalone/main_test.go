package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"drydock.dev/eventsource/engine"
	"drydock.dev/eventsource/statuspage"
	"drydock.dev/shared/api"
	"drydock.dev/shared/telemetry/export"
)

// TestHelpIsOneTable: --help shows settings and flags in one table, with their defaults.
func TestHelpIsOneTable(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"-h"}, &stdout, &stderr); code != exitOK || stderr.Len() > 0 {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	var o options
	for _, want := range []string{"DRYDOCK_RETENTION", "KUBECONFIG", "127.0.0.1:9091"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("the table lacks %s:\n%s", want, stdout.String())
		}
	}
	o.flags().VisitAll(func(f *flag.Flag) {
		if !strings.Contains(stdout.String(), "--"+f.Name+" ") {
			t.Errorf("the table lacks --%s", f.Name)
		}
	})
}

// TestOptions: a flag has precedence over its environment variable. Invalid flags and settings are errors.
func TestOptions(t *testing.T) {
	t.Setenv("DRYDOCK_TICK", "7s")
	t.Setenv("DRYDOCK_IN_FLIGHT", "3")
	o, err := readOptions([]string{"--tick", "9s", "--namespace", "a,b", "--no-source"}, &bytes.Buffer{}, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	if o.Tick != 9*time.Second || o.InFlight != 3 || len(o.Namespaces) != 2 ||
		!o.NoSource || !o.LeaderElect || o.Listen != "127.0.0.1:9090" {
		t.Errorf("%+v", o)
	}
	for _, args := range [][]string{{"--no-such"}, {"extra"}, {"--tick", "soon"}} {
		if _, err := readOptions(args, &bytes.Buffer{}, &bytes.Buffer{}); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
	t.Setenv("DRYDOCK_TICK", "soon")
	if _, err := readOptions(nil, &bytes.Buffer{}, &bytes.Buffer{}); err == nil {
		t.Error("an invalid setting is not an error")
	}
}

// TestEveryTriggerHasItsFunction: assemble finds a function for every Trigger that Drydock ships.
func TestEveryTriggerHasItsFunction(t *testing.T) {
	measure, err := export.Setup("test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	o := options{Settings: api.Settings{Image: "registry.example/drydock:1", AllowTags: true}}
	_, err = assemble(o, &rest.Config{}, engine.NewStream(nil), measure, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Error(err)
	}
}

// TestGatewayAcceptsURLWithTrailingSlash: a user may write the gateway's URL with a slash at its end into the configuration of a proxy.
// The paths of requests then begin with two slashes.
func TestGatewayAcceptsURLWithTrailingSlash(t *testing.T) {
	measure, err := export.Setup("drydock-standalone", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(measure.Shutdown)
	var log bytes.Buffer
	stop, err := listenGateway(options{Gateway: "127.0.0.1:0"}, &rest.Config{}, measure, slog.New(slog.NewJSONHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	var line struct{ URL string }
	if err := json.Unmarshal(log.Bytes(), &line); err != nil || line.URL == "" {
		t.Fatalf("%s: %v", &log, err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, line.URL+"//api/themes", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultTransport.RoundTrip(request) // RoundTrip follows no redirect
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() // read only
	if response.StatusCode != http.StatusOK {
		t.Error(response.Status)
	}
}

// TestStatusPageIsServedWithItsToken: without a configured token it only says how to create one.
func TestStatusPageIsServedWithItsToken(t *testing.T) {
	for name, row := range map[string]struct {
		access statuspage.Access
		code   int
	}{
		"no token": {statuspage.Access{}, http.StatusForbidden},
		"a token":  {statuspage.Access{Token: "right"}, http.StatusOK},
	} {
		var log bytes.Buffer
		o := options{StatusPage: "127.0.0.1:0", Access: row.access}
		stop, err := listenStatusPage(o, &rest.Config{}, slog.New(slog.NewJSONHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		var line struct{ URL string }
		if err := json.Unmarshal(log.Bytes(), &line); err != nil || line.URL == "" {
			t.Fatalf("%s: %v", &log, err)
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, line.URL+"/page.css", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.SetBasicAuth("any", "right")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != row.code {
			t.Errorf("%s: %s, want %d", name, response.Status, row.code)
		}
	}
	if stop, err := listenStatusPage(options{StatusPage: switchedOff}, nil, nil); err != nil {
		t.Error(err)
	} else {
		stop()
	}
}
