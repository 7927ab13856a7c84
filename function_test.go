package function

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/cloudevents/sdk-go/v2/protocol"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"drydock.dev/shared/api"
	"drydock.dev/shared/fault"
	"drydock.dev/shared/serve"
	"drydock.dev/shared/telemetry"
	"drydock.dev/shared/telemetry/export"
)

// TestReadinessAndEventsReportTheError: func's server cannot receive an error at the start.
func TestReadinessAndEventsReportTheError(t *testing.T) {
	for name, row := range map[string]struct {
		env  map[string]string
		want string
	}{
		"no name":            {nil, `function "" does not exist`},
		"an unknown name":    {map[string]string{"FUNCTION": "sieve"}, "Set FUNCTION to one of: backup, cleanup-pod, dead-letter"},
		"sift has no Broker": {map[string]string{"FUNCTION": "sift"}, "K_SINK"},
		"sift has no token": {map[string]string{"FUNCTION": "sift", "K_SINK": "http://broker", "DRYDOCK_SINK_TOKEN": "/nowhere"},
			"DRYDOCK_SINK_TOKEN"},
		"an invalid setting":        {map[string]string{"FUNCTION": "backup", "DRYDOCK_RETENTION": "long"}, "DRYDOCK_RETENTION"},
		"there is no API server":    {map[string]string{"FUNCTION": "backup"}, "set KUBECONFIG"},
		"the kubeconfig is missing": {map[string]string{"FUNCTION": "backup", "KUBECONFIG": "/nowhere"}, "/nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, key := range []string{"FUNCTION", "K_SINK", "KUBECONFIG", "KUBERNETES_SERVICE_HOST", "DRYDOCK_SINK_TOKEN"} {
				t.Setenv(key, row.env[key])
			}
			if value := row.env["DRYDOCK_RETENTION"]; value != "" {
				t.Setenv("DRYDOCK_RETENTION", value)
			}
			f := New()
			ready, err := f.Ready(t.Context())
			if ready || err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("ready %v, %v; want %q", ready, err, row.want)
			}
			if _, err := f.Handle(t.Context(), event.New()); err == nil {
				t.Error("it handled an event")
			}
		})
	}
}

var unmeasured = &export.Export{Telemetry: telemetry.Off()}

type failing struct{ err error }

func (f failing) Handle(context.Context, event.Event) (*event.Event, error) { return nil, f.err }

// TestFuncKeepsTheStatus: Handle does for func's server what package serve does for Drydock's server.
func TestFuncKeepsTheStatus(t *testing.T) {
	for want, err := range map[int]error{
		422: fault.Permanent(errors.New("x")), 409: fault.Conflict(errors.New("x")), 503: errors.New("x"),
	} {
		_, got := (&F{handler: failing{err}, measure: unmeasured}).Handle(t.Context(), event.New())
		var result *cehttp.Result
		if !protocol.ResultAs(got, &result) || result.StatusCode != want {
			t.Errorf("%v became %v, want %d", err, got, want)
		}
	}
	if _, err := (&F{handler: failing{}, measure: unmeasured}).Handle(t.Context(), event.New()); err != nil {
		t.Errorf("no error became %v", err)
	}
}

type waiting struct{}

func (waiting) Handle(ctx context.Context, _ event.Event) (*event.Event, error) {
	if end, ok := ctx.Deadline(); !ok || time.Until(end) > serve.DefaultDeadline {
		return nil, fault.Permanent(errors.New("there is no deadline"))
	}
	return nil, nil
}

// TestFuncSetsADeadline: func's server ends an answer after 30 s, without a signal to the function.
func TestFuncSetsADeadline(t *testing.T) {
	if _, err := (&F{handler: waiting{}, measure: unmeasured}).Handle(t.Context(), event.New()); err != nil {
		t.Error(err)
	}
}

func withImage() api.Settings {
	return api.Settings{Image: "registry.example/drydock:1", AllowTags: true}
}

// problemOf returns why the function cannot be made, or "".
func problemOf(t *testing.T, name string, settings api.Settings) string {
	t.Helper()
	handler, err := NewHandler(api.Function(name), nil, settings, nil, slog.New(slog.DiscardHandler))
	switch {
	case err != nil:
		return err.Error()
	case handler == nil:
		t.Errorf("%s is nil", name)
	}
	return ""
}

// TestOnlyBackupNeedsAnImage: only backup starts movers. The error says which variable to set.
func TestOnlyBackupNeedsAnImage(t *testing.T) {
	for _, image := range []string{"", "drydock:latest", "registry.example/drydock:1"} {
		var refusing []string
		for _, name := range Names() {
			if problem := problemOf(t, name, api.Settings{Image: image}); strings.Contains(problem, "Set DRYDOCK_IMAGE") {
				refusing = append(refusing, name)
			} else if problem != "" {
				t.Errorf("image %q: %s: %q", image, name, problem)
			}
		}
		if !slices.Equal(refusing, []string{string(api.Backup)}) {
			t.Errorf("image %q is refused by %q", image, refusing)
		}
	}
	for _, name := range Names() {
		if problem := problemOf(t, name, withImage()); problem != "" {
			t.Errorf("%s: %s", name, problem)
		}
	}
}

// TestSiftSendsItsToken: a Broker that authenticates senders gets the token in the file.
func TestSiftSendsItsToken(t *testing.T) {
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer who-i-am" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer sink.Close()
	e := event.New()
	e.SetID("7")
	e.SetType("dev.drydock.object.changed")
	e.SetSource("drydock.dev/sift")
	file := filepath.Join(t.TempDir(), "token")
	env := Environment{Sink: sink.URL, SinkToken: file}
	if _, err := env.sender(); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("without the file: got %v, want its name", err)
	}
	if err := os.WriteFile(file, []byte("who-i-am\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	send, err := env.sender()
	if err != nil {
		t.Fatal(err)
	}
	if err := send.Send(t.Context(), e); err != nil {
		t.Error(err)
	}
	err = serve.NewSender(sink.URL, nil).Send(t.Context(), e)
	if err == nil || !strings.Contains(err.Error(), "401") || strings.Contains(err.Error(), "who-i-am") {
		t.Errorf("without the token: got %v, want 401", err)
	}
}

// TestInvalidOperatorsStopOnlyFunctionsThatNeedThem: an operation that has begun can still end.
func TestInvalidOperatorsStopOnlyFunctionsThatNeedThem(t *testing.T) {
	settings := withImage()
	settings.Owners = "- operator: mine"
	var stopped []string
	for _, name := range Names() {
		if problem := problemOf(t, name, settings); strings.Contains(problem, "DRYDOCK_OWNERS") && strings.Contains(problem, "mine") {
			stopped = append(stopped, name)
		} else if problem != "" {
			t.Errorf("%s: %q", name, problem)
		}
	}
	slices.Sort(stopped)
	if want := []string{string(api.DetectResize), string(api.PauseOwner)}; !slices.Equal(stopped, want) {
		t.Errorf("%q do not start, want %q", stopped, want)
	}
}
