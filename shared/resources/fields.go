package resources

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
)

// Change gives a set that is to be created the fields, and returns it.
func Change(set *unstructured.Unstructured, fields []api.Field) *unstructured.Unstructured {
	for _, s := range fields {
		field(set, s)
	}
	return set
}

// field changes one part of the set that is created again.
func field(set *unstructured.Unstructured, s api.Field) {
	spec := child(set.Object, "spec")
	switch s.Name {
	case api.FieldTemplate:
		spec["volumeClaimTemplates"] = templatesWith(list(spec["volumeClaimTemplates"]), s)
		if len(list(spec["volumeClaimTemplates"])) == 0 {
			delete(spec, "volumeClaimTemplates")
		}
	case api.FieldLabels, api.FieldAnnotations:
		for _, item := range list(spec["volumeClaimTemplates"]) {
			if isTemplate(item, s.Template) {
				remark(child(item.(map[string]any), "metadata"), s) //nolint:forcetypeassert // isTemplate has looked
			}
		}
	default:
		spec[string(s.Name)] = s.Value
	}
}

// remark sets or removes a label or an annotation.
func remark(metadata map[string]any, s api.Field) {
	values := child(metadata, string(s.Name))
	if values[s.Key] = s.Value; s.Removed {
		delete(values, s.Key)
	}
	if len(values) == 0 {
		delete(metadata, string(s.Name))
	}
}

// templatesWith returns the volumeClaimTemplates with one more, at the end, or with one less.
func templatesWith(templates []any, s api.Field) []any {
	kept := slices.DeleteFunc(slices.Clone(templates), func(item any) bool { return isTemplate(item, s.Template) })
	if s.Removed {
		return kept
	}
	spec := map[string]any{"accessModes": modes(s.Ask.Modes), "resources": map[string]any{"requests": map[string]any{"storage": s.Ask.Size.String()}}}
	if s.Ask.Class != "" {
		spec["storageClassName"] = s.Ask.Class
	}
	if s.Ask.Attributes != nil {
		spec["volumeAttributesClassName"] = *s.Ask.Attributes
	}
	return append(kept, map[string]any{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": map[string]any{"name": s.Template}, "spec": spec})
}

func isTemplate(item any, name string) bool {
	template, ok := item.(map[string]any)
	return ok && child(template, "metadata")["name"] == name
}
