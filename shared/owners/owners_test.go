package owners

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
	"drydock.dev/test/golden"
)

// TestBuiltInRowsAreValid: the built-in rows pass the checks for rows of a ConfigMap.
func TestBuiltInRowsAreValid(t *testing.T) {
	rows := BuiltIn()
	if len(rows) == 0 {
		t.Error("there are no rows")
	}
	for _, row := range rows {
		for _, m := range row.mistakes() {
			t.Errorf("%s %s: %s: %s", row.Operator, row.Group, m.field, m.text)
		}
		if row.Source == "" {
			t.Errorf("%s %s has no source", row.Operator, row.Group)
		}
		for _, s := range append(row.Pause, row.Stop...) {
			if s.Presence && s.Value != "true" {
				t.Errorf("%s: the key %s counts alone, so its value must be true", row.Operator, s.Key)
			}
		}
	}
}

// TestEachKindHasOneRow: no kind is in two built-in rows.
func TestEachKindHasOneRow(t *testing.T) {
	seen := map[string]string{}
	for _, row := range BuiltIn() {
		for _, k := range row.Kinds {
			name := row.Group + "/" + k.Name
			if before, ok := seen[name]; ok {
				t.Errorf("%s is in rows of both %s and %s", name, before, row.Operator)
			}
			seen[name] = row.Operator
		}
	}
	if len(seen) == 0 {
		t.Error("there are no kinds")
	}
}

// TestFind shows which rows are found.
func TestFind(t *testing.T) {
	off := Registry{{Operator: "acme", Group: "acme.example.com", Kinds: kinds("Anvil", "anvils"), Unverified: true}}
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

// TestWith shows how rows of users replace built-in ones.
func TestWith(t *testing.T) {
	base := Registry{
		{Operator: "acme", Group: "acme.example.com", Kinds: kinds("Anvil", "anvils", "Hammer", "hammers"),
			Pause: []Setting{field("spec.paused", true)}},
		{
			Operator:   "lost",
			Group:      "lost.example.com",
			Kinds:      kinds("Sheep", "sheep"),
			Stop:       []Setting{field("spec.stop", true)},
			Unverified: true,
		},
	}
	anvil := Row{Operator: "ours", Group: "acme.example.com", Kinds: kinds("Anvil", "anvils"), Stop: []Setting{field("spec.stop", true)}}
	sheep := Row{Operator: "lost", Group: "lost.example.com", Kinds: kinds("Sheep", "sheep"), Stop: []Setting{field("spec.stop", true)}}
	other := Row{Operator: "other", Group: "other.example.com", Kinds: kinds("Anvil", "anvils"), Pause: []Setting{field("spec.off", true)}}
	hammer := base[0]
	hammer.Kinds = kinds("Hammer", "hammers")
	for name, tc := range map[string]struct{ rows, want Registry }{
		"no rows change nothing":                       {nil, base},
		"a kind of a row is replaced, the others stay": {Registry{anvil}, Registry{hammer, base[1], anvil}},
		"a row that is off is turned on":               {Registry{sheep}, Registry{base[0], sheep}},
		"the same kind of another group is another":    {Registry{other}, Registry{base[0], base[1], other}},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(base[0].Kinds)
			if diff := cmp.Diff(tc.want, base.With(tc.rows)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if len(base[0].Kinds) != before || base[0].Kinds[0].Name != "Anvil" {
				t.Errorf("the registry itself has changed: %v", base[0].Kinds)
			}
		})
	}
}

// TestRowKnowsItsMeans shows rows with a pause, a stop, both or none.
func TestRowKnowsItsMeans(t *testing.T) {
	for name, tc := range map[string]struct {
		group, kind string
		pause, stop bool
	}{
		"both":             {"postgres-operator.crunchydata.com", "PostgresCluster", true, true},
		"a pause only":     {"keda.sh", "ScaledObject", true, false},
		"a stop only":      {"pxc.percona.com", "PerconaXtraDBCluster", false, true},
		"the owner's only": {"upstream.pgv2.percona.com", "PostgresCluster", false, false},
		// It deletes the StatefulSets, and with them what is written on them.
		"TiDB's suspension is no stop": {"pingcap.com", "TidbCluster", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			row := findRow(t, tc.group, tc.kind)
			if row.Supports(ByPause) != tc.pause || row.Supports(ByStop) != tc.stop || row.Supports("") {
				t.Errorf("pause %v, stop %v", row.Supports(ByPause), row.Supports(ByStop))
			}
		})
	}
	if _, ok := BuiltIn().Find("kubedb.com", "Postgres"); ok {
		t.Error("an unverified row is found")
	}
}

