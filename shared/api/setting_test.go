package api

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

// TestRecordWithASettingThatIsNotComplete cannot be read: nothing acts on a part of it.
func TestRecordWithASettingThatIsNotComplete(t *testing.T) {
	record, err := LoadResize(setWith(string(fixture(t, "status-v2.json"))))
	if err != nil {
		t.Fatal(err)
	}
	logs := &TemplateTarget{Name: "logs", Size: resource.MustParse("1Gi")}
	for name, row := range map[string]struct {
		setting  Setting
		complete bool
	}{
		"no service":                   {Setting{Field: FieldServiceName}, true},
		"a service that is removed":    {Setting{Field: FieldServiceName, Removed: true}, false},
		"another field":                {Setting{Field: "selector"}, false},
		"no field":                     {Setting{}, false},
		"a label":                      {Setting{Field: FieldLabels, Template: "data", Key: "a"}, true},
		"a label of no template":       {Setting{Field: FieldLabels, Key: "a"}, false},
		"an annotation without a key":  {Setting{Field: FieldAnnotations, Template: "data"}, false},
		"a template less":              {Setting{Field: FieldTemplate, Template: "logs", Removed: true}, true},
		"a template more":              {Setting{Field: FieldTemplate, Template: "logs", Ask: logs}, true},
		"a template more of no size":   {Setting{Field: FieldTemplate, Template: "logs"}, false},
		"a template more of two names": {Setting{Field: FieldTemplate, Template: "data", Ask: logs}, false},
	} {
		for _, into := range []*[]Setting{&record.Settings, &record.SettingsBefore} {
			*into = []Setting{row.setting}
			read, err := LoadResize(setWith(record.Encode()))
			if (err == nil) != row.complete || err != nil && (read != nil || !strings.Contains(err.Error(), "a setting that is not complete")) {
				t.Errorf("%s: %v", name, err)
			}
			*into = nil
		}
	}
}
