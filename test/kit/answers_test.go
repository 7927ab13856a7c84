package kit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"drydock.dev"
	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/telemetry"
)

// errorsOf collects what would fail a test.
type errorsOf struct {
	testing.TB
	text []string
}

func (e *errorsOf) Errorf(format string, args ...any) {
	e.text = append(e.text, fmt.Sprintf(format, args...))
}

// TestRefusedRequestsFailTheTest: a refused request or a failed function fails a test, unless the test declares it. A declared refusal
// that does not come fails the test, too.
func TestRefusedRequestsFailTheTest(t *testing.T) {
	const invalid = `{"kind":"Status","apiVersion":"v1","reason":"Invalid","message":"too long","details":{"kind":"Pod"}}`
	refuse := func(status int, method, path, body string) func(*World) {
		return func(w *World) {
			transport := w.answers.wrap(roundTripper(func(r *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
			}))
			r := httptest.NewRequest(method, path, nil)
			r.Header.Set("Impersonate-User", "system:serviceaccount:drydock:restore")
			response, err := transport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			if left, _ := io.ReadAll(response.Body); string(left) != body {
				t.Errorf("the function reads %q, want %q", left, body)
			}
		}
	}
	expect := func(w *World) { w.Expect(http.StatusUnprocessableEntity, api.Restore, "a reason") }
	allow := func(w *World) { w.Allow(http.StatusForbidden, api.Restore, "a reason") }
	fail := func(w *World) { w.answers.failed(t.Context(), api.Restore, event.New(), errors.New("an error")) }
	storm := func(w *World) {
		for range mostConflicts + 1 {
			refuse(http.StatusConflict, http.MethodPatch, "/pods/a", "")(w)
		}
	}
	for name, row := range map[string]struct {
		acts []func(*World)
		want string
	}{
		"an invalid object": {[]func(*World){refuse(422, http.MethodPatch, "/pods/a", invalid)}, "with 422: too long"},
		"a storm of conflicts is declared": {[]func(*World){func(w *World) {
			w.Expect(http.StatusConflict, api.Restore, "a reason")
		}, storm, fail}, ""},
		"a declared conflict never comes":   {[]func(*World){func(w *World) { w.Expect(http.StatusConflict, api.Restore, "a reason") }}, ""},
		"an invalid object is declared":     {[]func(*World){expect, refuse(422, http.MethodPatch, "/pods/a", invalid)}, ""},
		"a declared refusal does not come":  {[]func(*World){expect}, "never answered 422 to restore"},
		"an allowed refusal comes":          {[]func(*World){allow, refuse(403, http.MethodDelete, "/pods/a", "")}, ""},
		"an allowed refusal does not come":  {[]func(*World){allow}, ""},
		"another refusal than allowed":      {[]func(*World){allow, refuse(422, http.MethodPatch, "/pods/a", invalid)}, "with 422"},
		"another status than declared":      {[]func(*World){expect, refuse(403, http.MethodPatch, "/pods/a", invalid)}, "with 403"},
		"a read without rights":             {[]func(*World){refuse(403, http.MethodGet, "/pods/a", "")}, "with 403"},
		"an error of the API server":        {[]func(*World){refuse(500, http.MethodGet, "/pods/a", "")}, "with 500"},
		"an absent object":                  {[]func(*World){refuse(404, http.MethodGet, "/pods/a", "")}, ""},
		"a dry run is refused":              {[]func(*World){refuse(422, http.MethodPost, "/pods?dryRun=All", invalid)}, ""},
		"an error of a dry run":             {[]func(*World){refuse(500, http.MethodPost, "/pods?dryRun=All", "")}, "with 500"},
		"an object has changed":             {[]func(*World){refuse(409, http.MethodPatch, "/pods/a", "")}, ""},
		"an object changes again and again": {[]func(*World){storm}, "41 conflicts"},
		"a function fails":                  {[]func(*World){fail}, "restore fails on"},
		"a refusal lets a function fail":    {[]func(*World){expect, refuse(422, http.MethodPatch, "/pods/a", invalid), fail}, ""},
	} {
		w, got := &World{answers: &answers{}}, &errorsOf{}
		for _, act := range row.acts {
			act(w)
		}
		w.answers.judge(got)
		text := strings.Join(got.text, "; ")
		if row.want == "" && text != "" || !strings.Contains(text, row.want) {
			t.Errorf("%s: got %q, want %q", name, text, row.want)
		}
	}
}

