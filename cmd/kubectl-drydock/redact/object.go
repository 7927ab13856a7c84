package redact

import (
	"encoding/json"
	"strings"

	"drydock.dev/shared/bounded"
)

// Object returns a copy of a Kubernetes object, or of another document, without the values that the rule for its kind does not list. A kind
// without a rule keeps its apiVersion, kind and metadata. The object must be as JSON decodes it.
func Object(kind string, object map[string]any) map[string]any {
	rule, known := rules[kind].(map[string]any)
	if !known {
		rule = map[string]any{"apiVersion": keepRule, "kind": keepRule, "metadata": rules["metadata"]}
	}
	redacted, _ := apply(rule, dropped(object)).(map[string]any)
	switch kind {
	case "Event":
		redactEvent(redacted)
	case "ControllerRevision":
		redactRevision(redacted)
	case "Doctor":
		redactFindings(redacted)
	}
	return redacted
}

// dropped returns the object without metadata that is long and says nothing about the object.
func dropped(object map[string]any) map[string]any {
	metadata, ok := object["metadata"].(map[string]any)
	if !ok {
		return object
	}
	return with(object, "metadata", without(metadata, "managedFields"))
}

// apply returns the value as far as the rule keeps it. A nil rule keeps nothing. Empty lists and maps stay, because they contain nothing.
func apply(rule, value any) any {
	switch v := value.(type) {
	case nil:
		return nil
	case map[string]any:
		if len(v) == 0 {
			return v
		}
		return applyToMap(rule, v)
	case []any:
		if len(v) == 0 {
			return v
		}
		return applyToList(rule, v)
	case string:
		if rule == keepRule || rule == allRule {
			return Message(v)
		}
		return Removed
	}
	if rule == keepRule || rule == allRule {
		return value // a number or a truth value
	}
	return Removed
}

func applyToMap(rule any, value map[string]any) any {
	switch r := rule.(type) {
	case map[string]any:
		kept := map[string]any{}
		for key, v := range value {
			own, known := r[key]
			if !known {
				own = r[anyKey]
			}
			kept[Text(key)] = apply(own, v)
		}
		removeQuote(kept)
		return kept
	case string:
		switch r {
		case labelsRule:
			return labels(value)
		case annotationsRule:
			return annotations(value)
		case allRule:
			kept := map[string]any{}
			for key, v := range value {
				kept[Text(key)] = apply(allRule, v)
			}
			return kept
		}
	}
	return Removed
}

func applyToList(rule any, value []any) any {
	var own any
	switch r := rule.(type) {
	case []any:
		own = r[0]
	case string:
		if r == allRule {
			own = allRule
		}
	}
	if own == nil {
		return Removed
	}
	kept := make([]any, len(value))
	for i, v := range value {
		kept[i] = apply(own, v)
	}
	return kept
}

// redactRevision removes the data of a revision that is not Drydock's: that of the StatefulSet controller contains a pod template.
func redactRevision(revision map[string]any) {
	metadata, _ := revision["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	owners, _ := metadata["ownerReferences"].([]any)
	if _, found := revision["data"]; found && (!strings.HasPrefix(name, "drydock-") || len(owners) > 0) {
		revision["data"] = Removed
	}
}

func with(object map[string]any, key string, value any) map[string]any {
	changed := without(object, key)
	changed[key] = value
	return changed
}

func without(object map[string]any, key string) map[string]any {
	changed := map[string]any{}
	for k, v := range object {
		if k != key {
			changed[k] = v
		}
	}
	return changed
}

// labels keeps the keys of all labels, and the values of Kubernetes' and Drydock's.
func labels(all map[string]any) map[string]any {
	kept := map[string]any{}
	for key, value := range all {
		kept[key] = Removed
		if text, ok := value.(string); ok && (isKubernetes(key) || ownLabels[key]) {
			kept[key] = Text(text)
		}
	}
	return kept
}

// annotations keeps the keys of all annotations. It keeps the values of Kubernetes' and Drydock's, as far as their rules do.
func annotations(all map[string]any) map[string]any {
	kept := map[string]any{}
	for key, value := range all {
		text, ok := value.(string)
		switch {
		case key == lastApplied:
		case !ok:
			kept[key] = Removed
		case ownDocuments[key] != "":
			kept[key] = document(ownDocuments[key], text)
		case ownTexts[key]:
			kept[key] = Message(text)
		case isKubernetes(key):
			kept[key] = Text(text)
		default:
			kept[key] = Removed
		}
	}
	return kept
}

// document returns the redacted document of an annotation as JSON. It returns Removed if the text is no such document.
func document(kind, text string) string {
	object, ok := read(text)
	if !ok {
		return Removed
	}
	redacted, err := json.Marshal(Object(kind, object))
	if err != nil {
		return Removed
	}
	return string(redacted)
}

// read reads a document in JSON or YAML.
func read(text string) (map[string]any, bool) {
	object := map[string]any{}
	if json.Unmarshal([]byte(text), &object) == nil {
		return object, true
	}
	converted, err := bounded.ToJSON(text)
	return object, err == nil && json.Unmarshal(converted, &object) == nil
}
