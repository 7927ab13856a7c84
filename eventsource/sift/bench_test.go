package sift

import (
	"context"
	"encoding/json"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/fault"
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

// TestHostileEventsTakeLittleMemory: any client in the cluster network may send events. The bounds are far below the limit of sift's
// container, 128 MiB.
func TestHostileEventsTakeLittleMemory(t *testing.T) {
	repeated := func(element string, size int) string {
		return "[" + strings.TrimSuffix(strings.Repeat(element+",", size/(len(element)+1)), ",") + "]"
	}
	record := func(inner string) string {
		text, _ := json.Marshal(`{"version":2,"operation":"0123456789ab","kind":"Resize","phase":"Expanding","replaceSet":true,` +
			`"set":{"name":"web"},` + inner + `}`)
		return `{"metadata":{"name":"web","namespace":"shop","annotations":{"` + api.StatusAnnotation + `":` + string(text) + `}}}`
	}
	containers := func(list string) string {
		return `{"metadata":{"name":"web","namespace":"shop"},"spec":{"template":{"spec":{"containers":` + list + `}}}}`
	}
	const size = 250 << 10
	moves := repeated(`{"claim":"a123456789012345678901234567890123456789"}`, size)
	for name, row := range map[string]struct {
		body  string
		count int
	}{
		"containers of null, 1 MiB":      {containers(repeated("null", 1020<<10)), 1},
		"containers of null":             {containers(repeated("null", size)), 1},
		"small containers":               {containers(repeated(`{"name":"A12345678901234"}`, size)), 1},
		"a record with moves of null":    {record(`"members":[{"phase":"Pending","claims":` + repeated("null", size) + `}]`), 20},
		"a record with empty moves":      {record(`"members":[{"phase":"Pending","claims":` + repeated("{}", size) + `}]`), 20},
		"a record with numbers as moves": {record(`"members":[{"phase":"Pending","claims":` + repeated("1", size) + `}]`), 20},
		"a record with small moves":      {record(`"members":[{"phase":"Pending","claims":` + moves + `}]`), 20},
		"a record of another set": {strings.Replace(record(`"members":[{"phase":"Pending","claims":`+moves+`}]`), `\"web\"`, `\"db\"`, 1),
			20},
		"an ordinary object of the length": {`{"metadata":{"name":"web","annotations":{"x":"` + strings.Repeat("y", size) + `"}}}`, 20},
	} {
		t.Run(name, func(t *testing.T) {
			f := New(nil, api.Settings{}, nil, slog.New(slog.DiscardHandler))
			e := rolloutEvent(t)
			if err := e.SetData(event.ApplicationJSON, json.RawMessage(row.body)); err != nil {
				t.Fatal(err)
			}
			runtime.GC()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			var all sync.WaitGroup
			for range row.count {
				all.Go(func() { _, _ = f.Handle(context.Background(), e) })
			}
			all.Wait()
			runtime.ReadMemStats(&after)
			each := int(after.TotalAlloc-before.TotalAlloc) / row.count
			t.Logf("%d bytes of JSON, %d allocated for an event", len(row.body), each)
			if each > 40*size {
				t.Errorf("an event of %d bytes allocated %d", len(row.body), each)
			}
		})
	}
}

// TestEventsWaitForRoom: the objects that are decoded at the same time have a limit. A longer object is refused unread.
func TestEventsWaitForRoom(t *testing.T) {
	f := New(nil, api.Settings{}, nil, slog.New(slog.DiscardHandler))
	if !f.inFlight.TryAcquire(maxInFlight) {
		t.Fatal("nothing is read, and there is no room")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Handle(ctx, rolloutEvent(t)); err == nil || fault.IsPermanent(err) {
		t.Errorf("without room: error %v, want one that is tried again", err)
	}
	f.inFlight.Release(maxInFlight)
	if _, err := f.Handle(t.Context(), rolloutEvent(t)); err != nil {
		t.Errorf("with room: %v", err)
	}
	long := rolloutEvent(t)
	if err := long.SetData(event.ApplicationJSON, json.RawMessage(`"`+strings.Repeat("x", maxObject)+`"`)); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Handle(t.Context(), long); !fault.IsPermanent(err) || !strings.Contains(err.Error(), "at most 524288 are read") {
		t.Errorf("a long object: error %v", err)
	}
	if !f.inFlight.TryAcquire(maxInFlight) {
		t.Error("the events are read, and their room is not free")
	}
}