// TestEndedTestFailsNoFunction: a function that is interrupted by the end of its test has not failed.
func TestEndedTestFailsNoFunction(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	a, got := &answers{}, &errorsOf{}
	a.failed(ended, api.Restore, event.New(), ended.Err())
	a.judge(got)
	if len(got.text) > 0 {
		t.Error(got.text)
	}
	a.failed(t.Context(), api.Restore, event.New(), errors.New("an error"))
	if a.judge(got); len(got.text) != 1 {
		t.Errorf("the failure of a running test is not reported: %q", got.text)
	}
}

// handlerFunc is a handler that passes each event to the func and never fails.
type handlerFunc func(event.Event)

func (f handlerFunc) Handle(_ context.Context, e event.Event) (*event.Event, error) {
	f(e)
	return nil, nil
}

// TestDriveDeliversToSubscribers: Drive delivers an event to the functions whose Triggers in deploy/ select it, and to no others. So
// test/api and test/sim call the same functions as a cluster.
func TestDriveDeliversToSubscribers(t *testing.T) {
	web := events.Ref{Namespace: "n", Name: "web", UID: "u", Operation: "o"}
	step := func(eventType, purpose string) event.Event {
		ref := web
		ref.Purpose = purpose
		return events.NewStep("kit", eventType, ref)
	}
	for name, row := range map[string]struct {
		event event.Event
		want  []api.Function
	}{
		"restore has changed a replica":  {step(events.MemberChanged, ""), []api.Function{api.Backup}},
		"the owner consents to a sleep":  {step(events.OwnerPaused, "sleep"), []api.Function{api.ScaleFunction}},
		"the owner consents to a resize": {step(events.OwnerPaused, "resize"), []api.Function{api.Backup}},
		"a change of two concerns":       {events.NewChanged(web, "s", api.Restore, api.CleanupPod), []api.Function{api.CleanupPod, api.Restore}},
		"no function handles a cleanup":  {step(events.CleanupCompleted, ""), nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []api.Function
			d := &Drive{Retries: 1, functions: map[api.Function]function.Handler{}, Telemetry: telemetry.Off()}
			for _, text := range function.Names() {
				d.functions[api.Function(text)] = handlerFunc(func(event.Event) { got = append(got, api.Function(text)) })
			}
			if err := d.Send(t.Context(), row.event); err != nil {
				t.Fatal(err)
			}
			if err := d.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, row.want) {
				t.Errorf("got %v, want %v", got, row.want)
			}
		})
	}
}

// TestNodeReportsInitContainers: an init container has ended before the pod is ready, and a sidecar runs with it. After the end of the pod,
// the node has reported the end of each container.
func TestNodeReportsInitContainers(t *testing.T) {
	always := ptr.To(corev1.ContainerRestartPolicyAlways)
	pod := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: []corev1.Container{{Name: "prepare"}, {Name: "log", RestartPolicy: always}},
		Containers: []corev1.Container{{Name: "db"}}}}
	states := func(s corev1.PodStatus) (all []string) {
		for _, c := range append(s.InitContainerStatuses, s.ContainerStatuses...) {
			all = append(all, fmt.Sprintf("%s running %t, ended %t", c.Name, c.State.Running != nil, c.State.Terminated != nil))
		}
		return all
	}
	pod.Status = startedStatus(pod)
	if diff := cmp.Diff([]string{"prepare running false, ended true", "log running true, ended false", "db running true, ended false"},
		states(pod.Status)); diff != "" {
		t.Errorf("started: %s", diff)
	}
	if diff := cmp.Diff([]string{"prepare running false, ended true", "log running false, ended true", "db running false, ended true"},
		states(stoppedStatus(pod))); diff != "" {
		t.Errorf("ended: %s", diff)
	}
}
