package command

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestCommandsSayWhereTheLabelLasts: the operator of RabbitMQ removes labels from its StatefulSets.
func TestCommandsSayWhereTheLabelLasts(t *testing.T) {
	const advice = "the operator of RabbitmqCluster mq removes the label drydock.dev/managed from its StatefulSets"
	const command = "kubectl label -n shop rabbitmqclusters.rabbitmq.com mq drydock.dev/managed=true"
	controlled := build.Edit(func(s *appsv1.StatefulSet) {
		build.ControlledBy("RabbitmqCluster", "mq")(s)
		s.OwnerReferences[0].APIVersion, s.OwnerReferences[0].UID = "rabbitmq.com/v1beta1", "uid-mq"
	})
	resource := func(labels map[string]any) map[string]any {
		return map[string]any{"apiVersion": "rabbitmq.com/v1beta1", "kind": "RabbitmqCluster",
			"metadata": map[string]any{"name": "mq", "namespace": "shop", "uid": "uid-mq", "labels": labels}}
	}
	optedOut := build.Label(api.ManagedLabel, "")
	for name, row := range map[string]struct {
		set      []build.Option
		resource map[string]any
		warned   bool
		err      string
	}{
		"the set has the label, the resource not": {[]build.Option{controlled}, resource(nil), true, ""},
		"both have the label":                     {[]build.Option{controlled}, resource(map[string]any{api.ManagedLabel: "true"}), false, ""},
		"the resource cannot be read":             {[]build.Option{controlled}, nil, false, ""},
		"the set has lost the label":              {[]build.Option{controlled, optedOut}, resource(nil), false, "Opt in with: " + command},
		"a set without an operator has not opted in": {[]build.Option{optedOut}, nil, false,
			"Opt in with: kubectl label -n shop sts web drydock.dev/managed=true"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, build.Set("web", row.set...))
			c.resource = row.resource
			out, err := c.run(t, "sleep", "sts/web", "--yes")
			if row.err == "" && err != nil || row.err != "" && (err == nil || !strings.Contains(err.Error(), row.err)) {
				t.Errorf("%v", err)
			}
			if strings.Contains(out, "Warning: "+advice) != row.warned || strings.Contains(out, command) != row.warned {
				t.Errorf("it prints %s", out)
			}
		})
	}
}
