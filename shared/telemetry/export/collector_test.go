package export

import (
	"bytes"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
)

func TestEndpointIsUsedAsItIsWritten(t *testing.T) {
	for name, row := range map[string]struct{ user, path, headers, uri, authorization string }{
		"only a host":        {uri: "/"},
		"a path":             {path: "/a//b/", uri: "/a//b/"},
		"a query":            {path: "/in?tenant=x", uri: "/in?tenant=x"},
		"a user":             {user: "u:p@", path: "/in", uri: "/in", authorization: "Basic dTpw"},
		"a user and headers": {user: "u:p@", path: "/in", headers: "Authorization=Bearer%20x", uri: "/in", authorization: "Bearer x"},
	} {
		t.Run(name, func(t *testing.T) {
			var uri, authorization string
			server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				uri, authorization = r.URL.RequestURI(), r.Header.Get("Authorization")
			}))
			defer server.Close()
			environment(t, map[string]string{
				"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": strings.Replace(server.URL, "http://", "http://"+row.user, 1) + row.path,
				"OTEL_EXPORTER_OTLP_HEADERS":         row.headers,
			})
			if err := post(t); err != nil || uri != row.uri || authorization != row.authorization {
				t.Errorf("posted to %q with %q: %v", uri, authorization, err)
			}
		})
	}
}

func TestRedirectIsNotFollowed(t *testing.T) {
	for _, code := range []int{http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		elsewhere := newSink(t)
		posts := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			posts++
			http.Redirect(w, r, elsewhere.URL+"/in", code)
		}))
		environment(t, map[string]string{
			"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": strings.Replace(server.URL, "http://", "http://u:secret@", 1),
		})
		err := post(t)
		server.Close() // waits for the handler
		if err == nil || !strings.Contains(err.Error(), http.StatusText(code)) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%d: error %v, want the status without the password", code, err)
		}
		if posts != 1 || len(elsewhere.at("/in")) > 0 {
			t.Errorf("%d: %d posts to the collector, %d to the address of the redirect", code, posts, len(elsewhere.at("/in")))
		}
	}
}

func TestEndpointErrorHasNoPassword(t *testing.T) {
	for _, endpoint := range []string{"http://u:secret%zz@c:4318", "http://u:secret#x@c:4318", "ftp://u:secret@c", "u:secret@c:4318",
		"http://u:se@secret@", "http://u:secret@c:port"} {
		environment(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint})
		if _, err := traces.collector(); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("endpoint %s: %v", endpoint, err)
		}
	}
}

func TestCollectorThatStartsLateGetsSpans(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close() // from here, the address refuses connections
	posted := make(chan string, 1)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		posted <- r.URL.Path
	})}
	defer server.Close()
	refused := make(chan struct{})
	go func() {
		<-refused
		if late, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address); err == nil {
			server.Serve(late)
		}
	}()
	environment(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + address, "OTEL_EXPORTER_OTLP_TIMEOUT": "60000"})
	time.AfterFunc(firstPause/2, func() { close(refused) }) // the first try comes before
	if err := post(t); err != nil {
		t.Fatal(err)
	}
	if path := <-posted; path != "/v1/traces" {
		t.Error(path)
	}
}

func TestHostileAnswerIsLoggedAsOneShortLine(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		w.Write([]byte(strings.Repeat("x\x1b[31m\n", 10_000)))
	}))
	defer server.Close()
	environment(t, map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_METRICS_EXPORTER": "none",
		"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL})
	var log bytes.Buffer
	e, err := Setup("drydock-test", slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	err = post(t)
	if err == nil || len(err.Error()) < 10_000 {
		t.Fatalf("the exporter's error has no answer: %.100v", err)
	}
	otel.Handle(err)
	e.Shutdown()
	if text := log.String(); !strings.Contains(text, "telemetry was lost") || len(text) > 2*maxError ||
		strings.ContainsRune(text, '\x1b') || strings.Contains(text, `\x1b`) {
		t.Errorf("%d bytes: %.300q", len(text), text)
	}
}
