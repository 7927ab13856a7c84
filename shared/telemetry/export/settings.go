package export

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"
)

// The supported exporters of the specification.
const (
	exporterNone       = "none"
	exporterOTLP       = "otlp"
	exporterConsole    = "console"
	exporterPrometheus = "prometheus"
)

// settings names the exporters. newCollector reads how OTLP is sent.
type settings struct{ traces, metrics string }

func readSettings() (settings, error) {
	disabled, err := oneOf("OTEL_SDK_DISABLED", "false", "true")
	if err != nil {
		return settings{}, err
	}
	if disabled == "true" {
		return settings{traces: exporterNone, metrics: exporterNone}, nil
	}
	var s settings
	if s.traces, err = oneOf("OTEL_TRACES_EXPORTER", exporterNone, exporterOTLP, exporterConsole); err != nil {
		return s, err
	}
	if s.metrics, err = oneOf("OTEL_METRICS_EXPORTER", exporterPrometheus, exporterOTLP, exporterNone); err != nil {
		return s, err
	}
	if err := checkPropagators(); err != nil {
		return s, err
	}
	return s, checkSampler()
}

// oneOf reads a variable that must have one of the values. The first value is the default. By the specification an empty
// variable counts as not set.
func oneOf(name string, values ...string) (string, error) {
	value := strings.ToLower(strings.TrimSpace(os.Getenv(name)))
	if value == "" {
		return values[0], nil
	}
	if !slices.Contains(values, value) {
		return "", fmt.Errorf("%s=%q is not known here; set one of: %s", name, value, strings.Join(values, ", "))
	}
	return value, nil
}

// checkPropagators refuses propagators that would be ignored: the functions use only W3C trace context.
func checkPropagators() error {
	for name := range strings.SplitSeq(os.Getenv("OTEL_PROPAGATORS"), ",") {
		if name = strings.TrimSpace(name); name != "" && name != "tracecontext" && name != "baggage" {
			return fmt.Errorf("OTEL_PROPAGATORS names %q; only tracecontext is spoken here", name)
		}
	}
	return nil
}

// checkSampler refuses values that only cause a warning of the SDK, which reads these variables itself.
func checkSampler() error {
	const ratio, parentRatio = "traceidratio", "parentbased_traceidratio"
	sampler, err := oneOf("OTEL_TRACES_SAMPLER",
		"parentbased_always_on", "always_on", "always_off", "parentbased_always_off", ratio, parentRatio)
	if err != nil || sampler != ratio && sampler != parentRatio {
		return err
	}
	text := strings.TrimSpace(os.Getenv("OTEL_TRACES_SAMPLER_ARG"))
	if text == "" {
		return nil // 1 by the specification
	}
	if share, err := strconv.ParseFloat(text, 64); err != nil || share < 0 || share > 1 {
		return fmt.Errorf("OTEL_TRACES_SAMPLER_ARG=%q is no share of traces; set a number from 0 to 1", text)
	}
	return nil
}

// identity returns the attributes of the process. On a cluster a pod's host name is the pod's name. Knative sets the
// variables of a Service.
func identity(service string) []attribute.KeyValue {
	found := []attribute.KeyValue{semconv.ServiceName(service)}
	if revision := os.Getenv("K_REVISION"); revision != "" {
		found = append(found, semconv.FaaSVersion(revision))
	}
	if host, err := os.Hostname(); err == nil && os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		found = append(found, semconv.K8SPodName(host))
	}
	return found
}
