package redact

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/test/golden"
)

// filler sets each string of an object to another word, so that a kept word names its field.
type filler struct{ depth int }

func (f filler) fill(v reflect.Value, path string) {
	switch value := v.Addr().Interface().(type) {
	case *metav1.Time:
		*value = metav1.NewTime(time.Unix(1e9, 0))
		return
	case *metav1.MicroTime:
		*value = metav1.NewMicroTime(time.Unix(1e9, 0))
		return
	case *resource.Quantity:
		*value = resource.MustParse("1Gi")
		return
	case *intstr.IntOrString:
		*value = intstr.FromString("secret:" + path)
		return
	case *runtime.RawExtension:
		value.Raw = []byte(`{"secret":"secret:` + path + `"}`)
		return
	}
	f.fillKind(v, path)
}

func (f filler) fillKind(v reflect.Value, path string) {
	if f.depth > 14 {
		return
	}
	f.depth++
	switch v.Kind() {
	case reflect.String:
		v.SetString("secret:" + path)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), path)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte("secret:" + path))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		f.fill(v.Index(0), path+"[]")
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		key.SetString("key")
		f.fill(value, path+".key")
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if !field.IsExported() || name == "-" {
				continue
			}
			inner := path + "." + name
			if name == "" {
				inner = path
			}
			f.fill(v.Field(i), inner)
		}
	}
}

// keptFields returns the fields whose words are left.
func keptFields(value any, path string) []string {
	var kept []string
	switch v := value.(type) {
	case string:
		if v != Removed {
			kept = append(kept, path)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			kept = append(kept, keptFields(v[key], path+"."+key)...)
		}
	case []any:
		for _, item := range v {
			kept = append(kept, keptFields(item, path+"[]")...)
		}
	}
	return kept
}

// neverKept matches fields that no rule may keep.
var neverKept = regexp.MustCompile(`\.(env\[\]\.value|args|command|stringData|managedFields|imagePullSecrets|volumeAttributes)(\.|\[|$)`)

// TestOnlyListedTextsAreKept fills every field of each kind with a word and shows the fields whose words stay. Read a difference of the
// golden file as a list of the published texts.
func TestOnlyListedTextsAreKept(t *testing.T) {
	file := golden.Open(t)
	for _, object := range []any{&appsv1.StatefulSet{}, &corev1.Pod{}, &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{},
		&storagev1.StorageClass{}, &batchv1.Job{}, &appsv1.ControllerRevision{}, &corev1.Event{}, &v1alpha1.Scaler{}, &corev1.Secret{}} {
		v := reflect.ValueOf(object).Elem()
		kind := v.Type().Name()
		filler{}.fill(v, kind)
		redacted := Object(kind, asMap(t, object))
		kept := keptFields(redacted, kind)
		file.Entry(t, kind, strings.Join(kept, "\n"))
		for _, path := range kept {
			if neverKept.MatchString(path) {
				t.Errorf("%s is kept", path)
			}
		}
	}
}

