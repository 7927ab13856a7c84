package owners

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"drydock.dev/shared/api"
)

// mistake is a mistake in a field of a row, with the field's name in the ConfigMap.
type mistake struct{ field, text string }

// mistakes collects the mistakes of a row.
type mistakes []mistake

func (m *mistakes) add(field string, texts ...string) {
	for _, text := range texts {
		*m = append(*m, mistake{field, text})
	}
}

// mistakes returns why the row cannot be used or would be dangerous.
func (r Row) mistakes() mistakes {
	var found mistakes
	found.add("operator", operatorMistakes(r.Operator)...)
	found.add("group", groupMistakes(r.Group)...)
	if len(r.Kinds) == 0 {
		found.add("kinds", "is empty; name at least one kind")
	}
	for i, k := range r.Kinds {
		found.add(fmt.Sprintf("kinds[%d].name", i), kindMistakes(k.Name)...)
		found.add(fmt.Sprintf("kinds[%d].plural", i), pluralMistakes(k.Plural)...)
	}
	switch settings := len(r.Pause) + len(r.Stop); {
	case settings == 0 && !r.PausedThroughController:
		found.add("pause", "the row needs pause, stop or up")
	case settings > 0 && r.PausedThroughController:
		found.add("up", "a resource that is paused through its controller has no pause and no stop")
	}
	switch {
	case r.Resume != "" && r.Resume != AtScaled && r.Resume != AtReady:
		found.add("resume", fmt.Sprintf("%.63q is unknown; write %s or %s", r.Resume, AtScaled, AtReady))
	case r.Resume != "" && len(r.Pause) == 0:
		found.add("resume", "applies only to a pause, and the row has none")
	}
	if !slices.Contains([]OptIn{"", OptInSet, OptInResource, OptInCreation}, r.OptIn) {
		found.add("optIn", fmt.Sprintf("%.63q is unknown; write %s, %s or %s", r.OptIn, OptInSet, OptInResource, OptInCreation))
	}
	return slices.Concat(found, settingMistakes(ByPause, r.Pause), settingMistakes(ByStop, r.Stop), r.storageMistakes())
}

// settingMistakes returns the mistakes in the settings of the means.
func settingMistakes(by Means, settings []Setting) mistakes {
	var found mistakes
	for i, s := range settings {
		path := fmt.Sprintf("%s[%d].", by, i)
		for _, m := range s.mistakes() {
			found.add(path+m.field, m.text)
		}
		if slices.ContainsFunc(settings[:i], func(o Setting) bool { return o.In == s.In && o.Key == s.Key }) {
			found.add(path+string(s.In), "is listed twice")
		}
	}
	return found
}

// operatorMistakes returns the mistakes in an operator's name.
func operatorMistakes(name string) []string {
	switch name {
	case "":
		return []string{"is missing"}
	case "all":
		return []string{"all stands for every operator; choose another name"}
	}
	return validation.IsDNS1123Label(name)
}

// CheckGroup returns an error if the API group cannot have operators that Drydock pauses.
func CheckGroup(group string) error {
	if mistakes := groupMistakes(group); len(mistakes) > 0 {
		return fmt.Errorf("the API group %.100s", strings.Join(mistakes, ", "))
	}
	return nil
}

// groupMistakes also refuses the groups of Kubernetes itself, so that no row can make Drydock write Roles or webhooks. The group of a
// CustomResourceDefinition has a dot (apiextensions), and k8s.io belongs to Kubernetes.
func groupMistakes(group string) []string {
	switch {
	case group == "":
		return []string{"is missing; the core group has no operators"}
	case !strings.Contains(group, "."), inDomain(group, "k8s.io"), inDomain(group, "kubernetes.io"):
		return []string{fmt.Sprintf("%q belongs to Kubernetes, which has no operators", group)}
	case inDomain(group, strings.TrimSuffix(api.Prefix, "/")):
		return []string{"belongs to Drydock"}
	}
	return validation.IsDNS1123Subdomain(group)
}

// inDomain reports whether the name is the domain or below it.
func inDomain(name, domain string) bool { return name == domain || strings.HasSuffix(name, "."+domain) }