// TestBuiltInTable shows every built-in row with all its fields.
func TestBuiltInTable(t *testing.T) {
	var b strings.Builder
	for _, row := range BuiltIn() {
		fmt.Fprintf(&b, "%s %s %v\n", row.Operator, row.Group, row.Kinds)
		for _, by := range []Means{ByPause, ByStop} {
			for _, s := range row.settings(by) {
				fmt.Fprintf(&b, "  %s %s %s = %#v, presence %t\n", by, s.In, s.Key, s.Value, s.Presence)
			}
		}
		fmt.Fprintf(&b, "  resume %q, up %t, off %t\n  source %s\n", row.Resume, row.PausedThroughController, row.Unverified, row.Source)
	}
	golden.Equal(t, b.String())
}

// TestOptInGoesWhereItLasts: some operators remove the label from their StatefulSets.
func TestOptInGoesWhereItLasts(t *testing.T) {
	const onSet = "kubectl label -n shop sts mq-server drydock.dev/managed=true"
	labelled := &unstructured.Unstructured{Object: map[string]any{}}
	labelled.SetLabels(map[string]string{api.ManagedLabel: "true"})
	unlabelled := &unstructured.Unstructured{Object: map[string]any{}}
	const rabbit = "kubectl label -n shop rabbitmqclusters.rabbitmq.com mq drydock.dev/managed=true"
	const redis = "kubectl label -n shop redis.redis.redis.opstreelabs.in mq drydock.dev/managed=true (this restarts the pods, because the " +
		"operator copies the label into them)"
	advice := func(kind, command string) string {
		return "the operator of " + kind + " mq removes the label drydock.dev/managed from its StatefulSets. Label the resource: " + command
	}
	for name, row := range map[string]struct {
		apiVersion, kind string
		resource         *unstructured.Unstructured
		command, advice  string
	}{
		"no controller":                 {"", "", nil, onSet, ""},
		"an unknown kind":               {"example.com/v1", "Store", unlabelled, onSet, ""},
		"an unreadable version":         {"a/b/c", "RabbitmqCluster", unlabelled, onSet, ""},
		"an operator that keeps labels": {"monitoring.coreos.com/v1", "Prometheus", unlabelled, onSet, ""},
		"the resource lacks the label":  {"rabbitmq.com/v1beta1", "RabbitmqCluster", unlabelled, rabbit, advice("RabbitmqCluster", rabbit)},
		"the resource is unknown":       {"rabbitmq.com/v1beta1", "RabbitmqCluster", nil, rabbit, advice("RabbitmqCluster", rabbit)},
		"the resource has the label":    {"rabbitmq.com/v1beta1", "RabbitmqCluster", labelled, rabbit, ""},
		"the label restarts the pods":   {"redis.redis.opstreelabs.in/v1beta2", "Redis", unlabelled, redis, advice("Redis", redis)},
		"the pods have the label":       {"redis.redis.opstreelabs.in/v1beta2", "Redis", labelled, redis, ""},
	} {
		t.Run(name, func(t *testing.T) {
			set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "mq-server"}}
			if row.kind != "" {
				yes := true
				set.OwnerReferences = []metav1.OwnerReference{{APIVersion: row.apiVersion, Kind: row.kind, Name: "mq", UID: "u", Controller: &yes}}
			}
			if got := BuiltIn().OptInCommand(set); got != row.command {
				t.Errorf("the command is %q", got)
			}
			if got := BuiltIn().OptInAdvice(set, row.resource); got != row.advice {
				t.Errorf("the advice is %q", got)
			}
		})
	}
}

// zeroReplicas is the replica count of a stopped operator.
const zeroReplicas = int64(0)

// kinds returns kinds from alternating names and plurals.
func kinds(pairs ...string) []Kind {
	var out []Kind
	for pair := range slices.Chunk(pairs, 2) {
		out = append(out, Kind{Name: pair[0], Plural: pair[1]})
	}
	return out
}

func annotation(key, value string) Setting { return Setting{In: Annotation, Key: key, Value: value} }

func field(path string, value any) Setting { return Setting{In: Field, Key: path, Value: value} }
