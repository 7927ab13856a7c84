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
	"sigs.k8s.io/yaml"
)

const (
	// mostText is the longest text that is read, in bytes. A row has some 200.
	mostText = 64 << 10
	mostRows = 200
)

// Parse reads rows that people have written: a list in YAML, as docs/owners.md has it. The error has all mistakes, each
// with the number of its row, from 1, and the field. No text is no rows.
func Parse(text string) (Registry, error) {
	list, err := rows(text)
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
	all = append(all, registry.twice()...)
	if len(all) > 0 {
		return nil, errors.Join(all...)
	}
	return registry, nil
}

// rows reads the list.
func rows(text string) ([]any, error) {
	if len(text) > mostText {
		return nil, fmt.Errorf("the rows of owners have %d bytes, at most %d are read", len(text), mostText)
	}
	// Some hundred bytes of anchors stand for gigabytes.
	if strings.Contains(text, "&") {
		return nil, errors.New(`the rows of owners have a "&": anchors are not read; write what they stand for, and "and" in words`)
	}
	doc, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("reading the rows of owners: %w", err)
	}
	var content any
	if err := numbers.Unmarshal(doc, &content); err != nil {
		return nil, fmt.Errorf("reading the rows of owners: %w", err)
	}
	list, ok := content.([]any)
	if !ok && content != nil {
		return nil, errors.New("the rows of owners are no list; write each row as in docs/owners.md")
	}
	if len(list) > mostRows {
		return nil, fmt.Errorf("there are %d rows of owners, at most %d are read", len(list), mostRows)
	}
	return list, nil
}

// twice are the kinds that more than one row is about.
func (r Registry) twice() []error {
	var all []error
	seen := map[schema.GroupKind]int{}
	for i, row := range r {
		for _, k := range row.Kinds {
			kind := schema.GroupKind{Group: row.Group, Kind: k.Name}
			if before, ok := seen[kind]; ok && k.Name != "" {
				all = append(all, wrong(i+1, row, "kinds", fmt.Sprintf("row %d is about %s of the same group already", before, k.Name)))
			}
			seen[kind] = i + 1
		}
	}
	return all
}

// fields reads an object of the text, and collects what is wrong with it.
type fields struct {
	content map[string]any
	path    string // in the row, with a dot at its end; empty for the row itself
	found   *mistakes
}

func parseRow(number int, content any) (Row, []error) {
	var found mistakes
	f := fieldsOf(content, "", &found)
	f.only("operator", "group", "kinds", "pause", "stop", "resume", "up", "source")
	row := Row{Operator: f.text("operator"), Group: f.text("group"), Resume: Moment(f.text("resume")), Up: f.flag("up"), Source: f.text("source")}
	for _, kind := range f.list("kinds") {
		kind.only("name", "plural")
		row.Kinds = append(row.Kinds, Kind{Name: kind.text("name"), Plural: kind.text("plural")})
	}
	row.Pause, row.Stop = f.settings(ByPause), f.settings(ByStop)
	if f.content != nil {
		found = append(found, row.mistakes()...)
	}
	var errs []error
	for _, m := range found {
		errs = append(errs, wrong(number, row, m.field, m.text))
	}
	return row, errs
}

// wrong names the row by as much of its operator as a name may have.
func wrong(number int, row Row, field, text string) error {
	return fmt.Errorf("row %d (operator %.63q): %s: %s", number, row.Operator, field, text)
}

func fieldsOf(content any, path string, found *mistakes) fields {
	m, ok := content.(map[string]any)
	if !ok {
		found.add(cmp.Or(path, "row"), "it has no fields; write names with values")
	}
	if path != "" {
		path += "."
	}
	return fields{content: m, path: path, found: found}
}

func (f fields) add(field, text string, args ...any) {
	f.found.add(f.path+field, fmt.Sprintf(text, args...))
}

// only refuses all other fields.
func (f fields) only(known ...string) {
	for _, field := range slices.Sorted(maps.Keys(f.content)) {
		if !slices.Contains(known, field) {
			f.add(field, "there is no such field; there are %s", strings.Join(known, ", "))
		}
	}
}

func (f fields) text(field string) string {
	text, ok := f.content[field].(string)
	if !ok && f.content[field] != nil {
		f.add(field, "it is no text; put it in quotes")
	}
	return text
}

func (f fields) flag(field string) bool {
	flag, ok := f.content[field].(bool)
	if !ok && f.content[field] != nil {
		f.add(field, "write true or false")
	}
	return flag
}

func (f fields) list(field string) []fields {
	list, ok := f.content[field].([]any)
	if !ok && f.content[field] != nil {
		f.add(field, "it is no list")
	}
	var items []fields
	for i, content := range list {
		if item := fieldsOf(content, fmt.Sprintf("%s[%d]", field, i), f.found); item.content != nil {
			items = append(items, item)
		}
	}
	return items
}

// settings reads the list of the means.
func (f fields) settings(by Means) []Setting {
	var all []Setting
	for _, item := range f.list(string(by)) {
		item.only(string(Annotation), string(Label), string(Field), "value", "presence")
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
