package reference

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"drydock.dev/test/golden"
	"drydock.dev/test/kit"
)

// TestPagesAreUpToDate compares the pages of docs/reference with the code. Write them with: make generate golden
func TestPagesAreUpToDate(t *testing.T) {
	for name, page := range map[string]func(*testing.T) string{
		"scaler.md":      scalerPage,
		"annotations.md": keysPage,
		"reasons.md":     reasonsPage,
		"events.md":      eventsPage,
		"conditions.md":  conditionsPage,
		"metrics.md":     metricsPage,
		"settings.md":    settingsPage,
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

func keysPage(t *testing.T) string {
	meanings, err := KeyConstants(keyConstants(t))
	if err != nil {
		t.Fatal(err)
	}
	page, err := KeysPage(topics(t), meanings)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

func reasonsPage(t *testing.T) string {
	const source = "shared/api/reasons.go"
	return constantsPage(t, "Reasons", "A reason says why a function acted or waited: in the record, in Events, in logs and in conditions.",
		source, With("", constants(t, source)))
}

func eventsPage(t *testing.T) string {
	const source = "shared/events/events.go"
	return constantsPage(t, "Events", "The types of the CloudEvents that functions send and receive.", source,
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
		conditions,
	)
}

func metricsPage(t *testing.T) string {
	var found []Metric
	for _, source := range []string{"shared/telemetry/telemetry.go", "shared/telemetry/figures.go", "shared/telemetry/sweep.go",
		"eventsource/gateway/measure/measure.go", "eventsource/engine/gate.go"} {
		metrics, err := Metrics(source, read(t, source))
		if err != nil {
			t.Fatal(err)
		}
		if len(metrics) == 0 {
			t.Errorf("%s makes no instrument", source)
		}
		found = append(found, metrics...)
	}
	page, err := MetricsPage(found)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

func settingsPage(t *testing.T) string {
	page, err := SettingsPage(programs, func(source string) string { return read(t, source) })
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// programs are the sections of settings.md.
var programs = []Settings{
	{"Every function", "For all functions, on Knative and standalone.", "shared/api/settings.go", "Settings"},
	{"The wake gateway", "For the wake gateway, on Knative and standalone.", "eventsource/gateway/function.go", "Options"},
	{"The status page", "For the status page, on Knative and standalone.", "eventsource/statuspage/function.go", "Access"},
	{"A function in its own process", "Only on Knative: for each process `drydock serve`.", "cmd/drydock/serve.go", "environment"},
	{"The Broker of sift", "Only on Knative: for the function sift, which sends events by itself.", "function.go", "Environment"},
	{"The standalone program", "Only for `drydock-standalone`.", "cmd/drydock-standalone/options.go", "options"},
	{"Outside a cluster", "For every program outside a pod.", "shared/settings/settings.go", "Kubeconfig"},
}

func constantsPage(t *testing.T, title, introduction, source string, sections []Section) string {
	t.Helper()
	page, err := ConstantsPage(title, introduction, source, sections)
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
	_, items, _ := strings.Cut(page, "\n## spec\n\n")
	want := "- `spec.count` (integer): A|b, on two lines. Required. At least 1. At most 5.\n" +
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
	if items != want {
		t.Errorf("the page has\n%s\nwant\n%s", items, want)
	}
}

func TestPageOfNoSchemaIsAnError(t *testing.T) {
	for _, text := range []string{"{", "spec: {}", "spec: {versions: [{name: v1, schema: {openAPIV3Schema: {properties: {spec: {}}}}}]}"} {
		if page, err := Page("small.yaml", []byte(text)); err == nil {
			t.Errorf("%q makes %q", text, page)
		}
	}
}
