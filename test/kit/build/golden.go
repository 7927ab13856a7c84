package build

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/world"
	"drydock.dev/test/golden"
)

// Case is a situation and a decision. Its golden entry shows the situation, the plan, and how its writes change records.
type Case struct {
	// Sentence is the situation as a sentence.
	Sentence string
	// By is the function that decides.
	By api.Function
	// World is the observed world.
	World *world.Observed
	// Facts are further facts, in words: for example an error of the API server, or how long the function has waited.
	Facts []string
	// Decide makes the decision.
	Decide func() plan.Plan
	// Others are objects outside the world that the plan may write.
	Others []metav1.Object
}

// Golden compares the cases with the golden file of the test. It checks each decision as Guard does.
func Golden(t *testing.T, cases []Case) {
	t.Helper()
	file := golden.Open(t)
	for _, c := range cases {
		t.Run(c.Sentence, func(t *testing.T) {
			t.Helper()
			file.Entry(t, c.Sentence, entry(c, Guard(t, c.By, c.World, c.Decide, c.Others...)))
		})
	}
}

// entry renders the golden entry of a case.
func entry(c Case, p plan.Plan) string {
	var b strings.Builder
	for _, line := range append(Situation(c.World), c.Facts...) {
		b.WriteString(line + "\n")
	}
	b.WriteString(Plan(p, c.World, c.Others...))
	return b.String()
}

// Words renders a record on one line, as it is stored, with times relative to Now. It leaves out what most records of these tests have
// in common.
func Words(record any) string {
	fields, ok := document(record).(map[string]any)
	if !ok {
		return "no record"
	}
	for name, values := range usual {
		if slices.ContainsFunc(values, func(usual any) bool { return reflect.DeepEqual(document(usual), fields[name]) }) {
			delete(fields, name)
		}
	}
	var all []string
	if phase := fields["phase"]; phase != nil {
		all = append(all, fmt.Sprintf("%s %s", fields["kind"], phase))
		delete(fields, "kind")
		delete(fields, "phase")
	}
	return strings.Join(append(all, differentFields("", nil, fields)...), "; ")
}

// usual has the values of fields that Words leaves out.
var usual = map[string][]any{
	"version":   {api.RecordVersion},
	"operation": {ID, SleepID},
	"set":       {api.SetRef{Name: "web", UID: "uid-web"}},
	"attempt":   {1},
	"started":   {Now.Add(-time.Minute)},
}

// Plan renders a plan with an action a line. Below an action are the changes of the documents that it writes into its object: records in
// annotations, and the status. Objects are looked up as Guard does.
func Plan(p plan.Plan, o *world.Observed, others ...metav1.Object) string {
	var b strings.Builder
	fmt.Fprintf(&b, "plan: %s %s", p.Kind, p.Reason)
	if p.Detail != "" {
		fmt.Fprintf(&b, " (%s)", p.Detail)
	}
	if p.Soon {
		b.WriteString(", soon")
	}
	b.WriteString("\n")
	for _, a := range p.Actions {
		b.WriteString("- " + a.String() + "\n")
		for _, change := range changes(a, find(o, others, a)) {
			b.WriteString("  " + change + "\n")
		}
	}
	if p.Announce != "" {
		b.WriteString("-> " + strings.TrimPrefix(p.Announce, "dev.drydock.") + "\n")
	}
	if p.Wakes != nil {
		fmt.Fprintf(&b, "-> wakes %s/%s\n", p.Wakes.Namespace, p.Wakes.Name)
	}
	return b.String()
}

// changes returns the changed fields of the documents that the patch writes into the object.
func changes(a plan.Action, object metav1.Object) []string {
	var all []string
	for _, op := range a.Ops {
		after, ok := document(op.Value).(map[string]any)
		if !ok || op.Op == "test" {
			continue
		}
		keys := strings.Split(strings.TrimPrefix(op.Path, "/"), "/")
		before := document(object)
		for i, key := range keys {
			keys[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(key)
			fields, _ := before.(map[string]any)
			before = document(fields[keys[i]])
		}
		name := strings.TrimPrefix(keys[len(keys)-1], api.Prefix)
		former, _ := before.(map[string]any) // text that is no document counts as none
		all = append(all, differentFields(name+".", former, after)...)
	}
	return all
}

// document returns the JSON document of a value, or in a text. Other text is returned unchanged.
func document(value any) any {
	encoded, isText := value.(string)
	if !isText {
		text, err := json.Marshal(value)
		if err != nil {
			panic(err)
		}
		encoded = string(text)
	} else if !strings.HasPrefix(encoded, "{") {
		return value
	}
	decoder := json.NewDecoder(strings.NewReader(encoded))
	decoder.UseNumber()
	var decoded any
	if err := decoder.Decode(&decoded); err != nil {
		return value
	}
	return decoded
}

// differences returns the fields that differ, as "path: former -> present", or "path: present" if there was none.
func differences(path string, before, after any) []string {
	was, hadFields := before.(map[string]any)
	is, hasFields := after.(map[string]any)
	former, wasList := before.([]any)
	present, isList := after.([]any)
	var all []string
	switch {
	case hadFields && hasFields:
		return differentFields(path+".", was, is)
	case wasList && isList:
		for i := range max(len(former), len(present)) {
			all = append(all, differences(fmt.Sprintf("%s[%d]", path, i), element(former, i), element(present, i))...)
		}
		return all
	case reflect.DeepEqual(before, after):
		return nil
	case before == nil:
		return []string{fmt.Sprintf("%s: %s", path, words(after))}
	}
	return []string{fmt.Sprintf("%s: %s -> %s", path, words(before), words(after))}
}

// differentFields returns the differences of the fields, whose paths begin with the prefix.
func differentFields(prefix string, before, after map[string]any) []string {
	names := map[string]bool{}
	for name := range before {
		names[name] = true
	}
	for name := range after {
		names[name] = true
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		all = append(all, differences(prefix+name, before[name], after[name])...)
	}
	return all
}

// element returns the element of the list, or nil.
func element(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return nil
}

// words renders a value of a document. Times are relative to Now.
func words(value any) string {
	switch value := value.(type) {
	case nil:
		return "none"
	case map[string]any:
		return "{" + strings.Join(differentFields("", nil, value), ", ") + "}"
	case []any:
		var all []string
		for _, v := range value {
			all = append(all, words(v))
		}
		return "[" + strings.Join(all, ", ") + "]"
	case string:
		if fields, ok := document(value).(map[string]any); ok {
			return words(fields)
		}
		if at, err := time.Parse(time.RFC3339, value); err == nil {
			return at.Sub(Now).String()
		}
		if value == "" || strings.ContainsAny(value, " \n{}[],;:") {
			return strconv.Quote(value)
		}
		return value
	}
	return fmt.Sprint(value)
}
