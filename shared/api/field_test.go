package api

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

// TestRecordWithAFieldThatIsNotComplete cannot be read: nothing acts on a part of it.
func TestRecordWithAFieldThatIsNotComplete(t *testing.T) {
	record, err := LoadResize(setWith(string(fixture(t, "status-v2.json"))))
	if err != nil {
		t.Fatal(err)
	}
	logs := &TemplateTarget{Name: "logs", Size: resource.MustParse("1Gi")}
	for name, row := range map[string]struct {
		field    Field
		complete bool
	}{
		"no service":                   {Field{Name: FieldServiceName}, true},
		"a service that is removed":    {Field{Name: FieldServiceName, Removed: true}, false},
		"another field":                {Field{Name: "selector"}, false},
		"no field":                     {Field{}, false},
		"a label":                      {Field{Name: FieldLabels, Template: "data", Key: "a"}, true},
		"a label of no template":       {Field{Name: FieldLabels, Key: "a"}, false},
		"an annotation without a key":  {Field{Name: FieldAnnotations, Template: "data"}, false},
		"a template less":              {Field{Name: FieldTemplate, Template: "logs", Removed: true}, true},
		"a template more":              {Field{Name: FieldTemplate, Template: "logs", Ask: logs}, true},
		"a template more of no size":   {Field{Name: FieldTemplate, Template: "logs"}, false},
		"a template more of two names": {Field{Name: FieldTemplate, Template: "data", Ask: logs}, false},
	} {
		for _, into := range []*[]Field{&record.Fields, &record.FieldsBefore} {
			*into = []Field{row.field}
			read, err := LoadResize(setWith(record.Encode()))
			if (err == nil) != row.complete || err != nil && (read != nil || !strings.Contains(err.Error(), "a field that is not complete")) {
				t.Errorf("%s: %v", name, err)
			}
			*into = nil
		}
	}
}
