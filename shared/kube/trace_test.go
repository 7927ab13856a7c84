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

// record is a record whose trace is the given one.
func record(phase api.Phase, trace string) *api.Resize {
	return &api.Resize{
		Header: api.Header{Version: api.RecordVersion, Operation: "0123456789ab", Kind: api.KindResize, Phase: phase, Set: api.SetRef{Name: "web", UID: "u"}, Trace: "00-" + trace + "-1111111111111111-01"},
	}
}

func setOf(status *api.Resize) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "u"}}
	if status != nil {
		set.Annotations = map[string]string{api.StatusAnnotation: status.Encode()}
	}
	return set
}

// TestWhichTraceIsFollowed: that of the operation which the objects tell of, and no other.
func TestWhichTraceIsFollowed(t *testing.T) {
	journal := &appsv1.ControllerRevision{Data: runtime.RawExtension{
		Raw: api.Journal{Version: api.RecordVersion, Record: *record(api.Planned, ofJournal)}.Encode()}}
	copied := record(api.Moving, ofStatus)
	copied.Set.UID = "somebody else's"
	garbage := setOf(nil)
	garbage.Annotations = map[string]string{api.StatusAnnotation: "{"}
	for name, row := range map[string]struct {
		set      *appsv1.StatefulSet
		journals []*appsv1.ControllerRevision
		tells    string
		want     string
	}{
		"no operation":                              {setOf(nil), nil, "", ""},
		"one that runs":                             {setOf(record(api.Moving, ofStatus)), nil, "", ofStatus},
		"one that is given up":                      {setOf(record(api.Reverting, ofStatus)), nil, "", ofStatus},
		"one that has ended":                        {setOf(record(api.Succeeded, ofStatus)), nil, "", ""},
		"one that has ended, of which one hears":    {setOf(record(api.Succeeded, ofStatus)), nil, "0123456789ab", ofStatus},
		"one that has ended, hearing of another":    {setOf(record(api.Succeeded, ofStatus)), nil, "ba9876543210", ""},
		"a status copied with a manifest":           {setOf(copied), nil, "", ""},
		"a status that cannot be read":              {garbage, []*appsv1.ControllerRevision{journal}, "", ""},
		"the set is gone, its journal is there":     {nil, []*appsv1.ControllerRevision{journal}, "", ofJournal},
		"the set is gone, and so is the journal":    {nil, nil, "", ""},
		"a journal of before, beside one that runs": {setOf(record(api.Moving, ofStatus)), []*appsv1.ControllerRevision{journal}, "", ofStatus},
		"a journal that cannot be read":             {nil, []*appsv1.ControllerRevision{{}, journal}, "", ofJournal},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := tracetest.NewSpanRecorder()
			measure, err := telemetry.New(noop.Meter{}, sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("test"))
			if err != nil {
				t.Fatal(err)
			}
			ctx, hop := measure.Receive(t.Context(), "restore", event.New(), nil)
			hop.About("n", "web", row.tells)
			if row.set != nil {
				joinTrace(ctx, row.set)
			}
			followJournals(ctx, &world.Observed{Name: "web", Set: row.set, Journals: row.journals})
			hop.End(ctx, telemetry.Result{})
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
