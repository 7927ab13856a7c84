package brokers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rabbitcluster "github.com/rabbitmq/cluster-operator/api/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	rabbitv1alpha1 "knative.dev/eventing-rabbitmq/pkg/apis/eventing/v1alpha1"
	"knative.dev/eventing-rabbitmq/pkg/rabbit"
	brokerresources "knative.dev/eventing-rabbitmq/pkg/reconciler/broker/resources"
	triggerresources "knative.dev/eventing-rabbitmq/pkg/reconciler/trigger/resources"
	"knative.dev/eventing-rabbitmq/pkg/utils"
	rabbitv1beta1 "knative.dev/eventing-rabbitmq/third_party/pkg/apis/rabbitmq.com/v1beta1"
	eventingv1 "knative.dev/eventing/pkg/apis/eventing/v1"
	fakeeventing "knative.dev/eventing/pkg/client/clientset/versioned/fake"
	"knative.dev/eventing/pkg/client/injection/client"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"
	"knative.dev/pkg/network"
	"sigs.k8s.io/yaml"
)

const rabbitModule = "knative.dev/eventing-rabbitmq"

// TestRabbitMQOverlay checks what the controllers of Knative's Broker for RabbitMQ read. The paths below are in
// knative.dev/eventing-rabbitmq.
func TestRabbitMQOverlay(t *testing.T) {
	expectFound(t, "rabbitmq", checkRabbitMQ, map[string]mistake{
		"another class":                {"Broker", "", []string{"metadata", "annotations", "eventing.knative.dev/broker.class"}, "RabbitMQ"},
		"a config of another kind":     {"Broker", "", []string{"spec", "config", "kind"}, "RabbitMQBrokerConfig"},
		"a config of another version":  {"Broker", "", []string{"spec", "config", "apiVersion"}, "eventing.knative.dev/v1"},
		"a config that does not exist": {"Broker", "", []string{"spec", "config", "name"}, "dyrdock"},
		"no namespace of the config":   {"Broker", "", []string{"spec", "config", "namespace"}, nil},
		"a limit that is no quantity": {"Broker", "", []string{"metadata", "annotations",
			"rabbitmq.eventing.knative.dev/memory-limit"}, "256M1"},
		"a misspelt field of the config":  {"RabbitmqBrokerConfig", "", []string{"spec", "queuetype"}, "quorum"},
		"classic queues":                  {"RabbitmqBrokerConfig", "", []string{"spec", "queueType"}, "classic"},
		"an unknown type of queues":       {"RabbitmqBrokerConfig", "", []string{"spec", "queueType"}, "Quorum"},
		"no cluster":                      {"RabbitmqBrokerConfig", "", []string{"spec", "rabbitmqClusterReference"}, nil},
		"no name of the cluster":          {"RabbitmqBrokerConfig", "", []string{"spec", "rabbitmqClusterReference", "name"}, nil},
		"a misspelt field of the cluster": {"RabbitmqBrokerConfig", "", []string{"spec", "rabbitmqClusterReference", "nameSpace"}, "x"},
		"the address of another Broker": {"ConfigMap", "drydock-settings", []string{"data", "K_SINK"},
			"http://broker-ingress.knative-eventing.svc.cluster.local/drydock/default"},
		"an address with a path": {"ConfigMap", "drydock-settings", []string{"data", "K_SINK"},
			"http://default-broker-ingress.drydock.svc.cluster.local/drydock/default"},
		"a parallelism that is no number": {"Trigger", "backup", []string{"metadata", "annotations",
			"rabbitmq.eventing.knative.dev/parallelism"}, "many"},
		"a parallelism above the limit": {"Trigger", "backup", []string{"metadata", "annotations",
			"rabbitmq.eventing.knative.dev/parallelism"}, "1001"},
		"a misspelt parallelism": {"Trigger", "backup", []string{"metadata", "annotations"},
			map[string]any{"rabbitmq.eventing.knative.dev/paralelism": "20"}},
		"a request above the limit": {"Trigger", "backup", []string{"metadata", "annotations",
			"rabbitmq.eventing.knative.dev/memory-request"}, "1Gi"},
		"only an expression":               {"Trigger", "backup", []string{"spec", "filter"}, nil},
		"the address of another function":  {"Trigger", "backup", []string{"spec", "filter", "attributes"}, map[string]any{"forrestore": "true"}},
		"the type as an additional filter": {"Trigger", "backup", []string{"spec", "filter", "attributes", "type"}, "dev.drydock.retry"},
		"no retry":                         {"Trigger", "backup", []string{"spec", "delivery", "retry"}, nil},
		"no delay":                         {"Trigger", "backup", []string{"spec", "delivery", "backoffDelay"}, nil},
		"no dead letters":                  {"Trigger", "backup", []string{"spec", "delivery", "deadLetterSink"}, nil},
		"a source without an address":      {"ApiServerSource", "", []string{"spec", "ceOverrides"}, nil},
		"a tick without an address":        {"PingSource", "", []string{"spec", "ceOverrides"}, nil},
		"a misspelt address of the tick": {"PingSource", "", []string{"spec", "ceOverrides", "extensions"},
			map[string]any{"for-sift": "true"}},
		"the level restricted": {"Namespace", "", []string{"metadata", "labels", "pod-security.kubernetes.io/enforce"}, "restricted"},
		"a policy for other pods": {"NetworkPolicy", "broker-ingress", []string{"spec", "podSelector", "matchLabels",
			"eventing.knative.dev/brokerRole"}, "receiver"},
		"a policy without the tick": {"NetworkPolicy", "broker-ingress", []string{"spec", "ingress"},
			[]any{map[string]any{"from": []any{map[string]any{"podSelector": map[string]any{}}}}}},
		"dispatchers that accept requests": {"NetworkPolicy", "broker-dispatchers", []string{"spec", "ingress"}, []any{map[string]any{}}},
	})
}

