package sift

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/test/kit/build"
)

// TestDeepScalerStopsNoSweep: a tenant stores a Scaler whose template is nested as deeply as the API server accepts (10,000 levels
// in one document). In a list it is two levels deeper, which no JSON decoder of Go accepts. The sweep must still find the other work.
func TestDeepScalerStopsNoSweep(t *testing.T) {
	deep := func(levels int) *v1alpha1.Scaler {
		text := strings.Repeat(`{"a":`, levels) + "1" + strings.Repeat("}", levels)
		return &v1alpha1.Scaler{ObjectMeta: metav1.ObjectMeta{Namespace: "evil", Name: "deep"}, Spec: v1alpha1.ScalerSpec{Target: "x",
			Hooks: v1alpha1.ScalerHooks{Pre: &v1alpha1.Hook{Job: &v1alpha1.HookJob{Template: runtime.RawExtension{Raw: []byte(text)}}}}}}
	}
	scaler := deep(9994)
	alone, err := json.Marshal(scaler)
	if err != nil || json.Unmarshal(alone, &v1alpha1.Scaler{}) != nil {
		t.Fatalf("the API server would not accept it alone: %v", err)
	}
	lists := build.EmptyLists()
	lists["scalers"] = []metav1.Object{scaler}
	lists["statefulsets"] = []metav1.Object{build.Set("web", build.Template("data", "64Mi", "fixed"),
		build.Status(build.Operation(api.Reverting, build.Due(-time.Hour))))}
	to, tick := &sentEvents{}, event.New()
	tick.SetType(events.Tick)
	_, err = New(kube.NewClient(lists.Serve(t)), api.Settings{}, to, slog.New(slog.DiscardHandler)).Handle(t.Context(), tick)
	if err != nil || len(to.events) == 0 {
		t.Errorf("one Scaler of one tenant stops the sweep of the whole cluster: %d events, %.300v", len(to.events), err)
	}
}
