package export

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/otlptranslator"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// page serves a reader's measurements in Prometheus's text format. It uses the names of OpenTelemetry's own exporter
// (https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/) as Knative configures it.
type page struct{ reader *sdkmetric.ManualReader }

// ServeHTTP collects and writes.
func (p page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var collected metricdata.ResourceMetrics
	if err := p.reader.Collect(r.Context(), &collected); err != nil {
		http.Error(w, "collecting metrics: "+err.Error(), http.StatusInternalServerError)
		return
	}
	text, err := render(&collected)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write([]byte(text)) // the client is gone
}

var (
	namer  = otlptranslator.NewMetricNamer("", otlptranslator.UnderscoreEscapingWithSuffixes)
	labels = otlptranslator.LabelNamer{}
)

// family is a metric of one name.
type family struct {
	strings.Builder
	name  string
	scope []attribute.KeyValue
}

// render writes the families in the order of their names.
func render(collected *metricdata.ResourceMetrics) (string, error) {
	target := family{name: otlptranslator.TargetInfoMetricName}
	target.head("gauge", "Target metadata")
	if err := target.line("", "", collected.Resource.Attributes(), 1); err != nil {
		return "", err
	}
	families := []*family{&target}
	for _, s := range collected.ScopeMetrics {
		for _, m := range s.Metrics {
			f, err := familyOf(s.Scope, m)
			if err != nil {
				return "", fmt.Errorf("writing metric %s: %w", m.Name, err)
			}
			families = append(families, f)
		}
	}
	slices.SortFunc(families, func(a, b *family) int { return strings.Compare(a.name, b.name) })
	var page strings.Builder
	for _, f := range families {
		page.WriteString(f.String())
	}
	return page.String(), nil
}

func familyOf(scope instrumentation.Scope, m metricdata.Metrics) (*family, error) {
	f := &family{scope: []attribute.KeyValue{
		attribute.String("otel_scope_name", scope.Name), attribute.String("otel_scope_version", scope.Version),
		attribute.String("otel_scope_schema_url", scope.SchemaURL),
	}}
	switch data := m.Data.(type) {
	case metricdata.Gauge[int64]:
		return f, values(f, m, otlptranslator.MetricTypeGauge, data.DataPoints)
	case metricdata.Gauge[float64]:
		return f, values(f, m, otlptranslator.MetricTypeGauge, data.DataPoints)
	case metricdata.Sum[int64]:
		return f, values(f, m, sumType(data.IsMonotonic), data.DataPoints)
	case metricdata.Sum[float64]:
		return f, values(f, m, sumType(data.IsMonotonic), data.DataPoints)
	case metricdata.Histogram[int64]:
		return f, buckets(f, m, data.DataPoints)
	case metricdata.Histogram[float64]:
		return f, buckets(f, m, data.DataPoints)
	}
	return nil, fmt.Errorf("no text for %T", m.Data)
}

func sumType(monotonic bool) otlptranslator.MetricType {
	if monotonic {
		return otlptranslator.MetricTypeMonotonicCounter
	}
	return otlptranslator.MetricTypeNonMonotonicCounter
}

// begin names the family and writes its head.
func (f *family) begin(m metricdata.Metrics, of otlptranslator.MetricType, kind string) error {
	var err error
	if f.name, err = namer.Build(otlptranslator.Metric{Name: m.Name, Unit: m.Unit, Type: of}); err != nil {
		return err //nolint:wrapcheck // the caller names the metric
	}
	f.head(kind, m.Description)
	return nil
}

func (f *family) head(kind, help string) {
	fmt.Fprintf(f, "# HELP %s %s\n# TYPE %s %s\n", f.name, strings.NewReplacer("\\", `\\`, "\n", `\n`).Replace(help), f.name, kind)
}

func values[N int64 | float64](f *family, m metricdata.Metrics, of otlptranslator.MetricType, points []metricdata.DataPoint[N]) error {
	kind := "gauge"
	if of == otlptranslator.MetricTypeMonotonicCounter {
		kind = "counter"
	}
	if err := f.begin(m, of, kind); err != nil {
		return err
	}
	for _, p := range points {
		if err := f.line("", "", p.Attributes.ToSlice(), float64(p.Value)); err != nil {
			return err
		}
	}
	return nil
}

func buckets[N int64 | float64](f *family, m metricdata.Metrics, points []metricdata.HistogramDataPoint[N]) error {
	if err := f.begin(m, otlptranslator.MetricTypeHistogram, "histogram"); err != nil {
		return err
	}
	for _, p := range points {
		attributes, below := p.Attributes.ToSlice(), uint64(0)
		for i, bound := range p.Bounds {
			below += p.BucketCounts[i]
			if err := f.line("_bucket", number(bound), attributes, float64(below)); err != nil {
				return err
			}
		}
		for _, line := range []struct {
			suffix, limit string
			value         float64
		}{{"_bucket", "+Inf", float64(p.Count)}, {"_sum", "", float64(p.Sum)}, {"_count", "", float64(p.Count)}} {
			if err := f.line(line.suffix, line.limit, attributes, line.value); err != nil {
				return err
			}
		}
	}
	return nil
}

// line writes a series. Attributes whose names become the same label share it, as the specification demands. The limit
// is the limit of a bucket, or "".
func (f *family) line(suffix, limit string, attributes []attribute.KeyValue, value float64) error {
	byLabel := map[string][]string{}
	for _, a := range append(slices.Clip(attributes), f.scope...) {
		label, err := labels.Build(string(a.Key))
		if err != nil {
			return err //nolint:wrapcheck // the caller names the metric
		}
		byLabel[label] = append(byLabel[label], a.Value.String())
	}
	pairs := make([]string, 0, len(byLabel))
	for label, values := range byLabel {
		slices.Sort(values)
		pairs = append(pairs, label+`="`+strings.NewReplacer("\\", `\\`, "\n", `\n`, `"`, `\"`).Replace(strings.Join(values, ";"))+`"`)
	}
	slices.Sort(pairs)
	if limit != "" {
		pairs = append(pairs, `le="`+limit+`"`)
	}
	fmt.Fprintf(f, "%s%s{%s} %s\n", f.name, suffix, strings.Join(pairs, ","), number(value))
	return nil
}

func number(value float64) string { return strconv.FormatFloat(value, 'g', -1, 64) }
