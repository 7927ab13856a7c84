package brokers

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/zap"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fakekube "k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	kubetesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	kafkav1 "knative.dev/eventing-kafka-broker/control-plane/pkg/apis/eventing/v1"
	internals "knative.dev/eventing-kafka-broker/control-plane/pkg/apis/internalskafkaeventing/v1alpha1"
	kafkasources "knative.dev/eventing-kafka-broker/control-plane/pkg/apis/sources/v1"
	fakeinternals "knative.dev/eventing-kafka-broker/control-plane/pkg/client/clientset/versioned/fake"
	internalslisters "knative.dev/eventing-kafka-broker/control-plane/pkg/client/listers/internalskafkaeventing/v1alpha1"
	"knative.dev/eventing-kafka-broker/control-plane/pkg/config"
	"knative.dev/eventing-kafka-broker/control-plane/pkg/contract"
	coreconfig "knative.dev/eventing-kafka-broker/control-plane/pkg/core/config"
	"knative.dev/eventing-kafka-broker/control-plane/pkg/kafka"
	"knative.dev/eventing-kafka-broker/control-plane/pkg/receiver"
	brokerreconciler "knative.dev/eventing-kafka-broker/control-plane/pkg/reconciler/broker"
	triggerv2 "knative.dev/eventing-kafka-broker/control-plane/pkg/reconciler/trigger/v2"
	"knative.dev/eventing-kafka-broker/control-plane/pkg/security"
	eventingv1 "knative.dev/eventing/pkg/apis/eventing/v1"
	eventinglisters "knative.dev/eventing/pkg/client/listers/eventing/v1"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"
	"knative.dev/pkg/network"
)

const kafkaModule = "knative.dev/eventing-kafka-broker"

// TestKafkaOverlay checks what the controllers of Knative's Broker for Apache Kafka read. The paths below are in
// knative.dev/eventing-kafka-broker/control-plane.
func TestKafkaOverlay(t *testing.T) {
	expectFound(t, "kafka", checkKafka, map[string]mistake{
		"another class": {"Broker", "", []string{"metadata", "annotations", "eventing.knative.dev/broker.class"}, "kafka"},
		"a misspelt class key": {"Broker", "", []string{"metadata", "annotations"},
			map[string]any{"eventing.knative.dev/broker-class": "Kafka"}},
		"an unknown field of the Broker":       {"Broker", "", []string{"spec", "configs"}, map[string]any{}},
		"a config of another kind":             {"Broker", "", []string{"spec", "config", "kind"}, "KafkaConfig"},
		"a config that does not exist":         {"Broker", "", []string{"spec", "config", "name"}, "drydock-kafak"},
		"no servers":                           {"ConfigMap", "drydock-kafka", []string{"data", "bootstrap.servers"}, nil},
		"a server without a port":              {"ConfigMap", "drydock-kafka", []string{"data", "bootstrap.servers"}, "kafka"},
		"no partitions":                        {"ConfigMap", "drydock-kafka", []string{"data", "default.topic.partitions"}, "0"},
		"partitions that are no number":        {"ConfigMap", "drydock-kafka", []string{"data", "default.topic.partitions"}, "ten"},
		"a misspelt key of the ConfigMap":      {"ConfigMap", "drydock-kafka", []string{"data", "default.topic.partition"}, "20"},
		"a misspelt setting of the topic":      {"ConfigMap", "drydock-kafka", []string{"data", "default.topic.config.retention"}, "1"},
		"a single replica":                     {"ConfigMap", "drydock-kafka", []string{"data", "default.topic.replication.factor"}, "1"},
		"as many in-sync replicas as replicas": {"ConfigMap", "drydock-kafka", []string{"data", "default.topic.config.min.insync.replicas"}, "3"},
		"a retention that is no number":        {"ConfigMap", "drydock-kafka", []string{"data", "default.topic.config.retention.ms"}, "1h"},
		"the address of another Broker": {"ConfigMap", "drydock-settings", []string{"data", "K_SINK"},
			"http://broker-ingress.knative-eventing.svc.cluster.local/drydock/default"},
		"a misspelt order": {"Trigger", "backup", []string{"metadata", "annotations",
			"kafka.eventing.knative.dev/delivery.order"}, "sorted"},
		"a misspelt annotation of the order": {"Trigger", "backup", []string{"metadata", "annotations"},
			map[string]any{"kafka.eventing.knative.dev/delivery-order": "ordered"}},
		"a retry without a number":       {"Trigger", "backup", []string{"spec", "delivery", "retry"}, "8"},
		"a delay that is no duration":    {"Trigger", "backup", []string{"spec", "delivery", "backoffDelay"}, "200ms"},
		"a misspelt policy":              {"Trigger", "backup", []string{"spec", "delivery", "backoffPolicy"}, "exponentially"},
		"no dead letters":                {"Trigger", "backup", []string{"spec", "delivery", "deadLetterSink"}, nil},
		"an expression that is no CESQL": {"Trigger", "backup", []string{"spec", "filters"}, []any{map[string]any{"cesql": "type = "}}},
		"no expression":                  {"Trigger", "backup", []string{"spec", "filters"}, nil},
	})
}

