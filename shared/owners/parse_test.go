package owners

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"drydock.dev/shared/bounded"
	"drydock.dev/test/golden"
)

const acme = `
# What the shop's own operators take.
- operator: acme
  group: acme.example.com
  kinds:
    - {name: Anvil, plural: anvils}
    - name: hammer
      plural: hammers
  pause:
    - annotation: acme.example.com/skip
      value: "true"
    - label: paused
      presence: true
  stop:
    - field: spec.replicas
      value: 0
    - field: spec.sites[*].stopped
      value: true
    - field: spec.state
      value: "off"
  resume: ready
  optIn: resource
  source: docs/pause.md
- operator: acme
  group: inner.example.com
  kinds: [{name: Part, plural: parts}]
  up: true
`

// TestParse shows how each field of a row is read.
func TestParse(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want Registry
	}{
		"nothing":        {"", nil},
		"only a comment": {"# no rows\n", nil},
		"an empty list":  {"[]", nil},
		"each field": {acme, Registry{
			{
				Operator: "acme", Group: "acme.example.com", Kinds: kinds("Anvil", "anvils", "hammer", "hammers"),
				Pause: []Setting{annotation("acme.example.com/skip", "true"), {In: Label, Key: "paused", Value: "true", Presence: true}},
				Stop: []Setting{field("spec.replicas", int64(0)), field("spec.sites[*].stopped", true),
					field("spec.state", "off")},
				Resume: AtReady, OptIn: OptInResource,
				Source: "docs/pause.md",
			},
			{Operator: "acme", Group: "inner.example.com", Kinds: kinds("Part", "parts"), PausedThroughController: true},
		}},
		"JSON is YAML": {
			`[{"operator":"a","group":"a.b","kinds":[{"name":"A","plural":"as"}],"pause":[{"field":"spec.x","value":-1}]}]`,
			Registry{{Operator: "a", Group: "a.b", Kinds: kinds("A", "as"), Pause: []Setting{field("spec.x", int64(-1))}}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(tc.text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// rowWith is a valid row with changes: each pair is a text and its replacement.
func rowWith(pairs ...string) string {
	return strings.NewReplacer(pairs...).Replace(`- operator: acme
  group: acme.example.com
  kinds: [{name: Anvil, plural: anvils}]
  pause: [{field: spec.paused, value: true}]
`)
}

// TestParseNamesMistakes shows the message for each mistake.
func TestParseNamesMistakes(t *testing.T) {
	const setting = "{field: spec.paused, value: true}"
	if _, err := Parse(rowWith()); err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{
		"no YAML":                             "- operator: [",
		"a key twice":                         "- operator: a\n  operator: b",
		"no list":                             "operator: acme",
		"a row that is text":                  "- acme",
		"a row that is empty":                 "-",
		"an unknown field":                    rowWith("pause:", "pauses:"),
		"an unknown field of a kind":          rowWith("plural:", "plurals:"),
		"an unknown field of a setting":       rowWith("value:", "is:"),
		"an unused field name":                rowWith("group:", "hidden: true\n  group:"),
		"a field of built-in rows only":       rowWith("group:", "unverified: true\n  group:"),
		"no operator":                         rowWith("operator: acme", "source: x"),
		"an operator with capitals":           rowWith("operator: acme", "operator: Acme"),
		"an operator called all":              rowWith("operator: acme", "operator: all"),
		"an operator that is a number":        rowWith("operator: acme", "operator: 7"),
		"no group":                            rowWith("acme.example.com", `""`),
		"an invalid group":                    rowWith("acme.example.com", "acme_.example.com"),
		"every group":                         rowWith("acme.example.com", `"*.example.com"`),
		"the group of StatefulSets":           rowWith("acme.example.com", "apps"),
		"the group of Jobs":                   rowWith("acme.example.com", "batch"),
		"the group of Roles":                  rowWith("acme.example.com", "rbac.authorization.k8s.io"),
		"the group of webhooks":               rowWith("acme.example.com", "admissionregistration.k8s.io"),
		"Kubernetes itself":                   rowWith("acme.example.com", "k8s.io"),
		"a group of Drydock":                  rowWith("acme.example.com", "x.drydock.dev"),
		"no kinds":                            rowWith("kinds: [{name: Anvil, plural: anvils}]", "kinds: []"),
		"kinds that are text":                 rowWith("[{name: Anvil, plural: anvils}]", "Anvil"),
		"a kind that is text":                 rowWith("{name: Anvil, plural: anvils}", "Anvil"),
		"a kind without a name":               rowWith("name: Anvil, ", ""),
		"an invalid kind":                     rowWith("name: Anvil", "name: An-vil!"),
		"a kind without a plural":             rowWith(", plural: anvils", ""),
		"every kind":                          rowWith("plural: anvils", `plural: "*"`),
		"a subresource":                       rowWith("plural: anvils", "plural: anvils/status"),
		"no pause, stop or up":                rowWith("  pause: ["+setting+"]\n", ""),
		"an unknown resume":                   rowWith("group:", "resume: later\n  group:"),
		"an unknown place of the label":       rowWith("group:", "optIn: pod\n  group:"),
		"up, and a pause":                     rowWith("group:", "up: true\n  group:"),
		"up that is text":                     rowWith("group:", "up: \"true\"\n  group:"),
		"settings that are not a list":        rowWith("["+setting+"]", setting),
		"a setting that is text":              rowWith(setting, "spec.paused"),
		"a setting without a place":           rowWith("field: spec.paused, ", ""),
		"a setting with two places":           rowWith("field:", "label: a, field:"),
		"a setting twice":                     rowWith(setting, setting+", "+setting),
		"an invalid key":                      rowWith(setting, `{annotation: "a b", value: x}`),
		"a key that is empty":                 rowWith(setting, `{annotation: "", value: x}`),
		"a key with capitals":                 rowWith(setting, `{label: Acme.com/paused, value: x}`),
		"a key of Drydock":                    rowWith(setting, `{annotation: drydock.dev/owner-paused, value: x}`),
		"a label of Drydock":                  rowWith(setting, `{label: drydock.dev/managed, value: x}`),
		"an invalid label value":              rowWith(setting, `{label: paused, value: a b}`),
		"a value that is missing":             rowWith(", value: true", ""),
		"a value that is empty":               rowWith(setting, `{annotation: paused, value: ""}`),
		"a value that needs quotes":           rowWith(setting, `{annotation: paused, value: yes}`),
		"a number that needs quotes":          rowWith(setting, `{label: paused, value: 1}`),
		"a value that is a list":              rowWith("value: true", "value: [true]"),
		"a fraction as value":                 rowWith("value: true", "value: 0.5"),
		"a value that is too large":           rowWith("value: true", "value: 9223372036854775808"),
		"presence of a field":                 rowWith("value: true", "presence: true"),
		"presence that is text":               rowWith(setting, `{annotation: paused, presence: "yes"}`),
		"the finalizers":                      rowWith("spec.paused", "metadata.finalizers"),
		"the owners":                          rowWith("spec.paused", "metadata.ownerReferences"),
		"the status":                          rowWith("spec.paused", "status.paused"),
		"a field whose name begins like spec": rowWith("spec.paused", "specs.paused"),
		"the whole spec":                      rowWith("spec.paused", "spec"),
		"a path that ends with a dot":         rowWith("spec.paused", "spec."),
		"a path with an empty name":           rowWith("spec.paused", "spec..paused"),
		"a path with slashes":                 rowWith("spec.paused", "/spec/paused"),
		"an item by its index":                rowWith("field: spec.paused", `field: "spec.parts[0].paused"`),
		"an item by its name":                 rowWith("field: spec.paused", `field: "spec.parts[name=a].paused"`),
		"an item of a set":                    rowWith("field: spec.paused", `field: "spec.parts[set].paused"`),
		"an item itself":                      rowWith("field: spec.paused", `field: "spec.parts[*]"`),
		"a kind in two rows":                  rowWith() + rowWith("acme\n", "other\n"),
		"a kind twice in a row":               rowWith("}]\n  pause", "}, {name: Anvil, plural: anvils}]\n  pause"),
		"an anchor":                           rowWith("acme\n", "&a acme\n"),
		"too many rows":                       strings.Repeat("- {}\n", maxRows+1),
		"too much text":                       strings.Repeat("#", bounded.MaxYAML+1),
		"an operator that is too long":        rowWith("operator: acme", "operator: "+strings.Repeat("a", 100)),
		"deeply nested lists":                 strings.Repeat("[", 20000),
	}
	file := golden.Open(t)
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(texts[name])
			if err == nil || got != nil {
				t.Fatalf("%v, %v", got, err)
			}
			file.Entry(t, name, err.Error())
			if _, err := LoadRegistry(texts[name]); err == nil {
				t.Error("a table is made of it")
			}
		})
	}
}

// TestParseNamesAllMistakesAtOnce: users must not have to find the mistakes one by one.
func TestParseNamesAllMistakesAtOnce(t *testing.T) {
	_, err := Parse(rowWith("acme.example.com", "apps", "value: true", "value: 0.5") + rowWith("acme\n", "ACME\n", "spec.paused",
		"status.x", "Anvil", "Hammer") + "- 7\n")
	if err == nil {
		t.Fatal("no error")
	}
	var rows []string
	for _, line := range strings.Split(err.Error(), "\n") {
		rows = append(rows, strings.Join(strings.SplitN(line, ": ", 3)[:2], ": "))
	}
	want := []string{`row 1 (operator "acme"): group`, `row 1 (operator "acme"): pause[0].value`, `row 2 (operator "ACME"): operator`,
		`row 2 (operator "ACME"): pause[0].field`, `row 3 (operator ""): row`}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestFromSettings adds rows to the built-in table.
func TestFromSettings(t *testing.T) {
	none, err := LoadRegistry("")
	if diff := cmp.Diff(BuiltIn(), none); err != nil || diff != "" {
		t.Errorf("%v (-built in +got)\n%s", err, diff)
	}
	registry, err := LoadRegistry(acme + `
- operator: kubedb
  group: kubedb.com
  kinds: [{name: Postgres, plural: postgreses}]
  stop: [{field: spec.halted, value: true}]
`)
	if err != nil {
		t.Fatal(err)
	}
	for group, kind := range map[string]string{"acme.example.com": "hammer", "kubedb.com": "Postgres", "rabbitmq.com": "RabbitmqCluster"} {
		if _, ok := registry.Find(group, kind); !ok {
			t.Errorf("%s of %s is not found", kind, group)
		}
	}
	if _, ok := registry.Find("kubedb.com", "Redis"); ok {
		t.Error("the other kinds of the row are also on")
	}
}

// FuzzParse: any text leads to valid rows or to an error.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", acme, rowWith(), rowWith("acme.example.com", "apps"), "- {}", "- 7", "[[", "{}", "a: b",
		"- kinds: [[{}]]", "- pause: {}",
		"- {pause: [{field: spec.a, value: 1e999}]}", "- {stop: [{label: a, presence: " +
			"true}]}", "- !!binary x", "- ? {a: b}\n  : c", "--- a\n--- b", "- 0x7fffffffffffffff",
		"- <<: {operator: a}", "\x00", "- \xff", "- *a", "%YAML 9.9\n---\n", "- {1: 2, null: 3, true: 4}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		registry, err := Parse(text)
		if err != nil {
			return
		}
		for _, row := range registry {
			for _, m := range row.mistakes() {
				t.Errorf("%s: %s", m.field, m.text)
			}
			for _, by := range []Means{ByPause, ByStop} {
				object := customResource(row, nil)
				if actions, err := row.Hold(by, "x", object, first); err == nil && !row.Held(by, patched(t, object, actions, nil)) {
					t.Errorf("%s of %s does not hold", by, row.Operator)
				}
			}
		}
	})
}
