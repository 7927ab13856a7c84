package sift

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/serve"
	"drydock.dev/test/kit/build"
)

// TestForgedLinkFailsNoSweep: a tenant may create a ControllerRevision with any link in its own namespace. A sweep must not fail
// because of it: the Broker would repeat the tick, and sweep the cluster again and again.
func TestForgedLinkFailsNoSweep(t *testing.T) {
	broker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	t.Cleanup(broker.Close)
	for name, link := range map[string]api.Link{
		"a line break in the name": {Operation: build.ID, Role: api.RoleSleep, Namespace: "evil", Set: api.SetRef{Name: "a\nb", UID: "uid"}},
		"a control character in the UID": {Operation: build.ID, Role: api.RoleSleep, Namespace: "evil",
			Set: api.SetRef{Name: "web", UID: "\x01"}},
		"a name in another script": {Operation: build.ID, Role: api.RoleSleep, Namespace: "evil", Set: api.SetRef{Name: "ж", UID: "uid"}},
		"a long name": {Operation: build.ID, Role: api.RoleSleep, Namespace: "evil",
			Set: api.SetRef{Name: strings.Repeat("x", 200_000), UID: "uid"}},
		"no UID": {Operation: build.ID, Role: api.RoleSleep, Namespace: "evil", Set: api.SetRef{Name: "web"}},
	} {
		revision := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{
			Namespace: "evil", Name: api.SleepRecordName(build.ID), UID: "u", ResourceVersion: "1",
			Labels: map[string]string{api.OperationLabel: build.ID}, Annotations: map[string]string{api.OperationAnnotation: link.Encode()}}}
		lists := build.EmptyLists()
		lists["controllerrevisions"] = []metav1.Object{revision}
		lists["statefulsets"] = []metav1.Object{build.Set("web", build.Template("data", "64Mi", "fixed"),
			build.Status(build.Operation(api.Reverting, build.Due(-time.Hour))))}
		tick := event.New()
		tick.SetType(events.Tick)
		_, err := New(kube.NewClient(lists.Serve(t)), api.Settings{}, serve.NewSender(broker.URL, nil), slog.New(slog.DiscardHandler)).
			Handle(t.Context(), tick)
		if err != nil {
			t.Errorf("%s: %.200v", name, err)
		}
	}
}
