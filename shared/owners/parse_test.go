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
  source: docs/pause.md
- operator: acme
  group: inner.example.com
  kinds: [{name: Part, plural: parts}]
  up: true
`

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
				Resume: AtReady,
				Source: "docs/pause.md",
			},
			{Operator: "acme", Group: "inner.example.com", Kinds: kinds("Part", "parts"), Up: true},
		}},
		"JSON is YAML too": {`[{"operator":"a","group":"a.b","kinds":[{"name":"A","plural":"as"}],"pause":[{"field":"spec.x","value":-1}]}]`,
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

// with is a row that is right but for what the test changes: each pair is a text and what stands in its place.
func with(pairs ...string) string {
	return strings.NewReplacer(pairs...).Replace(`- operator: acme
  group: acme.example.com
  kinds: [{name: Anvil, plural: anvils}]
  pause: [{field: spec.paused, value: true}]
`)
}

func TestMistakesAreNamed(t *testing.T) {
	const setting = "{field: spec.paused, value: true}"
	if _, err := Parse(with()); err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{
		"no YAML":                        "- operator: [",
		"a key twice":                    "- operator: a\n  operator: b",
		"no list":                        "operator: acme",
		"a row that is text":             "- acme",
		"a row that is empty":            "-",
		"an unknown field":               with("pause:", "pauses:"),
		"an unknown field of a kind":     with("plural:", "plurals:"),
		"an unknown field of a setting":  with("value:", "is:"),
		"a field of nobody's":            with("group:", "hidden: true\n  group:"),
		"no operator":                    with("operator: acme", "source: x"),
		"an operator with capitals":      with("operator: acme", "operator: Acme"),
		"an operator that is the word":   with("operator: acme", "operator: all"),
		"an operator that is a number":   with("operator: acme", "operator: 7"),
		"no group":                       with("acme.example.com", `""`),
		"a group of no name":             with("acme.example.com", "acme_.example.com"),
		"every group":                    with("acme.example.com", `"*.example.com"`),
		"the group of StatefulSets":      with("acme.example.com", "apps"),
		"the group of Jobs":              with("acme.example.com", "batch"),
		"the group of Roles":             with("acme.example.com", "rbac.authorization.k8s.io"),
		"the group of webhooks":          with("acme.example.com", "admissionregistration.k8s.io"),
		"Kubernetes itself":              with("acme.example.com", "k8s.io"),
		"our own group":                  with("acme.example.com", "x.drydock.dev"),
		"no kinds":                       with("kinds: [{name: Anvil, plural: anvils}]", "kinds: []"),
		"kinds that are text":            with("[{name: Anvil, plural: anvils}]", "Anvil"),
		"a kind that is text":            with("{name: Anvil, plural: anvils}", "Anvil"),
		"a kind without a name":          with("name: Anvil, ", ""),
		"a kind of no name":              with("name: Anvil", "name: An-vil!"),
		"a kind without a plural":        with(", plural: anvils", ""),
		"every kind":                     with("plural: anvils", `plural: "*"`),
		"a subresource":                  with("plural: anvils", "plural: anvils/status"),
		"neither pause nor stop nor up":  with("  pause: ["+setting+"]\n", ""),
		"an end of nobody's":             with("group:", "resume: later\n  group:"),
		"up, and a pause":                with("group:", "up: true\n  group:"),
		"up that is text":                with("group:", "up: \"true\"\n  group:"),
		"settings that are no list":      with("["+setting+"]", setting),
		"a setting that is text":         with(setting, "spec.paused"),
		"a setting of no place":          with("field: spec.paused, ", ""),
		"a setting of two places":        with("field:", "label: a, field:"),
		"a setting twice":                with(setting, setting+", "+setting),
		"a key of no name":               with(setting, `{annotation: "a b", value: x}`),
		"a key that is empty":            with(setting, `{annotation: "", value: x}`),
		"a key with capitals":            with(setting, `{label: Acme.com/paused, value: x}`),
		"a key of ours":                  with(setting, `{annotation: drydock.dev/owner-paused, value: x}`),
		"a label of ours":                with(setting, `{label: drydock.dev/managed, value: x}`),
		"a label's value that is none":   with(setting, `{label: paused, value: a b}`),
		"a value that is missing":        with(", value: true", ""),
		"a value that is empty":          with(setting, `{annotation: paused, value: ""}`),
		"a value that needs quotes":      with(setting, `{annotation: paused, value: yes}`),
		"a number that needs quotes":     with(setting, `{label: paused, value: 1}`),
		"a value that is a list":         with("value: true", "value: [true]"),
		"a value that is a part":         with("value: true", "value: 0.5"),
		"a value that is too large":      with("value: true", "value: 9223372036854775808"),
		"a field that counts by being":   with("value: true", "presence: true"),
		"presence that is text":          with(setting, `{annotation: paused, presence: "yes"}`),
		"the finalizers":                 with("spec.paused", "metadata.finalizers"),
		"the owners":                     with("spec.paused", "metadata.ownerReferences"),
		"the status":                     with("spec.paused", "status.paused"),
		"a field like spec":              with("spec.paused", "specs.paused"),
		"the whole spec":                 with("spec.paused", "spec"),
		"a path with an end of a name":   with("spec.paused", "spec."),
		"a path with an empty name":      with("spec.paused", "spec..paused"),
		"a path of another kind":         with("spec.paused", "/spec/paused"),
		"an item by its index":           with("field: spec.paused", `field: "spec.parts[0].paused"`),
		"an item by its name":            with("field: spec.paused", `field: "spec.parts[name=a].paused"`),
		"an item itself":                 with("field: spec.paused", `field: "spec.parts[*]"`),
		"a kind in two rows":             with() + with("acme\n", "other\n"),
		"a kind twice in a row":          with("}]\n  pause", "}, {name: Anvil, plural: anvils}]\n  pause"),
		"an anchor":                      with("acme\n", "&a acme\n"),
		"more rows than anybody needs":   strings.Repeat("- {}\n", mostRows+1),
		"more text than anybody needs":   strings.Repeat("#", bounded.MaxYAML+1),
		"an operator that is too long":   with("operator: acme", "operator: "+strings.Repeat("a", 100)),
		"a list in a list, and so on on": strings.Repeat("[", 20000),
	}
	file := golden.Open(t)
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(texts[name])
			if err == nil || got != nil {
				t.Fatalf("%v, %v", got, err)
			}
			file.Entry(t, name, err.Error())
			if _, err := FromSettings(texts[name]); err == nil {
				t.Error("a table is made of it all the same")
			}
		})
	}
}

// TestAllMistakesAtOnce: nobody wants to find them one by one.
func TestAllMistakesAtOnce(t *testing.T) {
	_, err := Parse(with("acme.example.com", "apps", "value: true", "value: 0.5") + with("acme\n", "ACME\n", "spec.paused", "status.x", "Anvil", "Hammer") + "- 7\n")
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

func TestFromSettings(t *testing.T) {
	none, err := FromSettings("")
	if diff := cmp.Diff(BuiltIn(), none); err != nil || diff != "" {
		t.Errorf("%v (-built in +got)\n%s", err, diff)
	}
	registry, err := FromSettings(acme + `
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
		t.Error("the other kinds of the row are on too")
	}
}

// FuzzParse: whatever the text, it is rows that can be worked with, or an error.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", acme, with(), with("acme.example.com", "apps"), "- {}", "- 7", "[[", "{}", "a: b", "- kinds: [[{}]]", "- pause: {}",
		"- {pause: [{field: spec.a, value: 1e999}]}", "- {stop: [{label: a, presence: true}]}", "- !!binary x", "- ? {a: b}\n  : c", "--- a\n--- b", "- 0x7fffffffffffffff",
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
				object := custom(row, nil)
				if actions, err := row.Hold(by, "x", object, first); err == nil && !row.Held(by, after(t, object, actions, nil)) {
					t.Errorf("%s of %s does not hold", by, row.Operator)
				}
			}
		}
	})
}
