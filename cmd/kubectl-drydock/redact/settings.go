package redact

import (
	"reflect"

	"drydock.dev/shared/api"
)

// otherSettings are the variables in drydock-settings that are not in api.Settings and contain no credentials.
var otherSettings = set("K_SINK", "GOMEMLIMIT", "GOMAXPROCS", "GOGC", "LOG_LEVEL", "PORT", "DRYDOCK_TICK", "DRYDOCK_EVENT_TIMEOUT",
	"OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_SDK_DISABLED",
	"OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG", "OTEL_SERVICE_NAME")

// Settings returns the settings with the values of the known variables. It removes all other values.
func Settings(all map[string]string) map[string]string {
	kept := map[string]string{}
	for name, value := range all {
		kept[name] = Removed
		if otherSettings[name] || isSetting(name) {
			kept[name] = Text(value)
		}
	}
	return kept
}

// isSetting reports whether the variable is one of api.Settings.
func isSetting(name string) bool {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[api.Settings]()) {
		if name != "" && field.Tag.Get("envconfig") == name {
			return true
		}
	}
	return false
}