func checkRabbitMQ(t *testing.T, i *installation) error {
	t.Helper()
	broker, triggers, err := i.checkEventing(webhook(t))
	if err != nil {
		return err
	}
	// pkg/reconciler/trigger/trigger.go, ReconcileKind: the controllers ignore every other class.
	if class := broker.Annotations[eventingv1.BrokerClassAnnotationKey]; class != rabbitv1alpha1.BrokerClass {
		return fmt.Errorf("the class of the Broker is %q, not %q", class, rabbitv1alpha1.BrokerClass)
	}
	o, err := i.one("Broker", broker.Namespace, broker.Name)
	if err != nil {
		return err
	}
	if err := admit(webhook(t), o, &rabbitv1alpha1.RabbitBroker{}); err != nil {
		return err
	}
	reference, err := i.checkQueues(t, broker)
	if err != nil {
		return err
	}
	// pkg/reconciler/broker/broker.go, reconcileCommonIngressResources: the address has no path. cmd/ingress/main.go, ServeHTTP, answers 404
	// for any path but "/".
	service := brokerresources.MakeIngressService(broker)
	broker.Status.SetAddress(&duckv1.Addressable{URL: apis.HTTP(network.GetServiceHostname(service.Name, service.Namespace))})
	if err := i.checkSink(broker.Status.Address.URL.String()); err != nil {
		return err
	}
	pods, err := makePods(broker, triggers)
	if err != nil {
		return err
	}
	return errors.Join(i.checkTriggers(t, broker, triggers, reference), i.checkPodSecurity(pods), i.checkPolicies(pods))
}

