package bounded

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// quantities has a quantity in every place that a decoder supports.
type quantities struct {
	One      resource.Quantity                  `json:"one"`
	Pointer  *resource.Quantity                 `json:"pointer"`
	List     []struct{ Size resource.Quantity } `json:"list"`
	Map      corev1.ResourceList                `json:"map"`
	Embedded                                    // without a JSON name
}

// Embedded is exported, because the decoder ignores unexported embedded structs.
type Embedded struct {
	Inner resource.Quantity `json:"inner"`
}

// bomb is a quantity that takes resource.ParseQuantity minutes.
const bomb = "1e-99999999"

func TestQuantityWithHugeExponentIsRefused(t *testing.T) {
	for place, text := range map[string]string{
		"field":                 `{"one": "BOMB"}`,
		"field in another case": `{"ONE": "BOMB"}`,
		"pointer":               `{"pointer": "BOMB"}`,
		"list":                  `{"list": [{"size": "1Gi"}, {"Size": "BOMB"}]}`,
		"map":                   `{"map": {"cpu": "BOMB"}}`,
		"embedded struct":       `{"inner": "BOMB"}`,
	} {
		t.Run(place, func(t *testing.T) {
			text := strings.ReplaceAll(text, "BOMB", bomb)
			for name, read := range map[string]func() error{
				"YAML": func() error { return YAML(text, &quantities{}) },
				"JSON": func() error { return JSON([]byte(text), &quantities{}) },
			} {
				if err := read(); err == nil || !strings.Contains(err.Error(), `"`+bomb+`" is not a quantity`) {
					t.Errorf("%s: error %v", name, err)
				}
			}
		})
	}
	if err := JSON([]byte(`{"one": `+bomb+`}`), &quantities{}); err == nil {
		t.Error("a JSON number with a huge exponent was read")
	}
}

// TestQuantityBehindARepeatedKeyIsNotParsed: the decoder would parse each value of a repeated key, even if a later value replaces it.
func TestQuantityBehindARepeatedKeyIsNotParsed(t *testing.T) {
	var got quantities
	if err := JSON([]byte(`{"list": [{"size": "`+bomb+`"}], "list": []}`), &got); err != nil || len(got.List) != 0 {
		t.Errorf("error %v, list %v", err, got.List)
	}
	if err := YAML(`{"list": [{"size": "`+bomb+`"}], "list": []}`, &got); err == nil {
		t.Error("YAML with a repeated key was read")
	}
}

func TestYAMLWithAnchorIsRefused(t *testing.T) {
	const sameStringTenThousandTimes = 10_000
	aliases := strings.TrimSuffix(strings.Repeat("*a,", sameStringTenThousandTimes), ",")
	text := "x: &a " + strings.Repeat("A", 30<<10) + "\ny: [" + aliases + "]\n"
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := YAML(text, &map[string]any{})
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), "line 1 has an anchor") {
		t.Errorf("error %v", err)
	}
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 32<<20 {
		t.Errorf("reading %d bytes allocated %d", len(text), allocated)
	}
}

func TestYAMLKeepsAmpersandsInStrings(t *testing.T) {
	var got corev1.Container
	if err := YAML("name: x\ncommand: [sh, -c, 'a && b *c']\nargs:\n- |\n  run &\n", &got); err != nil || got.Command[2] != "a && b *c" {
		t.Errorf("error %v, container %v", err, got)
	}
}

func TestLongTextIsRefused(t *testing.T) {
	err := YAML("a: "+strings.Repeat("x", MaxYAML), &map[string]any{})
	if err == nil || !strings.Contains(err.Error(), "at most 65536 are read") {
		t.Errorf("error %v", err)
	}
	if err := JSON([]byte(`"`+strings.Repeat("x", MaxJSON)+`"`), new(string)); err == nil {
		t.Error("a long document was read")
	}
}

func TestDocumentOfManySmallObjectsIsRefused(t *testing.T) {
	text := []byte(`{"list": [{}` + strings.Repeat(",{}", 80_000) + `]}`)
	if err := Document(text, &quantities{}); err == nil || !strings.Contains(err.Error(), "80002 objects") {
		t.Errorf("error %v", err)
	}
}

// list returns a JSON list of elements that are all equal and take the given number of bytes in all.
func list(element string, size int) string {
	return "[" + strings.TrimSuffix(strings.Repeat(element+",", size/(len(element)+1)), ",") + "]"
}

// TestMemoryIsProportional decodes lists whose elements are short in the text and large in memory. The decoder makes a struct of each
// element of a list, also of one with the wrong type.
func TestMemoryIsProportional(t *testing.T) {
	const size, mostTimes = 1 << 20, 100
	for _, element := range []string{"null", "{}", "1", `""`, "[]", "true", ` { "name" : "A" } `, `{"name":"A12345678901234"}`} {
		text := []byte(`{"spec":{"containers":` + list(element, size) + `}}`)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		pod := &corev1.Pod{}
		err := JSON(text, pod)
		runtime.ReadMemStats(&after)
		allocated := after.TotalAlloc - before.TotalAlloc
		t.Logf("%s: %d containers, %d bytes a byte, error %v", element, len(pod.Spec.Containers), allocated/size, err)
		if allocated > mostTimes*size {
			t.Errorf("%s: reading %d bytes allocated %d", element, len(text), allocated)
		}
	}
}

