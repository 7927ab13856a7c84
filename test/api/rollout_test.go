//go:build cluster

package api

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	apiserver "knative.dev/eventing/pkg/adapter/apiserver/events"

	"drydock.dev/eventsource/sift"
	"drydock.dev/shared/api"
	"drydock.dev/shared/kube"
	"drydock.dev/test/kit"
)

// TestRolloutCostsOneInvocationPerEventAndNoCall: only sift gets the status updates of a rollout, and it does not ask
// the API server.
// Invariants: I7.
func TestRolloutCostsOneInvocationPerEventAndNoCall(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	set := kit.WorldSet("web", 2, "64Mi", "data")
	set.Annotations[api.ResizeAnnotation] = api.AutoRequest
	w.CreateSet(set)
	updates := rollOut(t, w)

	calls := 0
	config := rest.CopyConfig(w.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return counter{&calls, next}
	})
	function := sift.New(kube.NewClient(config), api.Settings{}, nil, slog.New(slog.DiscardHandler))
	woken := 0
	for _, object := range updates {
		ctx, e, err := apiserver.MakeUpdateEvent("https://127.0.0.1", "source", object, false)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := function.Handle(ctx, e)
		if err != nil {
			t.Fatal(err)
		}
		if answer != nil {
			woken++
		}
	}
	t.Logf("a rollout of 2 replicas and a label: %d updates, as many invocations of sift, %d other functions woken, %d API calls",
		len(updates), woken, calls)
	if len(updates) < 4 || woken != 0 || calls != 0 {
		t.Errorf("%d updates woke %d functions and cost %d API calls", len(updates), woken, calls)
	}
}

// rollOut changes the pod template and an irrelevant label. It returns every update of the set until the rollout is
// complete.
func rollOut(t *testing.T, w *kit.World) []*unstructured.Unstructured {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	before := w.Set("web")
	watcher, err := w.Kube.AppsV1().StatefulSets(w.Namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: before.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	w.PatchSet("web", `{"metadata":{"labels":{"irrelevant":"yes"}},"spec":{"template":{"metadata":{"labels":{"version":"2"}}}}}`)
	var updates []*unstructured.Unstructured
	for change := range watcher.ResultChan() {
		set, ok := change.Object.(*appsv1.StatefulSet)
		if !ok {
			t.Fatalf("watching: %v", change)
		}
		set.TypeMeta = metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"}
		text, err := json.Marshal(set)
		if err != nil {
			t.Fatal(err)
		}
		object := &unstructured.Unstructured{}
		if err := json.Unmarshal(text, object); err != nil {
			t.Fatal(err)
		}
		updates = append(updates, object)
		if set.Generation > before.Generation && set.Status.ObservedGeneration == set.Generation && set.Status.UpdatedReplicas == 2 &&
			set.Status.ReadyReplicas == 2 && set.Status.CurrentRevision == set.Status.UpdateRevision {
			return updates
		}
	}
	t.Fatal("the watch ended")
	return nil
}

// counter counts requests.
type counter struct {
	calls *int
	next  http.RoundTripper
}

func (c counter) RoundTrip(r *http.Request) (*http.Response, error) {
	*c.calls++
	return c.next.RoundTrip(r)
}
