package redact

import (
	_ "embed"
	"fmt"

	"sigs.k8s.io/yaml"
)

//go:embed allowed.yaml
var allowedText []byte

// rules has the content of allowed.yaml: a rule for each kind of document.
var rules = loadRules()

func loadRules() map[string]any {
	loaded := map[string]any{}
	if err := yaml.UnmarshalStrict(allowedText, &loaded); err != nil {
		panic(fmt.Sprintf("reading allowed.yaml: %v", err)) // a test loads it
	}
	return loaded
}

// Names of rules for single values.
const (
	keepRule        = "keep"
	allRule         = "all"
	labelsRule      = "labels"
	annotationsRule = "annotations"
	anyKey          = "*"
)