// checkQueues checks the RabbitmqBrokerConfig that pkg/brokerconfig/service.go reads.
func (i *installation) checkQueues(t *testing.T, broker *eventingv1.Broker) (*rabbitv1beta1.RabbitmqClusterReference, error) {
	t.Helper()
	o, err := i.one("RabbitmqBrokerConfig", broker.Spec.Config.Namespace, broker.Spec.Config.Name)
	if err != nil {
		return nil, err
	}
	settings := &rabbitv1alpha1.RabbitmqBrokerConfig{}
	if err := admit(webhook(t), o, settings); err != nil {
		return nil, err
	}
	// Only the schema of the custom resource limits the type.
	definition := shipped(t, filepath.Join(module(t, rabbitModule), "config/broker/300-rabbitmqbrokerconfig.yaml"),
		"CustomResourceDefinition", "rabbitmqbrokerconfigs.eventing.knative.dev")
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	allowed, _, err := unstructured.NestedStringSlice(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "spec",
		"properties", "queueType", "enum")
	if err != nil || !slices.Contains(allowed, string(settings.Spec.QueueType)) {
		return nil, fmt.Errorf("the type of queues is %q, and %v are allowed: %v", settings.Spec.QueueType, allowed, err)
	}
	if settings.Spec.QueueType != rabbitv1alpha1.QuorumQueueType {
		return nil, errors.New("a classic queue is lost with its node")
	}
	return settings.Spec.RabbitmqClusterReference, nil
}

// checkTriggers checks the Triggers with the webhook, and the queue bindings and dispatchers that the controller makes.
func (i *installation) checkTriggers(
	t *testing.T, broker *eventingv1.Broker, triggers []*eventingv1.Trigger, cluster *rabbitv1beta1.RabbitmqClusterReference,
) error {
	t.Helper()
	// cmd/webhook/broker/main.go: the webhook looks the Broker up.
	ctx := context.WithValue(webhook(t), client.Key{}, fakeeventing.NewSimpleClientset(broker))
	for _, trigger := range triggers {
		o, err := i.one("Trigger", trigger.Namespace, trigger.Name)
		if err != nil {
			return err
		}
		if err := admit(ctx, o, &rabbitv1alpha1.RabbitTrigger{}); err != nil {
			return err
		}
		if trigger.Spec.Filter == nil {
			return fmt.Errorf("Trigger %s has no filter, and RabbitMQ ignores filters: the function would get every event", trigger.Name)
		}
		// A function that does not read in the order of its queue needs no order. Other sets would wait for a function's slow event.
		dispatcher := makeDispatcher(broker, trigger, false)
		for name, want := range map[string]string{"PARALLELISM": "20", "RETRY": "8", "BACKOFF_POLICY": "exponential",
			"BACKOFF_DELAY": "200ms", "TIMEOUT": "1m0s"} {
			if got := env(&dispatcher.Spec.Template, name); got != want {
				return fmt.Errorf("the dispatcher of Trigger %s has %s=%q, want %q", trigger.Name, name, got, want)
			}
		}
		if trigger.Spec.Delivery.DeadLetterSink == nil {
			return fmt.Errorf("Trigger %s has a delivery without a sink for dead letters: the Broker's does not count", trigger.Name)
		}
	}
	return i.checkRouting(triggers, cluster)
}

// checkRouting checks that each function gets the events with its address. eventsource/engine tests that Drydock's events have the
// address of every function that the expression in filters selects.
func (i *installation) checkRouting(triggers []*eventingv1.Trigger, cluster *rabbitv1beta1.RabbitmqClusterReference) error {
	for _, trigger := range triggers {
		address := "for" + strings.ReplaceAll(trigger.Name, "-", "")
		got, err := receivers(triggers, cluster, map[string]string{address: "true"})
		if err != nil {
			return err
		}
		if !slices.Equal(got, []string{trigger.Name}) {
			return fmt.Errorf("an event with the extension %s goes to %v", address, got)
		}
	}
	if got, err := receivers(triggers, cluster, nil); err != nil || len(got) > 0 {
		return fmt.Errorf("an event without an address goes to %v: %v", got, err)
	}
	for _, kind := range []string{"ApiServerSource", "PingSource"} {
		for _, o := range i.find(kind) {
			source := struct{ Spec duckv1.SourceSpec }{}
			text, err := json.Marshal(o.Object)
			if err != nil {
				return fmt.Errorf("encoding %s: %w", kind, err)
			}
			if err := json.Unmarshal(text, &source); err != nil {
				return fmt.Errorf("decoding %s: %w", kind, err)
			}
			overrides := map[string]string{}
			if source.Spec.CloudEventOverrides != nil {
				overrides = source.Spec.CloudEventOverrides.Extensions
			}
			if got, err := receivers(triggers, cluster, overrides); err != nil || !slices.Equal(got, []string{"sift"}) {
				return fmt.Errorf("the events of the %s go to %v, not to sift: %v", kind, got, err)
			}
		}
	}
	return nil
}

