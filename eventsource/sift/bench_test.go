package sift

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
)

// BenchmarkSift measures how long sift takes to drop a status update of an opted-in set. A rollout causes many such events.
func BenchmarkSift(b *testing.B) {
	f, e := New(nil, api.Settings{}, nil, slog.New(slog.DiscardHandler)), rolloutEvent(b)
	b.SetBytes(int64(len(e.Data())))
	b.ReportAllocs()
	for b.Loop() {
		if answer, err := f.Handle(context.Background(), e); err != nil || answer != nil {
			b.Fatal(answer, err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// rolloutEvent returns a status update during a rollout. Its data is the whole object, as ApiServerSource sends it.
func rolloutEvent(t testing.TB) event.Event {
	set := &appsv1.StatefulSet{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: "web", UID: "u", ResourceVersion: "7", Generation: 3,
			Labels:      map[string]string{api.ManagedLabel: "true"},
			Annotations: map[string]string{api.ResizeAnnotation: api.AutoRequest}},
		Status: appsv1.StatefulSetStatus{ObservedGeneration: 3, Replicas: 3, ReadyReplicas: 2, UpdatedReplicas: 1},
	}
	for range 40 { // managed fields make up most of a real object
		set.ManagedFields = append(set.ManagedFields, metav1.ManagedFieldsEntry{Manager: "kube-controller-manager",
			FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:status":{"f:replicas":{},"f:readyReplicas":{},` +
				`"f:updatedReplicas":{},"f:currentReplicas":{}}}`)}})
	}
	body, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	e := event.New()
	e.SetID("1")
	e.SetSource("https://10.96.0.1:443")
	e.SetType(events.SourceUpdate)
	e.SetExtension("kind", "StatefulSet")
	if err := e.SetData(event.ApplicationJSON, json.RawMessage(body)); err != nil {
		t.Fatal(err)
	}
	return e
}
