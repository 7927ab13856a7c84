package api

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/test/golden"
)

// render returns the request in a canonical form.
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
		"auto":                           {"auto", "auto"},
		"auto, with blanks":              {"  auto\n", "auto"},
		"one template":                   {"data=20Gi", "data=20Gi"},
		"at least":                       {"data=20Gi+,logs=5Gi", "data=20Gi+,logs=5Gi"},
		"at least, with class and modes": {"data=20Gi+@fast:RWO+ROX", "data=20Gi+@fast:RWO+ROX"},
		"with a class":                   {"data=20Gi@fast-ssd", "data=20Gi@fast-ssd"},
		"a class with dots":              {"data=20Gi@fast.example.com", "data=20Gi@fast.example.com"},
		"several":                        {"logs=5Gi@slow,data=20Gi", "data=20Gi,logs=5Gi@slow"},
		"several, with blanks":           {" data=20Gi , logs=5Gi ", "data=20Gi,logs=5Gi"},
		"a number of bytes":              {"data=1073741824", "data=1073741824"},
		"a decimal":                      {"data=1.5Gi", "data=1536Mi"},
		"an exponent":                    {"data=1e9", "data=1e9"},
		"a template called auto":         {"auto=1Gi", "auto=1Gi"},
		"a template of digits":           {"0=1Gi", "0=1Gi"},
		"an access mode":                 {"data=20Gi:RWX", "data=20Gi:RWX"},
		"several access modes":           {"data=20Gi:RWX+RWO", "data=20Gi:RWX+RWO"},
		"every access mode":              {"a=1Gi:RWO,b=1Gi:ROX,c=1Gi:RWX,d=1Gi:RWOP", "a=1Gi:RWO,b=1Gi:ROX,c=1Gi:RWX,d=1Gi:RWOP"},
		"a class and modes": {
			"data=20Gi@fast.example.com:RWO+ROX,logs=5Gi:RWOP",
			"data=20Gi@fast.example.com:RWO+ROX,logs=5Gi:RWOP",
		},
		"attributes":                        {"data=20Gi%gold,logs=5Gi+%silver", "data=20Gi%gold,logs=5Gi+%silver"},
		"everything":                        {"data=20Gi+@fast%gold.example.com:RWO+ROX", "data=20Gi+@fast%gold.example.com:RWO+ROX"},
		"a service":                         {"serviceName=db", "serviceName=db"},
		"no service":                        {"serviceName=,data=1Gi", "data=1Gi,serviceName="},
		"an order of pods":                  {"podManagementPolicy=Parallel", "podManagementPolicy=Parallel"},
		"a label":                           {"data/labels/example.com/tier=gold", "data/labels/example.com/tier=gold"},
		"an empty label":                    {"data/labels/tier=", "data/labels/tier="},
		"a removed label":                   {"data/labels/example.com/tier-", "data/labels/example.com/tier-"},
		"an annotation":                     {"data/annotations/cron=0 3 * * *,data=1Gi", "data=1Gi,data/annotations/cron=0 3 * * *"},
		"an annotation with punctuation":    {"data/annotations/a=b=c-/+:@~()", "data/annotations/a=b=c-/+:@~()"},
		"an added template":                 {"+logs=1Gi@fast:RWO+ROX", "+logs=1Gi@fast:RWO+ROX"},
		"an added template with attributes": {"+logs=1Gi@fast%gold:RWO", "+logs=1Gi@fast%gold:RWO"},
		"a removed template":                {"data=1Gi,-logs", "data=1Gi,-logs"},
		"as long as a label may be":         {strings.Repeat("a", 63) + "=1Gi", strings.Repeat("a", 63) + "=1Gi"},
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

