// Package reference renders the fields of a custom resource as a page of docs/reference. It reads the CustomResourceDefinition in
// config/crd.
package reference

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// describedElsewhere are fields whose own fields Kubernetes documents.
var describedElsewhere = []string{"spec.mode.hpa.behavior", "spec.mode.hpa.metrics", "status.conditions"}

// schema has the parts of an OpenAPI schema that a page shows.
type schema struct {
	Description string
	Type        string
	Default     any
	Enum        []string
	Minimum     *int
	Maximum     *int
	Required    []string
	Items       *schema
	Properties  map[string]*schema
	Rules       []rule `json:"x-kubernetes-validations"`
}

type rule struct{ Message string }

type definition struct {
	Spec struct {
		Names    struct{ Kind string }
		Versions []struct {
			Name   string
			Schema struct {
				OpenAPIV3Schema *schema `json:"openAPIV3Schema"`
			}
		}
	}
}

// Page returns the page for the first version of the definition. The source is the name of its file.
func Page(source string, text []byte) (string, error) {
	d := definition{}
	if err := yaml.Unmarshal(text, &d); err != nil {
		return "", fmt.Errorf("reading %s: %w", source, err)
	}
	if len(d.Spec.Versions) == 0 || d.Spec.Versions[0].Schema.OpenAPIV3Schema == nil {
		return "", fmt.Errorf("%s has no version with a schema", source)
	}
	version := d.Spec.Versions[0]
	root := version.Schema.OpenAPIV3Schema
	b := strings.Builder{}
	fmt.Fprintf(&b, "# The fields of a %s\n\n%s%s", d.Spec.Names.Kind, wrap("The API version is `drydock.dev/"+version.Name+"`."),
		wrap(fmt.Sprintf("This page is generated from `%s`: run `make generate golden`.", source)))
	for _, part := range []string{"spec", "status"} {
		if root.Properties[part] == nil {
			return "", fmt.Errorf("the schema of %s has no %s", source, part)
		}
		fmt.Fprintf(&b, "\n## %s\n\n", part)
		items(&b, root.Properties[part], part)
	}
	return b.String(), nil
}

// items writes an item for each field of the object at the path, and for their fields.
func items(b *strings.Builder, object *schema, path string) {
	pre := object.Properties["pre"] // all hooks have the same fields, which are shown once
	for _, name := range slices.Sorted(maps.Keys(object.Properties)) {
		field, at := object.Properties[name], path+"."+name
		kind, inner := field.Type, field
		if field.Type == "array" && field.Items != nil {
			kind, inner, at = "list of "+field.Items.Type, field.Items, at+"[]"
		}
		shown := ""
		if field.Default != nil && kind != "object" {
			shown = fmt.Sprintf(", default `%v`", field.Default)
		}
		means := meaning(name, field, slices.Contains(object.Required, name))
		same := pre != nil && field != pre && len(field.Properties) > 0 && reflect.DeepEqual(field.Properties, pre.Properties)
		if same {
			means = strings.TrimSpace(means + " Its fields are those of `" + path + ".pre`.")
		}
		b.WriteString(strings.TrimRight(wrapItem(strings.TrimSpace(fmt.Sprintf("- `%s` (%s%s): %s", at, kind, shown, means))), ":\n") + "\n")
		if !same && !slices.Contains(describedElsewhere, strings.TrimSuffix(at, "[]")) {
			items(b, inner, at)
		}
	}
}

// meaning returns the description of the field and the constraints on its value, on one line.
func meaning(name string, field *schema, required bool) string {
	words := strings.Fields(description(name, field.Description))
	if required {
		words = append(words, "Required.")
	}
	if len(field.Enum) > 0 {
		words = append(words, "One of "+strings.Join(field.Enum, ", ")+".")
	}
	if field.Minimum != nil {
		words = append(words, fmt.Sprintf("At least %d.", *field.Minimum))
	}
	if field.Maximum != nil {
		words = append(words, fmt.Sprintf("At most %d.", *field.Maximum))
	}
	for _, r := range field.Rules {
		words = append(words, "Rule: "+r.Message+".")
	}
	return strings.Join(words, " ")
}

// description returns the description without the field's name in Go at its beginning.
func description(name, text string) string {
	first, rest, _ := strings.Cut(text, " ")
	if !strings.EqualFold(first, name) {
		return text
	}
	for _, verb := range []string{"is ", "are "} {
		if definition, found := strings.CutPrefix(rest, verb); found {
			return capital(definition)
		}
	}
	return "`" + name + "` " + rest
}