// receivers returns the Triggers whose queue gets a message with the extensions. An exchange of the type headers compares all arguments of
// a binding, except those that begin with x-. pkg/rabbit/binding.go makes the arguments, and pkg/rabbit/message.go the headers.
func receivers(
	triggers []*eventingv1.Trigger, cluster *rabbitv1beta1.RabbitmqClusterReference, extensions map[string]string,
) ([]string, error) {
	var names []string
	for _, trigger := range triggers {
		filters := map[string]string{rabbit.BindingKey: trigger.Name}
		for name, value := range trigger.Spec.Filter.Attributes {
			filters[name] = value
		}
		binding, err := rabbit.NewBinding(&rabbit.BindingArgs{Filters: filters, RabbitmqClusterReference: cluster})
		if err != nil {
			return nil, fmt.Errorf("binding the queue of Trigger %s: %w", trigger.Name, err)
		}
		arguments := map[string]string{}
		if err := json.Unmarshal(binding.Spec.Arguments.Raw, &arguments); err != nil {
			return nil, fmt.Errorf("reading the binding of Trigger %s: %w", trigger.Name, err)
		}
		matches := true
		for name, value := range arguments {
			matches = matches && (strings.HasPrefix(name, "x-") || extensions[name] == value)
		}
		if matches {
			names = append(names, trigger.Name)
		}
	}
	return names, nil
}

// makeDispatcher returns the Deployment of a Trigger's dispatcher, of events or of dead letters.
func makeDispatcher(broker *eventingv1.Broker, trigger *eventingv1.Trigger, dead bool) *appsv1.Deployment {
	resources, _ := utils.GetResourceRequirements(trigger.ObjectMeta) // the webhook has checked it
	return triggerresources.MakeDispatcherDeployment(&triggerresources.DispatcherArgs{
		Trigger: trigger, Delivery: trigger.Spec.Delivery, DLX: dead, BrokerIngressURL: broker.Status.Address.URL,
		Subscriber: &duckv1.Addressable{URL: apis.HTTP("function")}, ResourceRequirements: resources,
	})
}

// makePods returns the pods that the controllers run in the namespace of the Broker.
func makePods(broker *eventingv1.Broker, triggers []*eventingv1.Trigger) ([]corev1.PodTemplateSpec, error) {
	resources, err := utils.GetResourceRequirements(broker.ObjectMeta)
	if err != nil {
		return nil, fmt.Errorf("reading the resources of the Broker: %w", err)
	}
	pods := []corev1.PodTemplateSpec{
		brokerresources.MakeIngressDeployment(&brokerresources.IngressArgs{Broker: broker, ResourceRequirements: resources}).Spec.Template,
		brokerresources.MakeDispatcherDeployment(&brokerresources.DispatcherArgs{
			Broker: broker, Delivery: broker.Spec.Delivery, DLX: true, BrokerIngressURL: broker.Status.Address.URL,
			Subscriber: &duckv1.Addressable{URL: apis.HTTP("dead-letter")}, ResourceRequirements: resources,
		}).Spec.Template,
	}
	for _, trigger := range triggers {
		pods = append(pods, makeDispatcher(broker, trigger, false).Spec.Template, makeDispatcher(broker, trigger, true).Spec.Template)
	}
	return pods, nil
}