func TestParseRequestRefusesInvalidText(t *testing.T) {
	file := golden.Open(t)
	texts := map[string]string{
		"nothing":                          "",
		"blanks":                           "  ",
		"another word":                     "Auto",
		"auto and more":                    "auto,data=1Gi",
		"no size":                          "data",
		"an empty size":                    "data=",
		"no template":                      "=1Gi",
		"an empty part":                    "data=1Gi,",
		"an invalid size":                  "data=lots",
		"a size with a blank":              "data=1 Gi",
		"a size of another unit":           "data=1GB",
		"zero":                             "data=0",
		"a negative size":                  "data=-1Gi",
		"named twice":                      "data=1Gi,data=2Gi",
		"an empty class":                   "data=1Gi@",
		"two classes":                      "data=1Gi@a@b",
		"a class with a path":              "data=1Gi@../x",
		"a template with a path":           "../data=1Gi",
		"a template with blanks":           "my data=1Gi",
		"a template in capitals":           "Data=1Gi",
		"a template too long":              strings.Repeat("a", 64) + "=1Gi",
		"a template with a NUL":            "da\x00ta=1Gi",
		"invalid UTF-8":                    "\xff\xfe=1Gi",
		"an absurdly large size":           "data=1e99999999",
		"an absurdly small size":           "data=1e-99999999",
		"an empty access mode":             "data=1Gi:",
		"an unknown access mode":           "data=1Gi:RW",
		"an access mode in full":           "data=1Gi:ReadWriteOnce",
		"a mode in small letters":          "data=1Gi:rwx",
		"a mode after a plus":              "data=1Gi:RWX+",
		"a mode with a blank":              "data=1Gi:RWX + RWO",
		"modes with a bar":                 "data=1Gi:RWX|RWO",
		"modes with a comma":               "data=1Gi:RWX,RWO",
		"modes twice":                      "data=1Gi:RWX:RWO",
		"a class after the mode":           "data=1Gi:RWX@fast",
		"a mode without a size":            "data=:RWX",
		"a mode after an empty class":      "data=1Gi@:RWX",
		"a mode before the size":           "data:RWX=1Gi",
		"a field without value":            "serviceName",
		"a service with a dot":             "serviceName=a.b",
		"another order of pods":            "podManagementPolicy=Any",
		"no order of pods":                 "podManagementPolicy=",
		"a label without template":         "/labels/a=b",
		"a label without key":              "data/labels/=b",
		"a label without value":            "data/labels/a",
		"a removed label with a value":     "data/labels/a-=b",
		"a label with a blank":             "data/labels/a=b c",
		"a key with three parts":           "data/labels/a/b/c=d",
		"another field":                    "data/finalizers/a=b",
		"an annotation in quotes":          `data/annotations/a="b"`,
		"an annotation too long":           "data/annotations/a=" + strings.Repeat("b", 254),
		"a label twice":                    "data/labels/a=b,data/labels/a-",
		"a template added and removed":     "+a=1Gi:RWO,-a",
		"an added template without a mode": "+a=1Gi",
		"an added template with at least":  "+a=1Gi+:RWO",
		"a removed template with a size":   "a=1Gi,-a",
		"an added template with a label":   "+a=1Gi:RWO,a/labels/b=c",
		"a removed template with a path":   "-a/b",
		"too many fields":                  manyFields(MaxFields + 1),
		"a size of many digits":            "data=" + strings.Repeat("9", 20000),
		"empty attributes":                 "data=1Gi%",
		"two attributes":                   "data=1Gi%a%b",
		"a class after the attributes":     "data=1Gi%gold@fast",
		"attributes after modes":           "data=1Gi:RWX%gold",
		"attributes with a path":           "data=1Gi%../x",
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		t.Run(name, func(t *testing.T) {
			_, err := ParseRequest(texts[name])
			if err == nil {
				t.Fatal("it is accepted")
			}
			message, found := strings.CutPrefix(err.Error(), fmt.Sprintf("%s=%q: ", ResizeAnnotation, texts[name]))
			if !found {
				t.Errorf("%.200q does not quote the request", err)
			}
			file.Entry(t, name, message)
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

// TestRequestOf: the sizes of templates are a request only if the annotation says so, and an operator controls the set. They are no request
// any more once an operation has ended on the set.
func TestRequestOf(t *testing.T) {
	const asks, says, controlled, own = ResizeAnnotation, TemplatesAnnotation, "controlled", "data=1Gi,logs=512Mi"
	byTemplates := map[string]string{says: "owner", controlled: ""}
	ended := func(phase Phase, request string, changes ...func(*Resize)) *Resize {
		record := &Resize{Header: Header{Version: RecordVersion, Operation: OperationID("uid-web", request, 1), Kind: KindResize, Phase: phase,
			Request: request, Attempt: 1, Set: SetRef{Name: "web", UID: "uid-web"}}}
		for _, change := range changes {
			change(record)
		}
		return record
	}
	rollback := func(r *Resize) { r.Kind, r.RollsBack = KindRollback, "0123456789ab" }
	growth := func(r *Resize) { r.GrowTo = "data=2Gi" }
	ofFormerSet := func(r *Resize) { r.Set.UID = "uid-former" }
	for name, row := range map[string]struct {
		set    map[string]string
		record *Resize
		want   string
	}{
		"nothing":                            {map[string]string{controlled: ""}, nil, "none"},
		"a request":                          {map[string]string{asks: "data=2Gi"}, nil, "data=2Gi"},
		"an empty request":                   {map[string]string{asks: ""}, nil, ""},
		"the templates of an operator":       {map[string]string{says: "owner", controlled: ""}, nil, "data=1Gi,logs=512Mi"},
		"the templates, and a request":       {map[string]string{says: "owner", controlled: "", asks: "data=2Gi"}, nil, "data=2Gi"},
		"the templates without an operator":  {map[string]string{says: "owner"}, nil, "none"},
		"what an apply may request":          {map[string]string{says: "any", controlled: ""}, nil, "none"},
		"a resize by the templates runs":     {byTemplates, ended(Moving, own), own},
		"it was refused":                     {byTemplates, ended(Refused, own), own},
		"it has failed":                      {byTemplates, ended(Failed, own), own},
		"it has succeeded":                   {byTemplates, ended(Succeeded, own), "none"},
		"a request on the set runs":          {byTemplates, ended(Moving, "data=2Gi"), "none"},
		"a request on the set was refused":   {byTemplates, ended(Refused, "data=2Gi"), "none"},
		"a request on the set has failed":    {byTemplates, ended(Failed, "data=2Gi"), "none"},
		"a request on the set has succeeded": {byTemplates, ended(Succeeded, "data=2Gi"), "none"},
		"a rollback has succeeded":           {byTemplates, ended(Succeeded, own, rollback), "none"},
		"a rollback has failed":              {byTemplates, ended(Failed, own, rollback), own},
		"a growth was refused":               {byTemplates, ended(Refused, own, growth), own},
		"a growth has succeeded":             {byTemplates, ended(Succeeded, own, growth), "none"},
		"a growth has failed after a resize": {byTemplates, ended(Failed, "", growth), "none"},
		"another set has a record":           {byTemplates, ended(Succeeded, own, ofFormerSet), own},
		"a record without the templates":     {map[string]string{controlled: ""}, ended(Failed, own), "none"},
		"a request and a record": {map[string]string{says: "owner", controlled: "", asks: "data=2Gi"}, ended(Succeeded, own),
			"data=2Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			set := &appsv1.StatefulSet{}
			set.Name, set.UID, set.Annotations = "web", "uid-web", maps.Clone(row.set)
			if row.record != nil {
				set.Annotations[StatusAnnotation] = row.record.Encode()
			}
			if _, ok := row.set[controlled]; ok {
				set.OwnerReferences = []metav1.OwnerReference{{Kind: "Database", Name: "main", Controller: new(true)}}
			}
			for _, template := range []struct{ name, size string }{{"data", "1Gi"}, {"logs", "512Mi"}, {"cache", "0"}} {
				claim := corev1.PersistentVolumeClaim{}
				claim.Name = template.name
				claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(template.size)}
				set.Spec.VolumeClaimTemplates = append(set.Spec.VolumeClaimTemplates, claim)
			}
			got, requested := RequestOf(set)
			if !requested {
				got += "none"
			}
			if got != row.want {
				t.Errorf("%q, want %q", got, row.want)
			}
		})
	}
	if text, requested := RequestOf(&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{says: "owner"},
		OwnerReferences: []metav1.OwnerReference{{Controller: new(true)}}}}); requested {
		t.Errorf("a set without templates requests %q", text)
	}
}

// FuzzParseRequest: every text is refused, or is a request with positive sizes that can be rendered and parsed again.
func FuzzParseRequest(f *testing.F) {
	for _, text := range []string{"auto", "data=20Gi@fast-ssd,logs=5Gi", "", "=", ",", "@", "a=1@", "data=-0.0001n", "a=1e-9", "a=9E18",
		"a=1Gi,b=2Gi,a=3Gi",
		"a=1Gi:RWX+RWO", "a=1Gi@b:RWOP,c=2Gi:ROX", "a=1:RWO+RWO", "a=1:", "a=1@:RWX",
		"serviceName=a,podManagementPolicy=Parallel,a/labels/b.c/d=e,a/labels/f-,a/annotations/g=h i,-j,+k=1Gi@l:RWX",
		"+a=1,-a", "a/labels/=", "serviceName"} {
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
