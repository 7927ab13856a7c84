package resources

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
)

// SetFields changes the fields in the manifest of a set and returns the manifest.
func SetFields(set *unstructured.Unstructured, fields []api.Field) *unstructured.Unstructured {
	for _, f := range fields {
		setField(set, f)
	}
	return set
}

// setField changes one field in the manifest of a set.
func setField(set *unstructured.Unstructured, f api.Field) {
	spec := child(set.Object, "spec")
	switch f.Name {
	case api.FieldTemplate:
		spec["volumeClaimTemplates"] = templatesWith(list(spec["volumeClaimTemplates"]), f)
		if len(list(spec["volumeClaimTemplates"])) == 0 {
			delete(spec, "volumeClaimTemplates")
		}
	case api.FieldLabels, api.FieldAnnotations:
		for _, item := range list(spec["volumeClaimTemplates"]) {
			if isTemplate(item, f.Template) {
				setMetadata(child(item.(map[string]any), "metadata"), f) // isTemplate has checked it
			}
		}
	default:
		spec[string(f.Name)] = f.Value
	}
}

// setMetadata sets or removes a label or an annotation.
func setMetadata(metadata map[string]any, f api.Field) {
	values := child(metadata, string(f.Name))
	if values[f.Key] = f.Value; f.Removed {
		delete(values, f.Key)
	}
	if len(values) == 0 {
		delete(metadata, string(f.Name))
	}
}

// templatesWith returns the volumeClaimTemplates without the field's template or, unless the field removes it, with the template at the
// end.
func templatesWith(templates []any, f api.Field) []any {
	kept := slices.DeleteFunc(slices.Clone(templates), func(item any) bool { return isTemplate(item, f.Template) })
	if f.Removed {
		return kept
	}
	spec := map[string]any{"accessModes": modes(f.Ask.Modes),
		"resources": map[string]any{"requests": map[string]any{"storage": f.Ask.Size.String()}}}
	if f.Ask.Class != "" {
		spec["storageClassName"] = f.Ask.Class
	}
	if f.Ask.Attributes != nil {
		spec["volumeAttributesClassName"] = *f.Ask.Attributes
	}
	return append(kept, map[string]any{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": map[string]any{"name": f.Template},
		"spec": spec})
}

func isTemplate(item any, name string) bool {
	template, ok := item.(map[string]any)
	return ok && child(template, "metadata")["name"] == name
}
