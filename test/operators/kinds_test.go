//go:build cluster

package operators

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kind is a kind of custom resource. testdata/NAME.yaml has its resource, which is named main.
type kind struct {
	name     string
	operator *operator
	resource schema.GroupVersionResource
	set      string // the StatefulSet of the resource
	replicas int32  // that its resource asks for
	template string // the volumeClaimTemplate
	// size is where the resource has the size of the volumes. It is empty if no test resizes them.
	size string
	// touch is a change by a user, as a JSON Patch. It changes the template of the pods. So the operator reconciles the StatefulSet.
	touch string
	// copies: the operator copies labels and annotations of the resource to the StatefulSet.
	copies bool
	// intoPods: the operator copies them into the pods, too, which restarts these.
	intoPods bool
	// replaces: the operator replaces a StatefulSet whose volumes have another size than the resource.
	replaces bool
	// notes is the prefix of annotations that the operator itself writes to the resource: no user does, and Drydock pauses by other keys.
	notes string
	// podAnnotations are written by a process in each pod, and the operator waits for them.
	podAnnotations map[string]string
	// removes: the operator removes labels of others from its StatefulSets.
	removes bool
	// hasRow: Drydock's table has a row for the kind.
	hasRow bool
}

func monitoring(version, plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "monitoring.coreos.com", Version: version, Resource: plural}
}

const (
	sizeInStorage = "/spec/storage/volumeClaimTemplate/spec/resources/requests/storage"
	logLevel      = `[{"op":"add","path":"/spec/logLevel","value":"debug"}]`
)

var kinds = []kind{
	{name: "Prometheus", operator: prometheusOperator, resource: monitoring("v1", "prometheuses"), set: "prometheus-main", replicas: 2,
		template: "data", size: sizeInStorage, touch: logLevel, replaces: true, copies: true, hasRow: true},
	{name: "Alertmanager", operator: prometheusOperator, resource: monitoring("v1", "alertmanagers"), set: "alertmanager-main", replicas: 3,
		template: "data", size: sizeInStorage, touch: logLevel, replaces: true, copies: true, hasRow: true},
	{name: "PrometheusAgent", operator: prometheusOperator, resource: monitoring("v1alpha1", "prometheusagents"), set: "prom-agent-main",
		replicas: 2, template: "data", touch: logLevel, copies: true, hasRow: true},
	{name: "ThanosRuler", operator: prometheusOperator, resource: monitoring("v1", "thanosrulers"), set: "thanos-ruler-main", replicas: 2,
		template: "data", touch: logLevel, copies: true, hasRow: true},
	{name: "RabbitmqCluster", operator: rabbitmqOperator,
		resource: schema.GroupVersionResource{Group: "rabbitmq.com", Version: "v1beta1", Resource: "rabbitmqclusters"},
		set:      "main-server", replicas: 3, template: "persistence", size: "/spec/persistence/storage",
		touch: `[{"op":"replace","path":"/spec/terminationGracePeriodSeconds","value":60}]`, copies: true, removes: true, hasRow: true,
		notes: "rabbitmq.com/"},
	{name: "Logstash", operator: eck,
		resource: schema.GroupVersionResource{Group: "logstash.k8s.elastic.co", Version: "v1alpha1", Resource: "logstashes"},
		set:      "main-ls", replicas: 2, template: "logstash-data",
		size:  "/spec/volumeClaimTemplates/0/spec/resources/requests/storage",
		touch: `[{"op":"replace","path":"/spec/podTemplate/metadata/annotations/reload","value":"1"}]`, hasRow: true},
	{name: "Agent", operator: eck,
		resource: schema.GroupVersionResource{Group: "agent.k8s.elastic.co", Version: "v1alpha1", Resource: "agents"},
		set:      "main-agent", replicas: 2, template: "agent-data",
		size:  "/spec/statefulSet/volumeClaimTemplates/0/spec/resources/requests/storage",
		touch: `[{"op":"replace","path":"/spec/statefulSet/podTemplate/metadata/annotations/reload","value":"1"}]`, hasRow: true},
	{name: "RedisReplication", operator: redisOperator, resource: redisReplications, set: "main", replicas: 3, template: "main",
		size: sizeInStorage, touch: `[{"op":"replace","path":"/spec/kubernetesConfig/image","value":"example.com/redis:8"}]`,
		copies: true, intoPods: true, hasRow: true},
	{name: "ZookeeperCluster", operator: zookeeperOperator,
		resource: schema.GroupVersionResource{Group: "zookeeper.pravega.io", Version: "v1beta1", Resource: "zookeeperclusters"},
		set:      "main", replicas: 3, template: "data"},
	{name: "MongoDBCommunity", operator: mongodbOperator,
		resource: schema.GroupVersionResource{Group: "mongodbcommunity.mongodb.com", Version: "v1", Resource: "mongodbcommunity"},
		set:      "main", replicas: 3, template: "data-volume", removes: true,
		podAnnotations: map[string]string{"agent.mongodb.com/version": "1"}},
}

func hasRow(k kind) bool    { return k.hasRow }
func resizable(k kind) bool { return k.size != "" }

// TestTableNamesVersionsThatRan: the versions in Drydock's table are those that these tests run.
func TestTableNamesVersionsThatRan(t *testing.T) {
	each(t, func(k kind) bool { return k.hasRow && !isPlayed(k) }, func(t *testing.T, k kind) {
		if says, is := rowOf(t, k).Ran, k.operator.about(t, "Version"); says != is {
			t.Errorf("the table says %q, %s ran", says, is)
		}
	})
}

// each runs the test for each kind that it concerns. The names of the subtests are those of the operator and of the kind.
func each(t *testing.T, concerns func(kind) bool, test func(*testing.T, kind)) {
	t.Helper()
	t.Parallel()
	of := map[string][]kind{}
	for _, k := range kinds {
		if concerns(k) {
			of[k.operator.name] = append(of[k.operator.name], k)
		}
	}
	if len(of) == 0 {
		t.Fatal("it concerns no kind")
	}
	for name, group := range of {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, k := range group {
				t.Run(k.name, func(t *testing.T) {
					t.Parallel()
					test(t, k)
				})
			}
		})
	}
}
