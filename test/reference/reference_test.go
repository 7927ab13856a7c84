package reference

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"drydock.dev/eventsource/gateway"
	"drydock.dev/shared/api"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit"
)

// TestPagesAreUpToDate compares the pages of docs/reference with the code. Write them with: make generate golden
func TestPagesAreUpToDate(t *testing.T) {
	for name, page := range map[string]func(*testing.T) string{
		"scaler.md":      scalerPage,
		"annotations.md": annotationsPage,
		"reasons.md":     reasonsPage,
		"events.md":      eventsPage,
		"conditions.md":  conditionsPage,
		"metrics.md":     metricsPage,
		"settings.md":    func(*testing.T) string { return SettingsPage(programs()) },
		"exit-codes.md":  func(*testing.T) string { return ExitCodesPage() },
	} {
		golden.Is(t, filepath.Join(kit.Root(t), "docs", "reference", name), page(t))
	}
}

func scalerPage(t *testing.T) string {
	const source = "config/crd/drydock.dev_scalers.yaml"
	page, err := Page(source, []byte(read(t, source)))
	if err != nil {
		t.Fatal(err)
	}
	return page
}

func annotationsPage(t *testing.T) string {
	const source = "shared/api/keys.go"
	return constantsPage(t, "Annotations, labels and finalizers", "Every key that Drydock reads or writes on objects.", source, "key",
		With("drydock.dev/", constants(t, source)))
}

func reasonsPage(t *testing.T) string {
	const source = "shared/api/reasons.go"
	return constantsPage(t, "Reasons", "A reason says why a function acted or waited: in the record, in Events, in logs and in conditions.",
		source, "reason", With("", constants(t, source)))
}

func eventsPage(t *testing.T) string {
	const source = "shared/events/events.go"
	return constantsPage(t, "Events", "The types of the CloudEvents that functions send and receive.", source, "type",
		With("dev.", constants(t, source)))
}

func conditionsPage(t *testing.T) string {
	const source = "shared/api/v1alpha1/scaler.go"
	var conditions []Section
	for _, s := range constants(t, source) {
		s.Constants = slices.DeleteFunc(s.Constants, func(c Constant) bool { return !strings.HasPrefix(c.Name, "Condition") })
		if len(s.Constants) > 0 {
			conditions = append(conditions, s)
		}
	}
	return constantsPage(
		t,
		"Conditions of a Scaler",
		"The types of the conditions in the status of a Scaler.",
		source,
		"condition",
		conditions,
	)
}

func metricsPage(t *testing.T) string {
	found := map[string][]Metric{}
	for _, source := range []string{"shared/telemetry/metrics.go", "shared/telemetry/cleanups.go", "shared/telemetry/volumes.go",
		"shared/telemetry/growth.go", "eventsource/gateway/measure/measure.go", "eventsource/engine/gate.go"} {
		metrics, err := Metrics(source, read(t, source))
		if err != nil {
			t.Fatal(err)
		}
		if len(metrics) == 0 {
			t.Errorf("%s makes no instrument", source)
		}
		found[source] = metrics
	}
	page, err := MetricsPage(found)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

func programs() []Settings {
	return []Settings{{"Every function", api.Settings{}}, {"The wake gateway", gateway.Options{}}}
}

func constantsPage(t *testing.T, title, introduction, source, column string, sections []Section) string {
	t.Helper()
	page, err := ConstantsPage(title, introduction, source, column, sections)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

func constants(t *testing.T, source string) []Section {
	t.Helper()
	sections, err := Constants(source, read(t, source))
	if err != nil {
		t.Fatal(err)
	}
	return sections
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(kit.Root(t), filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const small = `
spec:
  names: {kind: Small}
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        properties:
          spec:
            required: [count]
            properties:
              count: {type: integer, minimum: 1, maximum: 5, description: "Count is a|b,\n  on two lines."}
              mode: {type: string, default: a, enum: [a, b], x-kubernetes-validations: [{rule: x, message: a comes first}]}
              hooks:
                type: object
                properties:
                  pre: &hook {type: object, properties: {url: {type: string}}}
                  post: *hook
                  onFailure: {type: object}
          status:
            properties:
              conditions: {type: array, items: {type: object, properties: {type: {type: string}}}}
              names: {type: array, items: {type: object, properties: {name: {type: string}}}}
`

func TestPageShowsEachField(t *testing.T) {
	page, err := Page("small.yaml", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	_, rows, _ := strings.Cut(page, "\n## spec\n")
	want := "\n" +
		"- `spec.count` (integer): Count is a|b, on two lines. Required. At least 1. At most 5.\n" +
		"- `spec.hooks` (object)\n" +
		"- `spec.hooks.onFailure` (object)\n" +
		"- `spec.hooks.post` (object): Its fields are those of `spec.hooks.pre`.\n" +
		"- `spec.hooks.pre` (object)\n" +
		"- `spec.hooks.pre.url` (string)\n" +
		"- `spec.mode` (string, default `a`): One of a, b. Rule: a comes first.\n" +
		"\n## status\n\n" +
		"- `status.conditions[]` (list of object)\n" +
		"- `status.names[]` (list of object)\n" +
		"- `status.names[].name` (string)\n"
	if rows != want {
		t.Errorf("the page has\n%s\nwant\n%s", rows, want)
	}
}

func TestPageOfNoSchemaIsAnError(t *testing.T) {
	for _, text := range []string{"{", "spec: {}", "spec: {versions: [{name: v1, schema: {openAPIV3Schema: {properties: {spec: {}}}}}]}"} {
		if page, err := Page("small.yaml", []byte(text)); err == nil {
			t.Errorf("%q makes %q", text, page)
		}
	}
}
