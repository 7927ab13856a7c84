package owners

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	numbers "k8s.io/apimachinery/pkg/util/json"

	"drydock.dev/shared/bounded"
)

// maxRows bounds the list. A row has some 200 bytes.
const maxRows = 200

// Parse reads the rows of users: a YAML list, as docs/owners.md describes it. The error names all mistakes, each with the number of its
// row, from 1, and the field. Empty text means no rows.
func Parse(text string) (Registry, error) {
	list, err := parseList(text)
	if err != nil {
		return nil, err
	}
	var (
		registry Registry
		all      []error
	)
	for i, content := range list {
		row, errs := parseRow(i+1, content)
		registry, all = append(registry, row), append(all, errs...)
	}
	all = append(all, registry.duplicateKinds()...)
	if len(all) > 0 {
		return nil, errors.Join(all...)
	}
	return registry, nil
}

// parseList reads the list of rows.
func parseList(text string) ([]any, error) {
	doc, err := bounded.ToJSON(text)
	if err != nil {
		return nil, fmt.Errorf("reading the rows of owners: %w", err)
	}
	var content any
	if err := numbers.Unmarshal(doc, &content); err != nil {
		return nil, fmt.Errorf("reading the rows of owners: %w", err)
	}
	list, ok := content.([]any)
	if !ok && content != nil {
		return nil, errors.New("the rows of owners must be a list; write each row as in docs/owners.md")
	}
	if len(list) > maxRows {
		return nil, fmt.Errorf("there are %d rows of owners, at most %d are read", len(list), maxRows)
	}
	return list, nil
}

// duplicateKinds returns an error for each kind that more than one row names.
func (r Registry) duplicateKinds() []error {
	var all []error
	seen := map[schema.GroupKind]int{}
	for i, row := range r {
		for _, k := range row.Kinds {
			kind := schema.GroupKind{Group: row.Group, Kind: k.Name}
			if before, ok := seen[kind]; ok && k.Name != "" {
				all = append(all, rowError(i+1, row, "kinds", fmt.Sprintf("row %d already names %s of the same group", before, k.Name)))
			}
			seen[kind] = i + 1
		}
	}
	return all
}

// fields reads an object of the text and collects its mistakes.
type fields struct {
	content map[string]any
	path    string // within the row, with a dot at the end; empty for the row itself
	found   *mistakes
}

// parseRow reads one row.
func parseRow(number int, content any) (Row, []error) {
	var found mistakes
	f := fieldsOf(content, "", &found)
	f.refuseUnknown("operator", "group", "kinds", "pause", "stop", "resume", "up", "source")
	row := Row{Operator: f.text("operator"), Group: f.text("group"), Resume: Moment(f.text("resume")), Up: f.flag("up"),
		Source: f.text("source")}
	for _, kind := range f.list("kinds") {
		kind.refuseUnknown("name", "plural")
		row.Kinds = append(row.Kinds, Kind{Name: kind.text("name"), Plural: kind.text("plural")})
	}
	row.Pause, row.Stop = f.settings(ByPause), f.settings(ByStop)
	if f.content != nil {
		found = append(found, row.mistakes()...)
	}
	var errs []error
	for _, m := range found {
		errs = append(errs, rowError(number, row, m.field, m.text))
	}
	return row, errs
}

// rowError names the row by as much of its operator as a name may have.
func rowError(number int, row Row, field, text string) error {
	return fmt.Errorf("row %d (operator %.63q): %s: %s", number, row.Operator, field, text)
}

// fieldsOf returns the fields of the content.
func fieldsOf(content any, path string, found *mistakes) fields {
	m, ok := content.(map[string]any)
	if !ok {
		found.add(cmp.Or(path, "row"), "must consist of names with values")
	}
	if path != "" {
		path += "."
	}
	return fields{content: m, path: path, found: found}
}

func (f fields) add(field, text string, args ...any) {
	f.found.add(f.path+field, fmt.Sprintf(text, args...))
}

// refuseUnknown adds a mistake for each other field.
func (f fields) refuseUnknown(known ...string) {
	for _, field := range slices.Sorted(maps.Keys(f.content)) {
		if !slices.Contains(known, field) {
			f.add(field, "unknown field; the fields are %s", strings.Join(known, ", "))
		}
	}
}

func (f fields) text(field string) string {
	text, ok := f.content[field].(string)
	if !ok && f.content[field] != nil {
		f.add(field, "must be text; put it in quotes")
	}
	return text
}

func (f fields) flag(field string) bool {
	flag, ok := f.content[field].(bool)
	if !ok && f.content[field] != nil {
		f.add(field, "must be true or false")
	}
	return flag
}

func (f fields) list(field string) []fields {
	list, ok := f.content[field].([]any)
	if !ok && f.content[field] != nil {
		f.add(field, "must be a list")
	}
	var items []fields
	for i, content := range list {
		if item := fieldsOf(content, fmt.Sprintf("%s[%d]", field, i), f.found); item.content != nil {
			items = append(items, item)
		}
	}
	return items
}

// settings reads the settings of the means.
func (f fields) settings(by Means) []Setting {
	var all []Setting
	for _, item := range f.list(string(by)) {
		item.refuseUnknown(string(Annotation), string(Label), string(Field), "value", "presence")
		s := Setting{Value: item.content["value"], Presence: item.flag("presence")}
		if s.Presence && s.Value == nil {
			s.Value = "true"
		}
		places := 0
		for _, place := range []Place{Annotation, Label, Field} {
			if key := item.text(string(place)); item.content[string(place)] != nil {
				s.In, s.Key, places = place, key, places+1
			}
		}
		if places != 1 {
			item.add(string(Annotation), "name one annotation, one label or one field")
		}
		all = append(all, s)
	}
	return all
}
