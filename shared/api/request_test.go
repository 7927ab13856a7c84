package api

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// render is the request in a canonical form of its own syntax.
func render(r Request) string {
	if r.Auto {
		return AutoRequest
	}
	var parts []string
	for _, template := range slices.Sorted(maps.Keys(r.Targets)) {
		target := r.Targets[template]
		part := template + "=" + target.Size.String()
		if !target.Exact {
			part += AtLeast
		}
		if target.Class != "" {
			part += "@" + target.Class
		}
		if target.Attributes != nil {
			part += "%" + *target.Attributes
		}
		for i, mode := range target.Modes {
			part += string(":+"[min(i, 1)]) + ShortMode(mode)
		}
		parts = append(parts, part)
	}
	return strings.Join(append(parts, Words(r.Fields)...), ",")
}

func TestParseRequest(t *testing.T) {
	for name, row := range map[string]struct{ text, want string }{
		"auto":                       {"auto", "auto"},
		"auto, with blanks":          {"  auto\n", "auto"},
		"one template":               {"data=20Gi", "data=20Gi"},
		"at least":                   {"data=20Gi+,logs=5Gi", "data=20Gi+,logs=5Gi"},
		"at least, with more":        {"data=20Gi+@fast:RWO+ROX", "data=20Gi+@fast:RWO+ROX"},
		"with a class":               {"data=20Gi@fast-ssd", "data=20Gi@fast-ssd"},
		"a class with dots":          {"data=20Gi@fast.example.com", "data=20Gi@fast.example.com"},
		"several":                    {"logs=5Gi@slow,data=20Gi", "data=20Gi,logs=5Gi@slow"},
		"several, with blanks":       {" data=20Gi , logs=5Gi ", "data=20Gi,logs=5Gi"},
		"a number of bytes":          {"data=1073741824", "data=1073741824"},
		"a decimal":                  {"data=1.5Gi", "data=1536Mi"},
		"an exponent":                {"data=1e9", "data=1e9"},
		"a template called auto":     {"auto=1Gi", "auto=1Gi"},
		"a template of digits":       {"0=1Gi", "0=1Gi"},
		"an access mode":             {"data=20Gi:RWX", "data=20Gi:RWX"},
		"several access modes":       {"data=20Gi:RWX+RWO", "data=20Gi:RWX+RWO"},
		"every access mode":          {"a=1Gi:RWO,b=1Gi:ROX,c=1Gi:RWX,d=1Gi:RWOP", "a=1Gi:RWO,b=1Gi:ROX,c=1Gi:RWX,d=1Gi:RWOP"},
		"a class and access modes":   {"data=20Gi@fast.example.com:RWO+ROX,logs=5Gi:RWOP", "data=20Gi@fast.example.com:RWO+ROX,logs=5Gi:RWOP"},
		"attributes":                 {"data=20Gi%gold,logs=5Gi+%silver", "data=20Gi%gold,logs=5Gi+%silver"},
		"all of it":                  {"data=20Gi+@fast%gold.example.com:RWO+ROX", "data=20Gi+@fast%gold.example.com:RWO+ROX"},
		"a service":                  {"serviceName=db", "serviceName=db"},
		"no service":                 {"serviceName=,data=1Gi", "data=1Gi,serviceName="},
		"an order of pods":           {"podManagementPolicy=Parallel", "podManagementPolicy=Parallel"},
		"a label":                    {"data/labels/example.com/tier=gold", "data/labels/example.com/tier=gold"},
		"an empty label":             {"data/labels/tier=", "data/labels/tier="},
		"a label less":               {"data/labels/example.com/tier-", "data/labels/example.com/tier-"},
		"an annotation":              {"data/annotations/cron=0 3 * * *,data=1Gi", "data=1Gi,data/annotations/cron=0 3 * * *"},
		"an annotation with signs":   {"data/annotations/a=b=c-/+:@~()", "data/annotations/a=b=c-/+:@~()"},
		"a template more":            {"+logs=1Gi@fast:RWO+ROX", "+logs=1Gi@fast:RWO+ROX"},
		"a template with attributes": {"+logs=1Gi@fast%gold:RWO", "+logs=1Gi@fast%gold:RWO"},
		"a template less":            {"data=1Gi,-logs", "data=1Gi,-logs"},
		"as long as a label may be":  {strings.Repeat("a", 63) + "=1Gi", strings.Repeat("a", 63) + "=1Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := ParseRequest(row.text)
			if err != nil {
				t.Fatal(err)
			}
			if got := render(r); got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
}

func TestParseRequestRefuses(t *testing.T) {
	for name, row := range map[string]struct{ text, want string }{
		"nothing":                   {"", `"" has no size`},
		"blanks":                    {"  ", `"" has no size`},
		"another word":              {"Auto", `"Auto" has no size`},
		"auto and more":             {"auto,data=1Gi", `"auto" has no size`},
		"no size":                   {"data", `"data" has no size`},
		"an empty size":             {"data=", `size "" is not a quantity`},
		"no template":               {"=1Gi", `template "": `},
		"a part that is empty":      {"data=1Gi,", `"" has no size`},
		"a size that is none":       {"data=lots", `size "lots" is not a quantity`},
		"a size with a blank":       {"data=1 Gi", `size "1 Gi" is not a quantity`},
		"a size of another unit":    {"data=1GB", `size "1GB" is not a quantity`},
		"zero":                      {"data=0", `size "0" is not positive`},
		"less than zero":            {"data=-1Gi", `size "-1Gi" is not positive`},
		"named twice":               {"data=1Gi,data=2Gi", `template "data" is named twice`},
		"an empty class":            {"data=1Gi@", `storage class "": `},
		"two classes":               {"data=1Gi@a@b", `storage class "a@b": `},
		"a class of a path":         {"data=1Gi@../x", `storage class "../x": `},
		"a template of a path":      {"../data=1Gi", `"../data=1Gi" names no label or annotation`},
		"a template with blanks":    {"my data=1Gi", `template "my data": `},
		"a template in capitals":    {"Data=1Gi", `template "Data": `},
		"a template too long":       {strings.Repeat("a", 64) + "=1Gi", "template "},
		"a template with a NUL":     {"da\x00ta=1Gi", "template "},
		"what is no text":           {"\xff\xfe=1Gi", "template "},
		"a size beyond all sense":   {"data=1e99999999", `size "1e99999999" is not a quantity`},
		"a size below all sense":    {"data=1e-99999999", `size "1e-99999999" is not a quantity`},
		"an empty access mode":      {"data=1Gi:", `"" is no access mode; they are RWO, ROX, RWX and RWOP`},
		"a mode that is none":       {"data=1Gi:RW", `"RW" is no access mode`},
		"a mode in full":            {"data=1Gi:ReadWriteOnce", `"ReadWriteOnce" is no access mode`},
		"a mode in small letters":   {"data=1Gi:rwx", `"rwx" is no access mode`},
		"a mode after a plus":       {"data=1Gi:RWX+", `"" is no access mode`},
		"a mode with a blank":       {"data=1Gi:RWX + RWO", `"RWX " is no access mode`},
		"modes with a bar":          {"data=1Gi:RWX|RWO", `"RWX|RWO" is no access mode`},
		"modes with a comma":        {"data=1Gi:RWX,RWO", `"RWO" has no size`},
		"modes twice":               {"data=1Gi:RWX:RWO", `"RWX:RWO" is no access mode`},
		"a class after the mode":    {"data=1Gi:RWX@fast", `"RWX@fast" is no access mode`},
		"a mode without a size":     {"data=:RWX", `size "" is not a quantity`},
		"a mode of no class":        {"data=1Gi@:RWX", `storage class "": `},
		"a mode of no template":     {"data:RWX=1Gi", `template "data:RWX": `},
		"a field without value":     {"serviceName", `"serviceName" has no value`},
		"a service of a path":       {"serviceName=a.b", `service "a.b": `},
		"another order of pods":     {"podManagementPolicy=Any", `"Any" is not a podManagementPolicy`},
		"no order of pods":          {"podManagementPolicy=", `"" is not a podManagementPolicy`},
		"a label of no template":    {"/labels/a=b", `template "": `},
		"a label without key":       {"data/labels/=b", `key "": `},
		"a label without value":     {"data/labels/a", `"a" has no value`},
		"a label less with a value": {"data/labels/a-=b", `"a-=b" has no value`},
		"a label with a blank":      {"data/labels/a=b c", `"b c" is not a valid label value`},
		"a key of three parts":      {"data/labels/a/b/c=d", `key "a/b/c": `},
		"another field":             {"data/finalizers/a=b", `a template has labels and annotations, and no "finalizers"`},
		"an annotation in quotes":   {`data/annotations/a="b"`, `a request cannot contain the annotation value "\"b\""`},
		"an annotation too long":    {"data/annotations/a=" + strings.Repeat("b", 254), `a request cannot contain the annotation value`},
		"a label twice":             {"data/labels/a=b,data/labels/a-", `"data/labels/a" is named twice`},
		"more and less":             {"+a=1Gi:RWO,-a", `"a" is named twice`},
		"more, without a mode":      {"+a=1Gi", `the added template "a" needs a size without +, and an access mode`},
		"more, at least":            {"+a=1Gi+:RWO", `the added template "a" needs a size without +`},
		"less, and a size":          {"a=1Gi,-a", `template "a" is added or removed, and changed`},
		"more, and a label":         {"+a=1Gi:RWO,a/labels/b=c", `template "a" is added or removed, and changed`},
		"less, of a path":           {"-a/b", `template "a/b": `},
		"too many fields":           {manyFields(MaxFields + 1), "there are more than 16 changes beside sizes"},
		"a size of many digits":     {"data=" + strings.Repeat("9", 20000), "size "},
		"empty attributes":          {"data=1Gi%", `volume attributes class "": `},
		"two attributes":            {"data=1Gi%a%b", `volume attributes class "a%b": `},
		"a class after them":        {"data=1Gi%gold@fast", `volume attributes class "gold@fast": `},
		"attributes after modes":    {"data=1Gi:RWX%gold", `"RWX%gold" is no access mode`},
		"attributes of a path":      {"data=1Gi%../x", `volume attributes class "../x": `},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseRequest(row.text)
			if err == nil {
				t.Fatal("it is taken")
			}
			if !strings.Contains(err.Error(), row.want) || !strings.HasPrefix(err.Error(), fmt.Sprintf("%s=%q: ", ResizeAnnotation, row.text)) {
				t.Errorf("says %q, want %q", err, row.want)
			}
		})
	}
}

