package owners

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

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
