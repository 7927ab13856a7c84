package kube

import (
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
	"go.opentelemetry.io/otel/metric/noop"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"drydock.dev/shared/api"
	"drydock.dev/shared/telemetry"
	"drydock.dev/shared/world"
)

const (
	ofStatus  = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	ofJournal = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// record returns a record with the trace.
func record(phase api.Phase, trace string) *api.Resize {
	return &api.Resize{
		Header: api.Header{Version: api.RecordVersion, Operation: "0123456789ab", Kind: api.KindResize, Phase: phase,
			Set: api.SetRef{Name: "web", UID: "u"}, Trace: "00-" + trace + "-1111111111111111-01"},
	}
}

func setOf(status *api.Resize) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "u"}}
	if status != nil {
		set.Annotations = map[string]string{api.StatusAnnotation: status.Encode()}
	}
	return set
}

// TestEventJoinsTheTraceOfItsOperation: the objects, or the event itself, name the operation.
func TestEventJoinsTheTraceOfItsOperation(t *testing.T) {
	journal := &appsv1.ControllerRevision{Data: runtime.RawExtension{
		Raw: api.Journal{Version: api.RecordVersion, Record: *record(api.Planned, ofJournal)}.Encode()}}
	copied := record(api.Moving, ofStatus)
	copied.Set.UID = "uid-other"
	garbage := setOf(nil)
	garbage.Annotations = map[string]string{api.StatusAnnotation: "{"}
	for name, row := range map[string]struct {
		set      *appsv1.StatefulSet
		journals []*appsv1.ControllerRevision
		named    string // the operation that the event names
		want     string
	}{
		"no operation":                               {setOf(nil), nil, "", ""},
		"an active operation":                        {setOf(record(api.Moving, ofStatus)), nil, "", ofStatus},
		"a reverting operation":                      {setOf(record(api.Reverting, ofStatus)), nil, "", ofStatus},
		"a finished operation":                       {setOf(record(api.Succeeded, ofStatus)), nil, "", ""},
		"a finished operation that the event names":  {setOf(record(api.Succeeded, ofStatus)), nil, "0123456789ab", ofStatus},
		"the event names another operation":          {setOf(record(api.Succeeded, ofStatus)), nil, "ba9876543210", ""},
		"a record copied with a manifest":            {setOf(copied), nil, "", ""},
		"an unreadable record":                       {garbage, []*appsv1.ControllerRevision{journal}, "", ""},
		"the set is gone, but not its journal":       {nil, []*appsv1.ControllerRevision{journal}, "", ofJournal},
		"the set and its journal are gone":           {nil, nil, "", ""},
		"an active operation beside another journal": {setOf(record(api.Moving, ofStatus)), []*appsv1.ControllerRevision{journal}, "", ofStatus},
		"an unreadable journal":                      {nil, []*appsv1.ControllerRevision{{}, journal}, "", ofJournal},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := tracetest.NewSpanRecorder()
			measure, err := telemetry.New(noop.Meter{}, sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("test"))
			if err != nil {
				t.Fatal(err)
			}
			ctx, received := measure.Receive(t.Context(), "restore", event.New(), nil)
			received.SetObject("n", "web", row.named)
			if row.set != nil {
				joinTrace(ctx, row.set)
			}
			joinJournalTrace(ctx, &world.Observed{Name: "web", Set: row.set, Journals: row.journals})
			received.End(ctx, telemetry.Result{})
			parent, got := recorder.Ended()[0].Parent(), ""
			if parent.IsValid() {
				got = parent.TraceID().String()
			}
			if got != row.want {
				t.Errorf("in trace %q, want %q", got, row.want)
			}
		})
	}
}
