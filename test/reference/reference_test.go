package reference

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drydock.dev/test/golden"

	"drydock.dev/test/kit"
)

// TestPagesAreUpToDate: docs/reference shows what config/crd has. Write it with: make generate
func TestPagesAreUpToDate(t *testing.T) {
	const source = "config/crd/drydock.dev_scalers.yaml"
	file := filepath.Join(kit.Root(t), "docs", "reference", "scaler.md")
	text, err := os.ReadFile(filepath.Join(kit.Root(t), source))
	if err != nil {
		t.Fatal(err)
	}
	page, err := Page(source, text)
	if err != nil {
		t.Fatal(err)
	}
	if golden.Updating() {
		if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if is, err := os.ReadFile(file); err != nil || string(is) != page {
		t.Errorf("%s is not what %s says (%v); run make generate", file, source, err)
	}
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
              hooks: {type: object, properties: {pre: &hook {type: object, properties: {url: {type: string}}}, post: *hook, onFailure: {type: object}}}
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
	const head = "\n| field | type | default | meaning |\n|---|---|---|---|\n"
	want := head +
		"| `spec.count` | integer |  | Count is a\\|b, on two lines. Required. At least 1. At most 5. |\n" +
		"| `spec.hooks` | object |  |  |\n" +
		"| `spec.hooks.onFailure` | object |  |  |\n" +
		"| `spec.hooks.post` | object |  | Its fields are those of `spec.hooks.pre`. |\n" +
		"| `spec.hooks.pre` | object |  |  |\n" +
		"| `spec.hooks.pre.url` | string |  |  |\n" +
		"| `spec.mode` | string | `a` | One of a, b. Rule: a comes first. |\n" +
		"\n## status\n" + head +
		"| `status.conditions[]` | list of object |  |  |\n" +
		"| `status.names[]` | list of object |  |  |\n" +
		"| `status.names[].name` | string |  |  |\n"
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