func asMap(t *testing.T, object any) map[string]any {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestEveryKeyOfDrydockIsDecided: a new annotation must be listed in keys.go, or it is removed without a decision.
func TestEveryKeyOfDrydockIsDecided(t *testing.T) {
	undecided := set(api.ActivityProbeAnnotation, api.MemberCheckAnnotation, api.HoldFinalizer, api.FreezeFinalizer, api.OwnerPausedAnnotation)
	for _, folder := range []string{"api", "moverreport"} {
		files, err := filepath.Glob(filepath.Join("..", "..", "..", "shared", folder, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, name := range files {
			source, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range regexp.MustCompile(`= (?:Prefix \+ "|"drydock\.dev/)([^"]+)"`).FindAllStringSubmatch(string(source), -1) {
				key := api.Prefix + match[1]
				if !ownLabels[key] && !ownTexts[key] && ownDocuments[key] == "" && !undecided[key] {
					t.Errorf("%s is in no list of keys.go", key)
				}
			}
		}
	}
}

func TestEveryAnnotationDocumentHasARule(t *testing.T) {
	for key, kind := range ownDocuments {
		if _, found := rules[kind]; !found {
			t.Errorf("allowed.yaml has no rule %s for %s", kind, key)
		}
	}
}

// TestMetadataKeepsKeysAndKnownValues shows which labels and annotations remain.
func TestMetadataKeepsKeysAndKnownValues(t *testing.T) {
	template := `{"metadata":{"labels":{"team":"hunter2"}},"spec":{"containers":[{"name":"c","env":[{"name":"A","value":"hunter2"}]}]}}`
	manifest := `{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"web","annotations":{"x":"hunter2"}},"spec":{"template":` +
		template + `}}`
	record := &api.Resize{Header: api.Header{Version: 2, Operation: "4f3a9c21d0be", Kind: api.KindResize, Phase: api.Failed,
		Reason: api.HookFailed, Message: "the hook printed hunter2"},
		Fields: []api.Field{{Name: api.FieldLabels, Template: "data", Key: "team", Value: "hunter2"}}}
	object := map[string]any{"metadata": map[string]any{
		"name":          "web",
		"managedFields": []any{map[string]any{"manager": "hunter2"}},
		"labels": map[string]any{"team": "hunter2", "app.kubernetes.io/name": "web", api.ManagedLabel: "true", "evil.drydock.dev/x": "hunter2",
			"controller-revision-hash": "web-1"},
		"annotations": map[string]any{
			"team":                                          "hunter2",
			lastApplied:                                     manifest,
			"nginx.ingress.kubernetes.io/x":                 "hunter2",
			api.Prefix + "unknown":                          "hunter2",
			api.ResizeAnnotation:                            "data=20Gi",
			api.ActivityProbeAnnotation:                     "prometheus:hunter2",
			api.MemberCheckAnnotation:                       "https:8443/ready/hunter2?k=hunter2 host=x.example",
			api.StatusAnnotation:                            record.Encode(),
			api.SleepAnnotation:                             "hunter2",
			api.RecreateAnnotation:                          manifest,
			api.CleanupTemplateAnnotation:                   template,
			api.BeforeMemberAnnotation:                      "spec:\n  containers:\n  - name: c\n    image: busybox\n    command: [sh, hunter2]\n",
			api.MoverAnnotation:                             "{labels: {team: hunter2}, imagePullSecrets: [{name: hunter2}], root: false}",
			"volume.beta.kubernetes.io/storage-provisioner": "driver.example.com",
		}}}
	text, err := yaml.Marshal(Object("StatefulSet", object))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "hunter2") {
		t.Error("a value of the user is left")
	}
	golden.Equal(t, string(text))
}

// TestEventsQuoteNoOutput shows which messages of Events are kept.
func TestEventsQuoteNoOutput(t *testing.T) {
	for _, row := range []struct {
		component, reason string
		kept              bool
	}{
		{"kubelet", "FailedMount", true},
		{"kubelet", "Unhealthy", false},
		{"kubelet", "FailedPostStartHook", false},
		{"drydock-restore", "ResizeDetected", true},
		{"drydock-restore", "HookFailed", false},
		{"drydock-cleanup-pod", "CleanupFailed", false},
		{"someone", "Anything", false},
	} {
		e := Object("Event", map[string]any{"reason": row.reason, "message": "a message", "source": map[string]any{"component": row.component}})
		if kept := e["message"] == "a message"; kept != row.kept {
			t.Errorf("%s of %s: kept %v", row.reason, row.component, kept)
		}
	}
}

// TestHostileObjectsAreRedacted: an object of any form is redacted and stops nothing.
func TestHostileObjectsAreRedacted(t *testing.T) {
	for _, text := range []string{`{"metadata":"hunter2"}`, `{"metadata":["hunter2"],"spec":7}`, `{"spec":{"containers":"hunter2"}}`,
		`{"spec":{"containers":[["hunter2"]]}}`, `{"metadata":{"labels":["hunter2"],"annotations":"hunter2"}}`,
		`{"metadata":{"labels":{"app.kubernetes.io/name":["hunter2"]}}}`, `{"spec":{"nodeSelector":"hunter2"}}`,
		`{"metadata":{"annotations":{"drydock.dev/status":["hunter2"]}}}`, `{"status":{"conditions":{"message":"hunter2"}}}`} {
		var object map[string]any
		if err := json.Unmarshal([]byte(text), &object); err != nil {
			t.Fatal(err)
		}
		for kind := range rules {
			if got := fmt.Sprint(Object(kind, object)); strings.Contains(got, "hunter2") {
				t.Errorf("%s %s: %s", kind, text, got)
			}
		}
	}
}

// TestFindingsQuoteNoErrors: an unknown finding may quote the whole answer of the API server.
func TestFindingsQuoteNoErrors(t *testing.T) {
	for level, states := range map[string]map[string]string{
		"problem": {"no replica works": "no replica works"},
		"unknown": {"it cannot be read: {hunter2}": Removed, "you may not list pods": "you may not list pods"},
	} {
		for state, want := range states {
			got := Object("Doctor", map[string]any{"findings": []any{map[string]any{"level": level, "state": state, "other": "hunter2"}, "hunter2"}})
			findings := got["findings"].([]any)
			if first := findings[0].(map[string]any); first["state"] != want || first["other"] != Removed || findings[1] != Removed {
				t.Errorf("%s %q: %v", level, state, findings)
			}
		}
	}
}

// TestRulesNameTheFieldsOfDocuments: a report has every field of Drydock's documents, and no rule outlives its field.
func TestRulesNameTheFieldsOfDocuments(t *testing.T) {
	for rule, documents := range map[string][]any{
		"Record": {api.Resize{}, api.Sleep{}, api.Cleanup{}, api.Scale{}},
		"Stop":   {api.Stop{}},
		"Ledger": {api.Ledger{}},
	} {
		fields := map[string]any{}
		for _, d := range documents {
			addFields(fields, reflect.TypeOf(d))
		}
		compareFields(t, rule, rules[rule], fields)
	}
}

// unruled are fields with text that a user has written into a label, an annotation or a field of the set. No report has them.
var unruled = map[string]bool{"Record.fields.value": true, "Record.fieldsBefore.value": true, "Ledger.answered": true,
	"Record.answeredRollback": true}

// addFields adds the JSON fields of a type. A field without a document of Drydock has the value nil.
func addFields(fields map[string]any, of reflect.Type) {
	for _, f := range reflect.VisibleFields(of) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || name == "" || name == "-" {
			continue
		}
		document := f.Type
		for document.Kind() == reflect.Pointer || document.Kind() == reflect.Slice {
			document = document.Elem()
		}
		if document.Kind() != reflect.Struct || document.PkgPath() != reflect.TypeFor[api.Sleep]().PkgPath() {
			fields[name] = nil
			continue
		}
		inner, _ := fields[name].(map[string]any)
		if inner == nil {
			inner = map[string]any{}
		}
		addFields(inner, document)
		fields[name] = inner
	}
}

func compareFields(t *testing.T, path string, rule any, fields map[string]any) {
	t.Helper()
	if list, is := rule.([]any); is {
		rule = list[0]
	}
	ruled, is := rule.(map[string]any)
	if !is {
		t.Fatalf("%s has no rules for its fields: %v", path, rule)
	}
	for name := range ruled {
		if _, exists := fields[name]; !exists && name != anyKey {
			t.Errorf("the rule %s.%s is for no field", path, name)
		}
	}
	for name, inner := range fields {
		field, exists := ruled[name]
		if exists == unruled[path+"."+name] {
			t.Errorf("%s.%s has a rule: %t", path, name, exists)
		} else if inner, is := inner.(map[string]any); is {
			compareFields(t, path+"."+name, field, inner)
		}
	}
}
