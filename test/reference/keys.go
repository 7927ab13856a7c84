package reference

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"drydock.dev/shared/api"
)

// Topic is a section of the page of keys.
type Topic struct {
	Title string `json:"title"`
	Keys  []Key  `json:"keys"`
}

// Key is an annotation, a label, a finalizer or a scheduling gate, as the page of keys describes it.
type Key struct {
	Name    string `json:"key"` // without the prefix drydock.dev/, or with another one
	Kind    string `json:"kind"`
	On      string `json:"object"`
	Meaning string `json:"meaning"` // empty if the constant's comment has the meaning
	Format  string `json:"format"`
	Example string `json:"example"`
	Written string `json:"written"`
	Read    string `json:"read"`
	Removed string `json:"removed"`
}

// String returns the whole key.
func (k Key) String() string {
	if strings.Contains(k.Name, "/") {
		return k.Name
	}
	return api.Prefix + k.Name
}

// id distinguishes keys with the same name and different kinds.
func (k Key) id() string { return k.Kind + " " + k.String() }

// Topics parses keys.yaml.
func Topics(text []byte) ([]Topic, error) {
	var topics []Topic
	if err := yaml.UnmarshalStrict(text, &topics); err != nil {
		return nil, fmt.Errorf("reading the keys: %w", err)
	}
	return topics, nil
}

// KeyConstants returns the meanings of the constants that are keys, by kind and key. A constant that names no kind is an error.
func KeyConstants(constants []Constant) (map[string]string, error) {
	meanings := map[string]string{}
	for _, c := range constants {
		kind := kindOfKey(c)
		if kind == "" {
			return nil, fmt.Errorf("constant %s=%q: end its name with Annotation, Label, Finalizer or Gate", c.Name, c.Value)
		}
		meanings[Key{Name: c.Value, Kind: kind}.id()] = c.Doc
	}
	return meanings, nil
}

func kindOfKey(c Constant) string {
	for suffix, kind := range map[string]string{"annotation": "annotation", "label": "label", "finalizer": "finalizer",
		"gate": "scheduling gate"} {
		if strings.HasSuffix(strings.ToLower(c.Name), suffix) {
			return kind
		}
	}
	return ""
}

// KeysPage renders the keys. The meanings are those of KeyConstants. A constant without a key in the topics is an error, as is a key
// without a meaning.
func KeysPage(topics []Topic, meanings map[string]string) (string, error) {
	var index, sections strings.Builder
	left := map[string]bool{}
	for id := range meanings {
		left[id] = true
	}
	for _, topic := range topics {
		var links []string
		fmt.Fprintf(&sections, "\n## %s\n", topic.Title)
		for _, k := range topic.Keys {
			heading := k.Kind + " " + k.String()
			links = append(links, fmt.Sprintf("[%s](#%s)", k.Name, anchor(heading)))
			if err := describe(&sections, heading, k, meanings[k.id()]); err != nil {
				return "", err
			}
			delete(left, k.id())
		}
		index.WriteString(wrapItem("- **" + topic.Title + "**: " + strings.Join(links, ", ")))
	}
	for id := range left {
		return "", fmt.Errorf("%s is not in test/reference/keys.yaml. Describe it there", id)
	}
	return "# Annotations, labels and finalizers\n\n" + wrap("Every key that Drydock reads or writes on objects. Durations have Go's "+
		"format, for example `90s` or `1h30m`. Times have the format RFC 3339. \"Set\" means StatefulSet.") +
		wrap("This page is generated from `shared/api/keys.go` and `test/reference/keys.yaml`: run `make golden`.") + "\n" +
		index.String() + sections.String(), nil
}

// describe writes the section of a key.
func describe(b *strings.Builder, heading string, k Key, comment string) error {
	meaning := cmp.Or(k.Meaning, comment)
	if meaning == "" || k.Written == "" || k.Read == "" || k.Removed == "" || k.On == "" || k.Format == "" && slices.Contains(
		[]string{"annotation", "label"}, k.Kind) {
		return fmt.Errorf("%s lacks a meaning, an object, a format, a writer, a reader or its removal: %+v", heading, k)
	}
	kind, key, _ := strings.Cut(heading, k.String())
	fmt.Fprintf(b, "\n### %s`%s`%s\n\n%s\n", capital(kind), k, key, wrap(strings.Join(strings.Fields(meaning), " ")))
	items := []struct{ name, text string }{{"Object", k.On}, {"Format", k.Format}, {"Example", example(k)}, {"Written by", k.Written},
		{"Read by", k.Read}, {"Removed", k.Removed}}
	for _, item := range items {
		if item.text != "" {
			b.WriteString(wrapItem(fmt.Sprintf("- %s: %s", item.name, strings.Join(strings.Fields(item.text), " "))))
		}
	}
	return nil
}

func example(k Key) string {
	if k.Example == "" {
		return ""
	}
	return fmt.Sprintf("`%s=%s`", k, k.Example)
}
