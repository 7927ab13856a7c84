package owners

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime/schema"
	numbers "k8s.io/apimachinery/pkg/util/json"

	"drydock.dev/shared/bounded"
)

// maxRows bounds the list. A row has some 200 bytes.
const maxRows = 200

// userRow is a row as users write it. The tags are the names of its fields.
type userRow struct {
	Operator string        `json:"operator"`
	Group    string        `json:"group"`
	Kinds    []userKind    `json:"kinds"`
	Pause    []userSetting `json:"pause"`
	Stop     []userSetting `json:"stop"`
	Resume   ResumeMoment  `json:"resume"`
	OptIn    OptIn         `json:"optIn"`
	Up       bool          `json:"up"`
	Storage  []userStorage `json:"storage"`
	// OnDifference is text, so that a wrong word is a mistake of the row.
	OnDifference OnDifference `json:"onDifference"`
	Source       string       `json:"source"`
}

// builtInRow is a row of the built-in table.
type builtInRow struct {
	userRow
	// Unverified switches the row off. YAML reads the word off as false, also as a name.
	Unverified bool   `json:"unverified"`
	Ran        string `json:"ran"`
}

type userKind struct {
	Name   string `json:"name"`
	Plural string `json:"plural"`
}

type userStorage struct {
	Template string `json:"template"`
	Size     string `json:"size"`
	Class    string `json:"class"`
	SetName  string `json:"setName"`
}

type userSetting struct {
	Annotation *string `json:"annotation"`
	Label      *string `json:"label"`
	Field      *string `json:"field"`
	Value      any     `json:"value"`
	Presence   bool    `json:"presence"`
}

// Parse reads the rows of users: a YAML list, as docs/owners.md describes it. The error names all mistakes, each with the number of its
// row, from 1, and the field. Empty text means no rows.
func Parse(text string) (Registry, error) { return parse(text, reflect.TypeFor[userRow]()) }

// parse reads rows that have the fields of the type.
func parse(text string, fields reflect.Type) (Registry, error) {
	contents, rows, err := parseList(text)
	if err != nil {
		return nil, err
	}
	var (
		registry Registry
		all      []error
	)
	for i, content := range contents {
		row, found := parseRow(content, rows[i], fields)
		registry = append(registry, row)
		for _, m := range found {
			all = append(all, rowError(i+1, row, m.field, m.text))
		}
	}
	all = append(all, registry.duplicateKinds()...)
	if len(all) > 0 {
		return nil, errors.Join(all...)
	}
	return registry, nil
}

// parseList reads the list of rows. It returns each row twice: as content of any form, and as JSON.
func parseList(text string) (contents []any, rows []json.RawMessage, err error) {
	doc, err := bounded.ToJSON(text)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the rows of owners: %w", err)
	}
	var content any
	if err := numbers.Unmarshal(doc, &content); err != nil {
		return nil, nil, fmt.Errorf("reading the rows of owners: %w", err)
	}
	contents, isList := content.([]any)
	switch {
	case content == nil:
		return nil, nil, nil
	case !isList:
		return nil, nil, errors.New("the rows of owners must be a list; write each row as in docs/owners.md")
	case len(contents) > maxRows:
		return nil, nil, fmt.Errorf("there are %d rows of owners, at most %d are read", len(contents), maxRows)
	}
	if err := json.Unmarshal(doc, &rows); err != nil {
		return nil, nil, fmt.Errorf("reading the rows of owners: %w", err)
	}
	return contents, rows, nil
}

// parseRow reads one row that has the fields of the type. A field of a wrong form is a mistake and counts as empty.
func parseRow(content any, text []byte, fields reflect.Type) (Row, mistakes) {
	found := formMistakes(content, fields, "")
	object, isObject := content.(map[string]any)
	if !isObject {
		return Row{}, found
	}
	var decoded builtInRow
	var wrongType *json.UnmarshalTypeError // it is among the mistakes
	if err := numbers.Unmarshal(text, &decoded); err != nil && !errors.As(err, &wrongType) {
		found.add("row", err.Error())
	}
	row := Row{Operator: decoded.Operator, Group: decoded.Group, Resume: decoded.Resume, PausedThroughController: decoded.Up,
		Unverified: decoded.Unverified, Source: decoded.Source}
	row.OptIn, row.Ran = decoded.OptIn, decoded.Ran
	for _, kind := range objectsOf(object["kinds"], decoded.Kinds) {
		row.Kinds = append(row.Kinds, Kind(kind))
	}
	row.OnDifference = decoded.OnDifference
	for _, storage := range objectsOf(object["storage"], decoded.Storage) {
		row.Storage = append(row.Storage, Storage(storage))
	}
	row.Pause = settingsOf(ByPause, objectsOf(object["pause"], decoded.Pause), &found)
	row.Stop = settingsOf(ByStop, objectsOf(object["stop"], decoded.Stop), &found)
	return row, append(found, row.mistakes()...)
}

// objectsOf returns the items that are objects in the content. The others are mistakes already.
func objectsOf[T any](content any, items []T) []T {
	list, _ := content.([]any)
	var objects []T
	for i, item := range items {
		if _, isObject := list[i].(map[string]any); isObject {
			objects = append(objects, item)
		}
	}
	return objects
}

// settingsOf returns the settings for the means. A setting must name exactly one place.
func settingsOf(by Means, decoded []userSetting, found *mistakes) []Setting {
	var all []Setting
	for i, d := range decoded {
		s, places := Setting{Value: d.Value, Presence: d.Presence}, 0
		if s.Presence && s.Value == nil {
			s.Value = "true"
		}
		for _, p := range []struct {
			place Place
			key   *string
		}{{Annotation, d.Annotation}, {Label, d.Label}, {Field, d.Field}} {
			if p.key != nil {
				s.In, s.Key, places = p.place, *p.key, places+1
			}
		}
		if places != 1 {
			found.add(fmt.Sprintf("%s[%d].%s", by, i, Annotation), "name one annotation, one label or one field")
		}
		all = append(all, s)
	}
	return all
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

// rowError names the row by as much of its operator as a name may have.
func rowError(number int, row Row, field, text string) error {
	return fmt.Errorf("row %d (operator %.63q): %s: %s", number, row.Operator, field, text)
}
