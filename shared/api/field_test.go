package api

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

// TestRecordWithIncompleteFieldIsAnError: nothing may act on a part of a record.
func TestRecordWithIncompleteFieldIsAnError(t *testing.T) {
	record, err := LoadResize(setWithStatus(string(fixture(t, "status-v2.json"))))
	if err != nil {
		t.Fatal(err)
	}
	logs := &TemplateTarget{Name: "logs", Size: resource.MustParse("1Gi")}
	for name, row := range map[string]struct {
		field    Field
		complete bool
	}{
		"no service":                       {Field{Name: FieldServiceName}, true},
		"a removed service":                {Field{Name: FieldServiceName, Removed: true}, false},
		"another field":                    {Field{Name: "selector"}, false},
		"no field":                         {Field{}, false},
		"a label":                          {Field{Name: FieldLabels, Template: "data", Key: "a"}, true},
		"a label without a template":       {Field{Name: FieldLabels, Key: "a"}, false},
		"an annotation without a key":      {Field{Name: FieldAnnotations, Template: "data"}, false},
		"a removed template":               {Field{Name: FieldTemplate, Template: "logs", Removed: true}, true},
		"an added template":                {Field{Name: FieldTemplate, Template: "logs", Ask: logs}, true},
		"an added template without a size": {Field{Name: FieldTemplate, Template: "logs"}, false},
		"an added template with two names": {Field{Name: FieldTemplate, Template: "data", Ask: logs}, false},
	} {
		for _, into := range []*[]Field{&record.Fields, &record.FieldsBefore} {
			*into = []Field{row.field}
			read, err := LoadResize(setWithStatus(record.Encode()))
			if (err == nil) != row.complete || err != nil && (read != nil || !strings.Contains(err.Error(), "an incomplete field")) {
				t.Errorf("%s: %v", name, err)
			}
			*into = nil
		}
	}
}
