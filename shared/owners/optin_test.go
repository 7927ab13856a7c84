package owners

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
)

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
