package owners

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

func TestEachRowIsComplete(t *testing.T) {
	for _, row := range BuiltIn() {
		if row.Operator == "" || row.Operator != strings.ToLower(row.Operator) || strings.Contains(row.Operator, " ") {
			t.Errorf("operator %q of %s is not a name in lower case with dashes", row.Operator, row.Group)
		}
		if !strings.Contains(row.Group, ".") || len(validation.IsDNS1123Subdomain(row.Group)) > 0 {
			t.Errorf("group %q of %s is not an API group", row.Group, row.Operator)
		}
		if len(row.Kinds) == 0 {
			t.Errorf("%s %s has no kinds", row.Operator, row.Group)
		}
		for _, k := range row.Kinds {
			// A plural is a part of the definition's name, so it is a DNS label: no capitals, no wildcard.
			if k.Name == "" || len(validation.IsDNS1123Label(k.Plural)) > 0 {
				t.Errorf("kind %q of %s has the plural %q", k.Name, row.Group, k.Plural)
			}
		}
		if row.Source == "" {
			t.Errorf("%s %s has no source", row.Operator, row.Group)
		}
		if paused := len(row.Pause) > 0; paused == row.Up {
			t.Errorf("%s %s has pause %v and up %v, it must have one of them", row.Operator, row.Group, row.Pause, row.Up)
		}
	}
}

func TestEachKindStandsInOneRow(t *testing.T) {
	seen := map[string]string{}
	for _, row := range BuiltIn() {
		for _, k := range row.Kinds {
			name := row.Group + "/" + k.Name
			if before, ok := seen[name]; ok {
				t.Errorf("%s is in a row of %s and in a row of %s", name, before, row.Operator)
			}
			seen[name] = row.Operator
		}
	}
}

func TestEachSettingCanBeWritten(t *testing.T) {
	for _, row := range BuiltIn() {
		for _, s := range row.Pause {
			for _, problem := range problems(s) {
				t.Errorf("%s %s: %s %q: %s", row.Operator, row.Group, s.In, s.Key, problem)
			}
		}
	}
}

// problems are the reasons why the API server would refuse or drop the setting.
func problems(s Setting) []string {
	text, isText := s.Value.(string)
	_, isBool := s.Value.(bool)
	var out []string
	switch s.In {
	case Annotation, Label:
		out = validation.IsQualifiedName(s.Key)
		if !isText || text == "" {
			out = append(out, "the value is not a text")
		}
		if s.In == Label {
			out = append(out, validation.IsValidLabelValue(text)...)
		}
		if s.Presence && text != "true" {
			out = append(out, "the key alone pauses, the value is to be true")
		}
	case Field:
		if !strings.HasPrefix(s.Key, "spec.") {
			out = append(out, "the path does not begin with spec.")
		}
		if !isText && !isBool {
			out = append(out, "the value is not a text and not a bool")
		}
		if s.Presence {
			out = append(out, "a field cannot pause by its presence")
		}
	default:
		out = append(out, "there is no such place")
	}
	return out
}

func TestFind(t *testing.T) {
	off := Registry{{Operator: "acme", Group: "acme.example.com", Kinds: kinds("Anvil", "anvils"), Off: true}}
	for name, tc := range map[string]struct {
		in          Registry
		group, kind string
		key         string // empty: not found
	}{
		"each Redis kind has its own key": {
			BuiltIn(), "redis.redis.opstreelabs.in", "RedisCluster", "rediscluster.opstreelabs.in/skip-reconcile",
		},
		"Superset has the field deeper": {
			BuiltIn(), "superset.stackable.tech", "SupersetCluster",
			"spec.clusterConfig.clusterOperation.reconciliationPaused",
		},
		"the key of a Splunk kind is made from its name": {
			BuiltIn(), "enterprise.splunk.com", "SearchHeadCluster", "searchheadcluster.enterprise.splunk.com/paused",
		},
		"an unknown kind is not found":             {BuiltIn(), "redis.redis.opstreelabs.in", "RedisBackup", ""},
		"a kind of another group is not found":     {BuiltIn(), "databases.spotahome.com", "RedisCluster", ""},
		"a kind is not found by its plural":        {BuiltIn(), "monitoring.coreos.com", "prometheuses", ""},
		"a kind of a row that is off is not found": {off, "acme.example.com", "Anvil", ""},
	} {
		t.Run(name, func(t *testing.T) {
			row, ok := tc.in.Find(tc.group, tc.kind)
			key := ""
			if ok {
				key = row.Pause[0].Key
			}
			if key != tc.key {
				t.Errorf("found %v with the key %q, want the key %q", ok, key, tc.key)
			}
		})
	}
}
