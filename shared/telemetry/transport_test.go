package telemetry

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"
)

func TestTemplate(t *testing.T) {
	for path, want := range map[string]string{
		"/apis/apps/v1/namespaces/n/statefulsets/web":              "/apis/apps/v1/namespaces/{namespace}/statefulsets/{name}",
		"/apis/apps/v1/namespaces/n/statefulsets":                  "/apis/apps/v1/namespaces/{namespace}/statefulsets",
		"/apis/apps/v1/statefulsets":                               "/apis/apps/v1/statefulsets",
		"/api/v1/namespaces/n/persistentvolumeclaims/data-0":       "/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}",
		"/api/v1/namespaces/n/pods/p/log":                          "/api/v1/namespaces/{namespace}/pods/{name}/log",
		"/api/v1/persistentvolumes/pv":                             "/api/v1/persistentvolumes/{name}",
		"/api/v1/namespaces/n":                                     "/api/v1/namespaces/{name}",
		"/api/v1/namespaces":                                       "/api/v1/namespaces",
		"/apis/storage.k8s.io/v1/storageclasses/fast":              "/apis/storage.k8s.io/v1/storageclasses/{name}",
		"/api/v1/namespaces/n/pods/p/proxy/whatever/somebody/asks": "/api/v1/namespaces/{namespace}/pods/{name}/proxy/{more}",
		"/": "/",
	} {
		if got := Template(path); got != want {
			t.Errorf("%s became %s, want %s", path, got, want)
		}
	}
}

type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestOnlyWritesHaveSpans(t *testing.T) {
	measure, recorder := traced(t)
	ctx, hop := measure.Receive(t.Context(), "backup", change(""), nil)
	api := Transport(tripper(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodDelete {
			return nil, errors.New("connection refused")
		}
		code := http.StatusConflict
		if r.Method == http.MethodGet {
			code = http.StatusOK
		}
		return &http.Response{StatusCode: code}, nil
	}))
	const path = "https://10.0.0.1/apis/apps/v1/namespaces/n/statefulsets/web"
	for _, method := range []string{http.MethodGet, http.MethodPatch, http.MethodDelete} {
		r := httptest.NewRequestWithContext(ctx, method, path+"?fieldManager=drydock", nil)
		_, _ = api.RoundTrip(r) // there is none
		if method == http.MethodGet && hop.startedSpan().IsValid() {
			t.Error("a read started the span before its trace was known")
		}
	}
	hop.End(ctx, Result{})

	ended := recorder.Ended()
	if len(ended) != 3 {
		t.Fatalf("%d spans, want one each for a patch, a delete and the event", len(ended))
	}
	patch, gone, whole := ended[0], ended[1], ended[2]
	if patch.Name() != "PATCH /apis/apps/v1/namespaces/{namespace}/statefulsets/{name}" ||
		patch.Parent().SpanID() != whole.SpanContext().SpanID() || value(patch, "url.full").AsString() != path ||
		value(patch, "http.response.status_code").AsInt64() != 409 || patch.Status().Code != codes.Error {
		t.Errorf("%s below %s: %v %v", patch.Name(), patch.Parent().SpanID(), patch.Attributes(), patch.Status())
	}
	if value(gone, "error.type").AsString() != "transport" {
		t.Errorf("%v", gone.Attributes())
	}
}

func TestMeasurements(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	measure, err := New(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter(ScopeName), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxTypes + 10 {
		measure.RecordAnswer(t.Context(), "backup", "POST", fmt.Sprintf("made.up.%d", i), Result{Code: 204, Outcome: "done"}, 0)
	}
	measure.RecordAnswer(t.Context(), "backup", "FROB", "", Result{Code: 500, Outcome: "panicked"}, 0)
	ctx, _ := measure.Receive(t.Context(), "backup", change(""), nil)
	api := Transport(tripper(func(*http.Request) (*http.Response, error) { return &http.Response{StatusCode: 200}, nil }))
	for _, name := range []string{"a", "b", "c"} {
		url := "https://10.0.0.1/api/v1/namespaces/" + name + "/pods/" + name
		_, _ = api.RoundTrip(httptest.NewRequestWithContext(ctx, http.MethodGet, url, nil)) // there is none
	}

	handled, calls := points(t, reader, "http.server.request.duration"), points(t, reader, "http.client.request.duration")
	if len(handled) != maxTypes+2 || find(handled, eventTypeKey.String(otherValue)).Count != 10 {
		t.Errorf("%d series for %d types, want %d", len(handled), maxTypes+10, maxTypes+2)
	}
	none := find(handled, eventTypeKey.String(noType))
	for key, want := range map[attribute.Key]string{
		"http.request.method": "_OTHER", "drydock.outcome": "panicked", "error.type": "500", "faas.name": "backup",
	} {
		if got, _ := none.Attributes.Value(key); got.AsString() != want {
			t.Errorf("%s = %q, want %q", key, got.AsString(), want)
		}
	}
	if len(calls) != 1 || calls[0].Count != 3 {
		t.Errorf("want three calls in one series, got %+v", calls)
	}
}

// TestPathsAreLimited: the author of a set chooses the version in an owner reference, and with it the path that pause-owner reads.
func TestPathsAreLimited(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	measure, err := New(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter(ScopeName), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, _ := measure.Receive(t.Context(), "pause-owner", change(""), nil)
	api := Transport(tripper(func(*http.Request) (*http.Response, error) { return &http.Response{StatusCode: 404}, nil }))
	for i := range maxTemplates + 10 {
		url := fmt.Sprintf("https://10.0.0.1/apis/rabbitmq.com/v%d/namespaces/n/rabbitmqclusters/web", i)
		_, _ = api.RoundTrip(httptest.NewRequestWithContext(ctx, http.MethodGet, url, nil)) // there is none
	}
	calls := points(t, reader, "http.client.request.duration")
	if len(calls) != maxTemplates+1 || find(calls, semconv.URLTemplate(otherValue)).Count != 10 {
		t.Errorf("%d series for %d versions of a resource", len(calls), maxTemplates+10)
	}
}

func points(t *testing.T, reader *sdkmetric.ManualReader, name string) []metricdata.HistogramDataPoint[float64] {
	t.Helper()
	var collected metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &collected); err != nil {
		t.Fatal(err)
	}
	for _, m := range collected.ScopeMetrics[0].Metrics {
		if m.Name == name && m.Unit == "s" {
			return m.Data.(metricdata.Histogram[float64]).DataPoints
		}
	}
	t.Fatalf("no %s in seconds", name)
	return nil
}

func find(points []metricdata.HistogramDataPoint[float64], a attribute.KeyValue) metricdata.HistogramDataPoint[float64] {
	for _, p := range points {
		if got, _ := p.Attributes.Value(a.Key); got == a.Value {
			return p
		}
	}
	return metricdata.HistogramDataPoint[float64]{}
}