// checkPodSecurity checks the pods with the code of Pod Security admission.
func (i *installation) checkPodSecurity(pods []corev1.PodTemplateSpec) error {
	o, err := i.one("Namespace", "", "drydock")
	if err != nil {
		return err
	}
	enforced, problems := podsecurity.PolicyToEvaluate(o.GetLabels(), podsecurity.Policy{})
	if len(problems) > 0 {
		return fmt.Errorf("reading the level of the namespace: %w", problems.ToAggregate())
	}
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return fmt.Errorf("making an evaluator: %w", err)
	}
	for _, pod := range pods {
		for _, result := range evaluator.EvaluatePod(enforced.Enforce, &pod.ObjectMeta, &pod.Spec) {
			if !result.Allowed {
				return fmt.Errorf("a pod with labels %v is refused: %s: %s", pod.Labels, result.ForbiddenReason, result.ForbiddenDetail)
			}
		}
	}
	return nil
}

// checkPolicies checks that one NetworkPolicy selects each pod. Only the ingress accepts requests: from the namespace's pods and from
// Knative's, where the adapter of PingSources runs.
func (i *installation) checkPolicies(pods []corev1.PodTemplateSpec) error {
	for _, pod := range pods {
		var selected []networkingv1.NetworkPolicySpec
		for _, o := range i.find("NetworkPolicy") {
			network := &networkingv1.NetworkPolicy{}
			if err := decode(o, network); err != nil {
				return err
			}
			selector, err := metav1.LabelSelectorAsSelector(&network.Spec.PodSelector)
			if err != nil {
				return fmt.Errorf("reading NetworkPolicy %s: %w", network.Name, err)
			}
			if selector.Matches(labels.Set(pod.Labels)) {
				selected = append(selected, network.Spec)
			}
		}
		if len(selected) != 1 {
			return fmt.Errorf("%d policies select a pod with labels %v", len(selected), pod.Labels)
		}
		if pod.Labels["eventing.knative.dev/brokerRole"] != "ingress" {
			if len(selected[0].Ingress) > 0 {
				return errors.New("a dispatcher accepts requests")
			}
			continue
		}
		var from []string
		for _, peer := range selected[0].Ingress[0].From {
			from = append(from, fmt.Sprint(metav1.FormatLabelSelector(peer.NamespaceSelector), " ", metav1.FormatLabelSelector(peer.PodSelector)))
		}
		if want := []string{"<none> <none>", "kubernetes.io/metadata.name=knative-eventing <none>"}; !slices.Equal(from, want) {
			return fmt.Errorf("the ingress accepts requests from %q, want %q", from, want)
		}
	}
	return nil
}

// TestDocsShowAValidCluster: the manifest in docs/brokers.md has only fields of RabbitMQ's cluster operator, and the name that the overlay
// refers to.
func TestDocsShowAValidCluster(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "brokers.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(page), "```yaml\n")
	block, _, _ := strings.Cut(after, "```")
	o := &object{}
	if err := yaml.Unmarshal([]byte(block), o); err != nil {
		t.Fatal(err)
	}
	cluster := &rabbitcluster.RabbitmqCluster{}
	if err := decode(o, cluster); err != nil {
		t.Fatal(err)
	}
	reference, err := install(t, "rabbitmq").one("RabbitmqBrokerConfig", "drydock", "drydock")
	if err != nil {
		t.Fatal(err)
	}
	settings := &rabbitv1alpha1.RabbitmqBrokerConfig{}
	if err := decode(reference, settings); err != nil {
		t.Fatal(err)
	}
	if got := settings.Spec.RabbitmqClusterReference; got.Name != cluster.Name || got.Namespace != cluster.Namespace {
		t.Errorf("the overlay refers to %s/%s, and the page shows %s/%s", got.Namespace, got.Name, cluster.Namespace, cluster.Name)
	}
	if *cluster.Spec.Replicas != 3 || cluster.Annotations["rabbitmq.com/topology-allowed-namespaces"] != "drydock" {
		t.Errorf("%d replicas, annotations %v", *cluster.Spec.Replicas, cluster.Annotations)
	}
}