func TestNullInAListIsRefused(t *testing.T) {
	for text, refused := range map[string]bool{
		`{"list":[null]}`: true, `{"list":[{"Size":"1Gi"}, null ]}`: true, `{"x":[[{}],[1,null]]}`: true, `{"x":{"y":[ null]}}`: true,
		`{"list":null}`: false, `{"list":[]}`: false, `{"list":[{"Size":null},{"Size":null}]}`: false, `{"x":"[null,null]"}`: false,
		`{"x":["a\"[null,","null"]}`: false, `{"x":["a\\"],"y":null}`: false,
	} {
		err := JSON([]byte(text), &quantities{})
		if is := err != nil && strings.Contains(err.Error(), "null as an element"); is != refused || !refused && err != nil {
			t.Errorf("%s: error %v", text, err)
		}
	}
}

// TestListsOfOrdinaryObjectsAreRead: the limits are far from what objects of a cluster have.
func TestListsOfOrdinaryObjectsAreRead(t *testing.T) {
	for _, element := range []string{`{"name":"LOG_LEVEL","value":"info"}`, `"--a-flag-of-a-server=1"`} {
		text := `{"x":` + list(element, 200<<10) + `}`
		if err := JSON([]byte(text), &quantities{}); err != nil {
			t.Errorf("%s: %v", element, err)
		}
	}
	if err := JSON([]byte(`{"x":`+list("1", 500)+`}`), &quantities{}); err != nil {
		t.Errorf("a short list: %v", err)
	}
}

func TestEscapedQuantityIsRefused(t *testing.T) {
	for _, text := range []string{
		`{"one": "1\u0065-99999999"}`, `{"one": "1e\u002d99999999"}`, `{"one": "1e-9\u0039999999"}`, `{"one": "\u0031e-99999999"}`,
		`{"one": "1\u0045-99999999"}`,
		`{"one":"+1e-99999999"}`, `{"one":	0.1E+99999999}`, `{"one": "` + strings.Repeat("9", 100) + `"}`,
	} {
		text = strings.ReplaceAll(text, `\\`, `\`)
		if err := JSON([]byte(text), &quantities{}); err == nil || !strings.Contains(err.Error(), "is not a quantity") {
			t.Errorf("%s: error %v", text, err)
		}
	}
}

func TestOrdinaryObjectsNeedNoCheckOfEachValue(t *testing.T) {
	for _, text := range []string{
		`{"metadata":{"uid":"0a1e2345-12e4-4567-8901-1234567890e1","resourceVersion":"123456"}}`, `{"cpu":"1e3","memory":"12e6"}`,
		`{"command":["a \u0026\u0026 b \u003c c"]}`, `{"digest":"a12e456"}`,
	} {
		if !harmless([]byte(text)) {
			t.Errorf("%s is checked value by value", text)
		}
	}
}

func TestYAMLIsStrict(t *testing.T) {
	var got corev1.Container
	if err := YAML("nome: x", &got); err == nil || !strings.Contains(err.Error(), "nome") {
		t.Errorf("error %v", err)
	}
	if err := YAML("env: [{name: N, value: 5}]", &got); err != nil || got.Env[0].Value != "5" {
		t.Errorf("a number in a text field: error %v, container %v", err, got)
	}
	if err := YAML("", &got); err != nil {
		t.Errorf("empty text: %v", err)
	}
}

func FuzzYAML(f *testing.F) {
	for _, seed := range []string{
		"", "spec:\n  containers:\n  - name: drain\n    resources: {limits: {memory: 1Gi, cpu: '1e-99999999'}}\n",
		"a: &x [1]\nb: *x\n", "&a *a", "!!binary aGk=", "? [a]\n: b", "- - - -", "{a: {b: {c: }}}", "<<: {a: b}",
		"x: !<tag:yaml.org,2002:float> 1e9",
		`{"spec":{"volumes":[{"emptyDir":{"sizeLimit":1e99999999}}]}}`, "%TAG ! tag:x,2000:\n--- !a b", "\u2028a: b",
		"a: |2\n  x\n...\n---\nb: *c",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		template := &corev1.PodTemplateSpec{}
		if YAML(text, template) != nil {
			return
		}
		// Apart from escapes and the names of empty fields, the result is not longer than the text.
		if encoded, err := json.Marshal(template); err == nil && len(encoded) > 12*len(text)+1000 {
			t.Errorf("%d bytes became %d", len(text), len(encoded))
		}
	})
}

func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		`{"one":"1Gi"}`, `{"one":"` + bomb + `"}`, `{"list":[{"Size":1}],"LIST":null}`, `[]`, `{"map":{"a":{}}}`, `{"one":"1Gi"} {}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var got quantities
		if err := JSON(text, &got); err != nil || !harmless(text) {
			return
		}
		// A harmless text also passes the check of each value, or ParseQuantity rejects it quickly.
		if err := checkQuantities(text, &got); err != nil && strings.Contains(err.Error(), "e-9999") {
			t.Errorf("%s: %v", text, err)
		}
	})
}
