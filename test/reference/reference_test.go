package reference

import (
	"os"
	"path/filepath"
	"testing"

	"drydock.dev/test/golden"
	"drydock.dev/test/kit"
)

// TestPageOfScalerIsUpToDate compares docs/reference with config/crd. Write the page with: make generate
func TestPageOfScalerIsUpToDate(t *testing.T) {
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
	if stored, err := os.ReadFile(file); err != nil || string(stored) != page {
		t.Errorf("%s does not match %s (%v). Run make generate", file, source, err)
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
              hooks:
                type: object
                properties: {pre: &hook {type: object, properties: {url: {type: string}}}, post: *hook, onFailure: {type: object}}
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
	golden.Equal(t, page)
}

func TestPageOfADefinitionWithoutSchemaIsAnError(t *testing.T) {
	for _, text := range []string{"{", "spec: {}", "spec: {versions: [{name: v1, schema: {openAPIV3Schema: {properties: {spec: {}}}}}]}"} {
		if page, err := Page("small.yaml", []byte(text)); err == nil {
			t.Errorf("%q makes %q", text, page)
		}
	}
}
