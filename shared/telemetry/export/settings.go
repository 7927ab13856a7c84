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

// The exporters of the specification that there are here.
const (
	exporterNone       = "none"
	exporterOTLP       = "otlp"
	exporterConsole    = "console"
	exporterPrometheus = "prometheus"
)

// settings are what the environment says to do; how OTLP is sent is read where it is.
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

// oneOf reads a variable that has one of the values; the first is its default. The specification takes an empty variable
// for one that is not set.
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

// checkPropagators refuses what would be ignored: the functions speak W3C trace context and nothing else.
func checkPropagators() error {
	for name := range strings.SplitSeq(os.Getenv("OTEL_PROPAGATORS"), ",") {
		if name = strings.TrimSpace(name); name != "" && name != "tracecontext" && name != "baggage" {
			return fmt.Errorf("OTEL_PROPAGATORS names %q; only tracecontext is spoken here", name)
		}
	}
	return nil
}

// checkSampler refuses what the SDK, which reads these variables itself, would only complain about.
func checkSampler() error {
	const ratio, parentRatio = "traceidratio", "parentbased_traceidratio"
	sampler, err := oneOf("OTEL_TRACES_SAMPLER", "parentbased_always_on", "always_on", "always_off", "parentbased_always_off", ratio, parentRatio)
	if err != nil || sampler != ratio && sampler != parentRatio {
		return err
	}
	text := strings.TrimSpace(os.Getenv("OTEL_TRACES_SAMPLER_ARG"))
	if text == "" {
		return nil // 1, says the specification
	}
	if share, err := strconv.ParseFloat(text, 64); err != nil || share < 0 || share > 1 {
		return fmt.Errorf("OTEL_TRACES_SAMPLER_ARG=%q is no share of traces; set a number from 0 to 1", text)
	}
	return nil
}

// identity is who the process is. On a cluster a pod's host name is its name; Knative sets the variables of a Service.
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