func checkKafka(t *testing.T, i *installation) error {
	t.Helper()
	ctx := webhook(t)
	broker, triggers, err := i.checkEventing(ctx)
	if err != nil {
		return err
	}
	// pkg/kafka/broker_class.go: the controllers ignore every other class.
	if class := broker.Annotations[eventingv1.BrokerClassAnnotationKey]; class != kafka.BrokerClass {
		return fmt.Errorf("the class of the Broker is %q, not %q", class, kafka.BrokerClass)
	}
	o, err := i.one("Broker", broker.Namespace, broker.Name)
	if err != nil {
		return err
	}
	// cmd/webhook-kafka/main.go, pkg/apis/eventing/v1: the config is a ConfigMap.
	if err := admit(ctx, o, &kafkav1.BrokerStub{}); err != nil {
		return err
	}
	topic, err := i.checkTopic(broker)
	if err != nil {
		return err
	}
	// pkg/reconciler/broker/broker.go, reconcileKind: the address has the name of the Service, which the Deployment sets.
	controller := shipped(t, filepath.Join(module(t, kafkaModule),
		"control-plane/config/eventing-kafka-broker/200-controller/500-controller.yaml"), "Deployment", "kafka-controller")
	host := network.GetServiceHostname(variable(t, controller, "BROKER_INGRESS_NAME"), controller.GetNamespace())
	if err := i.checkSink(receiver.HTTPAddress(host, nil, broker).URL.String()); err != nil {
		return err
	}
	broker.Status.Annotations = map[string]string{
		kafka.TopicAnnotation: "topic", kafka.BootstrapServersConfigMapKey: topic.GetBootstrapServers(),
	}
	return checkConsumers(ctx, t, broker, triggers)
}

// server is a host with a port.
var server = regexp.MustCompile(`^[a-z0-9.-]+:[0-9]+$`)

