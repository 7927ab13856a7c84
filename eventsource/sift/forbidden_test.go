package sift

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/test/kit/build"
)

// TestNamespaceWithoutRightsDelaysNoOther: DRYDOCK_NAMESPACES has two namespaces, with RoleBindings in each
// (config/overlays/namespace). The tenant of one deletes the namespace, or the RoleBinding in it, so its lists are forbidden.
func TestNamespaceWithoutRightsDelaysNoOther(t *testing.T) {
	lists := build.EmptyLists()
	lists["statefulsets"] = []metav1.Object{build.Set("web", build.Template("data", "64Mi", "fixed"),
		build.Status(build.Operation(api.Reverting, build.Due(-time.Hour))))}
	for _, order := range [][]string{{build.Namespace, "tenant"}, {"tenant", build.Namespace}} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/namespaces/tenant/") {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusForbidden)
				_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`))
				return
			}
			lists.ServeHTTP(w, r)
		}))
		defer server.Close()
		to := &sentEvents{}
		tick := event.New()
		tick.SetType(events.Tick)
		_, err := New(kube.NewClient(&rest.Config{Host: server.URL}), api.Settings{Namespaces: order}, to,
			slog.New(slog.DiscardHandler)).Handle(t.Context(), tick)
		if len(to.events) != 1 || err != nil {
			t.Errorf("namespaces %v: the sweep sent %v for namespace %s, want 1 event; error: %.160v", order, to.events, build.Namespace, err)
		}
		_, err = New(kube.NewClient(&rest.Config{Host: server.URL}), api.Settings{Namespaces: []string{"tenant"}}, to,
			slog.New(slog.DiscardHandler)).Handle(t.Context(), tick)
		if err == nil {
			t.Error("no namespace could be read, and there is no error")
		}
	}
}