// kindMistakes returns the mistakes that the API server finds in a CustomResourceDefinition. Most kinds begin with a capital, but not all
// do.
func kindMistakes(kind string) []string {
	if kind == "" {
		return []string{"is missing"}
	}
	return validation.IsDNS1035Label(strings.ToLower(kind))
}

// pluralMistakes allows no wildcard and no subresource, because a plural is part of the CustomResourceDefinition's name.
func pluralMistakes(plural string) []string {
	if plural == "" {
		return []string{"is missing"}
	}
	return validation.IsDNS1035Label(plural)
}

// mistakes returns why the API server would refuse or drop the setting, or why it must not be made.
func (s Setting) mistakes() mistakes {
	var found mistakes
	switch s.In {
	case Annotation, Label:
		found.add(string(s.In), keyMistakes(s.Key)...)
	case Field:
		found.add("field", pathMistakes(s.Key)...)
		if s.Presence {
			found.add("presence", "applies only to annotations and labels")
		}
	}
	found.add("value", s.valueMistakes()...)
	return found
}

// pathMistakes returns the mistakes in the path of a field.
func pathMistakes(path string) []string {
	if parsePath(path) == nil || withAllItems(path) != path {
		return []string{fmt.Sprintf("%q is not a path below spec, such as spec.paused or spec.parts[*].paused", path)}
	}
	return nil
}

// keyMistakes returns the mistakes in the key of an annotation or label.
func keyMistakes(key string) []string {
	if strings.HasPrefix(key, api.Prefix) {
		return []string{fmt.Sprintf("%q belongs to Drydock", key)}
	}
	return validation.IsQualifiedName(key)
}

// valueMistakes returns the mistakes in the setting's value.
func (s Setting) valueMistakes() []string {
	switch value := s.Value.(type) {
	case nil:
		return []string{"is missing"}
	case string:
		if value == "" {
			return []string{"is empty"}
		}
		if s.In == Label {
			return validation.IsValidLabelValue(value)
		}
		return nil
	case bool, int64:
		if s.In == Field {
			return nil
		}
		return []string{fmt.Sprintf("the value of an annotation or label must be text; write %q", fmt.Sprint(value))}
	}
	return []string{"must be text, true, false or a whole number"}
}

// formMistakes returns where the content does not have the form of the type: unknown fields, and values of another type. JSON decoders
// report only the first such mistake, without the index of its list item. The path leads to the content; it is empty for the row itself.
func formMistakes(content any, form reflect.Type, path string) mistakes {
	var found mistakes
	switch form.Kind() {
	case reflect.Pointer:
		return formMistakes(content, form.Elem(), path)
	case reflect.Struct:
		return objectMistakes(content, form, path)
	case reflect.Slice:
		list, isList := content.([]any)
		if !isList && content != nil {
			found.add(path, "must be a list")
		}
		for i, item := range list {
			found = append(found, formMistakes(item, form.Elem(), fmt.Sprintf("%s[%d]", path, i))...)
		}
	case reflect.String:
		if _, isText := content.(string); !isText && content != nil {
			found.add(path, "must be text; put it in quotes")
		}
	case reflect.Bool:
		if _, isBool := content.(bool); !isBool && content != nil {
			found.add(path, "must be true or false")
		}
	}
	return found
}

// objectMistakes is formMistakes for a struct. The tags of the struct are the names of its fields.
func objectMistakes(content any, form reflect.Type, path string) mistakes {
	var found mistakes
	object, isObject := content.(map[string]any)
	if !isObject {
		found.add(cmp.Or(path, "row"), "must consist of names with values")
		return found
	}
	if path != "" {
		path += "."
	}
	names, types := fieldsOf(form)
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if !slices.Contains(names, name) {
			found.add(path+name, "unknown field; the fields are "+strings.Join(names, ", "))
		}
	}
	for i, name := range names {
		found = append(found, formMistakes(object[name], types[i], path+name)...)
	}
	return found
}

// fieldsOf returns the names and types of a struct's fields, with those of embedded structs.
func fieldsOf(form reflect.Type) (names []string, types []reflect.Type) {
	for _, field := range reflect.VisibleFields(form) {
		if !field.Anonymous {
			names, types = append(names, field.Tag.Get("json")), append(types, field.Type)
		}
	}
	return names, types
}