// checkTopic reads the ConfigMap of the Broker as the controller does: pkg/reconciler/broker/broker.go, brokerConfigMap and topicConfig;
// pkg/kafka/topic.go. The controller ignores unknown keys, so they are an error here.
func (i *installation) checkTopic(broker *eventingv1.Broker) (*kafka.TopicConfig, error) {
	o, err := i.one("ConfigMap", broker.Spec.Config.Namespace, broker.Spec.Config.Name)
	if err != nil {
		return nil, err
	}
	settings := &corev1.ConfigMap{}
	if err := decode(o, settings); err != nil {
		return nil, err
	}
	topic, err := kafka.TopicConfigFromConfigMap(zap.NewNop(), settings)
	if err != nil {
		return nil, err
	}
	for key := range settings.Data {
		switch key {
		case kafka.DefaultTopicNumPartitionConfigMapKey, kafka.DefaultTopicReplicationFactorConfigMapKey,
			kafka.BootstrapServersConfigMapKey, security.AuthSecretNameKey,
			// Settings of a topic, passed on to Kafka (https://kafka.apache.org/documentation/#topicconfigs).
			kafka.DefaultTopicConfigPrefix + "retention.ms", kafka.DefaultTopicConfigPrefix + "min.insync.replicas":
		default:
			return nil, fmt.Errorf("ConfigMap %s: no controller reads key %q", settings.Name, key)
		}
	}
	for _, address := range topic.BootstrapServers {
		if !server.MatchString(address) {
			return nil, fmt.Errorf("%q is no host with a port", address)
		}
	}
	number := map[string]int{}
	for name, value := range topic.TopicDetail.ConfigEntries {
		if number[name], err = strconv.Atoi(*value); err != nil {
			return nil, fmt.Errorf("setting %s of the topic: %w", name, err)
		}
	}
	if least := number["min.insync.replicas"]; least < 2 || least >= int(topic.TopicDetail.ReplicationFactor) {
		return nil, fmt.Errorf("%d of %d replicas must be in sync: a lost node loses events, or stops the topic", least,
			topic.TopicDetail.ReplicationFactor)
	}
	if number["retention.ms"] < 60*60*1000 {
		return nil, fmt.Errorf("the retention is %d ms: too short for a restart of all functions", number["retention.ms"])
	}
	return topic, nil
}

// checkConsumers lets the controller of Triggers make the consumer group of each Trigger, and checks it. The controller is
// pkg/reconciler/trigger/v2, as in cmd/kafka-controller/main.go.
func checkConsumers(ctx context.Context, t *testing.T, broker *eventingv1.Broker, triggers []*eventingv1.Trigger) error {
	t.Helper()
	broker.Status.Conditions = duckv1.Conditions{{Type: apis.ConditionReady, Status: corev1.ConditionTrue}}
	dataPlane := &corev1.ConfigMap{}
	if err := decode(shipped(t, filepath.Join(module(t, kafkaModule), "data-plane/config/broker/100-config-kafka-broker-data-plane.yaml"),
		"ConfigMap", "config-kafka-broker-data-plane"), dataPlane); err != nil {
		return err
	}
	client := fakeinternals.NewSimpleClientset()
	controller := &triggerv2.Reconciler{
		BrokerLister:         eventinglisters.NewBrokerLister(index(t, broker)),
		ConfigMapLister:      corelisters.NewConfigMapLister(index(t, dataPlane)),
		ServiceAccountLister: corelisters.NewServiceAccountLister(index(t)),
		SecretLister:         corelisters.NewSecretLister(index(t)),
		ConsumerGroupLister:  internalslisters.NewConsumerGroupLister(index(t)),
		InternalsClient:      client,
		KubeClient:           fakekube.NewClientset(),
		Env:                  &config.Env{DataPlaneConfigMapNamespace: dataPlane.Namespace, DataPlaneConfigConfigMapName: dataPlane.Name},
	}
	for _, trigger := range triggers {
		if err := controller.ReconcileKind(ctx, trigger); err != nil {
			return fmt.Errorf("reconciling Trigger %s: %w", trigger.Name, err)
		}
	}
	groups := 0
	for _, action := range client.Actions() {
		created, ok := action.(kubetesting.CreateAction)
		if !ok {
			continue
		}
		group, ok := created.GetObject().(*internals.ConsumerGroup)
		if !ok {
			return fmt.Errorf("the controller has made %T", created.GetObject())
		}
		if err := checkConsumer(ctx, group); err != nil {
			return fmt.Errorf("consumer group of Trigger %s: %w", group.OwnerReferences[0].Name, err)
		}
		groups++
	}
	if groups != len(triggers) {
		return fmt.Errorf("%d Triggers have %d consumer groups", len(triggers), groups)
	}
	return nil
}