func manyFields(n int) string {
	var parts []string
	for i := range n {
		parts = append(parts, fmt.Sprintf("data/labels/l%d=v", i))
	}
	return strings.Join(parts, ",")
}

// FuzzParseRequest: whatever people write, it is refused or it is a request of positive sizes that can be written again.
func FuzzParseRequest(f *testing.F) {
	for _, text := range []string{"auto", "data=20Gi@fast-ssd,logs=5Gi", "", "=", ",", "@", "a=1@", "data=-0.0001n", "a=1e-9", "a=9E18", "a=1Gi,b=2Gi,a=3Gi",
		"a=1Gi:RWX+RWO", "a=1Gi@b:RWOP,c=2Gi:ROX", "a=1:RWO+RWO", "a=1:", "a=1@:RWX",
		"serviceName=a,podManagementPolicy=Parallel,a/labels/b.c/d=e,a/labels/f-,a/annotations/g=h i,-j,+k=1Gi@l:RWX", "+a=1,-a", "a/labels/=", "serviceName"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRequest(text)
		if err != nil {
			return
		}
		if r.Auto != (len(r.Targets)+len(r.Fields) == 0) {
			t.Fatalf("%q is %+v", text, r)
		}
		for template, target := range r.Targets {
			if target.Size.Sign() <= 0 || strings.ContainsAny(template+target.Class, "/ ,=@:+") {
				t.Fatalf("%q has template %q of %s@%s", text, template, target.Size.String(), target.Class)
			}
		}
		again, err := ParseRequest(render(r))
		if err != nil || render(again) != render(r) {
			t.Fatalf("%q is %s, read again %s (%v)", text, render(r), render(again), err)
		}
	})
}