// checkConsumer checks the order, the filter and the delivery that the data plane gets.
func checkConsumer(ctx context.Context, group *internals.ConsumerGroup) error {
	consumer := group.Spec.Template.Spec
	// sift judges each event separately, so it does not need the order.
	if sift := group.OwnerReferences[0].Name == "sift"; !sift && consumer.Delivery.Ordering != kafkasources.Ordered {
		return fmt.Errorf("the order is %q", consumer.Delivery.Ordering)
	}
	// pkg/reconciler/consumer/consumer.go passes both filters on. The data plane uses the expressions if there are any:
	// data-plane/dispatcher/.../main/ConsumerVerticleBuilder.java, getFilter.
	if len(consumer.Filters.Filters) != 1 {
		return fmt.Errorf("%d filters, want one expression", len(consumer.Filters.Filters))
	}
	if contract.FromSubscriptionFilter(consumer.Filters.Filters[0]).GetCesql().GetExpression() == "" {
		return errors.New("the filter is no expression")
	}
	delivery := *consumer.Delivery.DeliverySpec
	if delivery.DeadLetterSink == nil {
		return errors.New("there is no sink for dead letters")
	}
	delivery.DeadLetterSink = nil // its address comes from the cluster
	egress, err := coreconfig.EgressConfigFromDelivery(ctx, nil, group, &delivery, 0)
	if err != nil {
		return fmt.Errorf("reading the delivery: %w", err)
	}
	if egress.GetRetry() != 8 || egress.GetBackoffDelay() != 200 || egress.GetTimeout() != 60000 ||
		egress.GetBackoffPolicy() != contract.BackoffPolicy_Exponential {
		return fmt.Errorf("the delivery is %+v", egress)
	}
	return nil
}

// index returns the cache of a lister.
func index(t *testing.T, objects ...runtime.Object) cache.Indexer {
	t.Helper()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for _, o := range objects {
		if err := indexer.Add(o); err != nil {
			t.Fatal(err)
		}
	}
	return indexer
}

// variable returns the value of an environment variable of the first container of a Deployment.
func variable(t *testing.T, o *object, name string) string {
	t.Helper()
	deployment := &appsv1.Deployment{}
	if err := decode(o, deployment); err != nil {
		t.Fatal(err)
	}
	return env(&deployment.Spec.Template, name)
}

// env returns the value of an environment variable of the pod's first container, or "".
func env(pod *corev1.PodTemplateSpec, name string) string {
	for _, v := range pod.Spec.Containers[0].Env {
		if v.Name == name {
			return v.Value
		}
	}
	return ""
}

// TestKafkaTakesTheLargestEvent: the default of the Broker's producer is the limit of a function, 1 MiB (shared/serve, MaxBytes).
func TestKafkaTakesTheLargestEvent(t *testing.T) {
	settings := &corev1.ConfigMap{}
	if err := decode(shipped(t, filepath.Join(module(t, kafkaModule), "data-plane/config/broker/100-config-kafka-broker-data-plane.yaml"),
		"ConfigMap", "config-kafka-broker-data-plane"), settings); err != nil {
		t.Fatal(err)
	}
	producer := settings.Data["config-kafka-broker-producer.properties"]
	for _, line := range []string{"max.request.size=1048576", "acks=all"} {
		if !strings.Contains(producer, line+"\n") {
			t.Errorf("the producer has no %s:\n%s", line, producer)
		}
	}
	// A consumer whose offset is no longer retained continues with new events.
	if consumer := settings.Data[brokerreconciler.ConsumerConfigKey]; !strings.Contains(consumer, "auto.offset.reset=latest\n") {
		t.Errorf("the consumer has no auto.offset.reset=latest:\n%s", consumer)
	}
}
