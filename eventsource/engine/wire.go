package engine

import (
	"context"
	"fmt"
	"net/http"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/eventing/pkg/apis/eventing"
	eventingv1 "knative.dev/eventing/pkg/apis/eventing/v1"
	"knative.dev/eventing/pkg/broker"
	"knative.dev/eventing/pkg/broker/filter"
	"knative.dev/eventing/pkg/broker/ingress"
	"knative.dev/eventing/pkg/channel"
	"knative.dev/eventing/pkg/channel/fanout"
	"knative.dev/eventing/pkg/client/informers/externalversions"
	"knative.dev/eventing/pkg/eventingtls"
	"knative.dev/eventing/pkg/kncloudevents"
	"knative.dev/eventing/pkg/reconciler/sugar/trigger/path"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"
	knetwork "knative.dev/pkg/network"

	"drydock.dev/shared/api"
)

// maxHops bounds how often replies may follow one another, Knative's default (cmd/broker/ingress, MAX_TTL).
const maxHops = 255

// Hosts of the data plane, as Knative names them on a cluster; replies have one of their own, behind no admission.
const (
	ingressHost = "broker-ingress"
	repliesHost = "broker-replies"
	filterHost  = "broker-filter"
	channelHost = "default-kne-trigger-kn-channel"
)

func (e *Engine) url(host, path string) *apis.URL {
	return &apis.URL{Scheme: "http", Host: knetwork.GetServiceHostname(host, e.namespace), Path: path}
}

func (e *Engine) ingressURL() *apis.URL { return e.url(ingressHost, "/"+e.namespace+"/"+e.broker) }

// functionURL is the address of a function's Knative Service.
func (e *Engine) functionURL(name api.Function) *apis.URL { return e.url(string(name), "") }

// wire does what Knative's controllers do with a Broker and its Triggers: resolve every address into the objects'
// status. The data plane reads them from listers that nobody fills but this function.
func (e *Engine) wire() error {
	log := newZap(e.config.Log)
	informers := externalversions.NewSharedInformerFactory(nil, 0) // never started, so it needs no client
	brokers, triggers := informers.Eventing().V1().Brokers(), informers.Eventing().V1().Triggers()
	subscriptions := informers.Messaging().V1().Subscriptions()
	meters, traces := metricnoop.NewMeterProvider(), tracenoop.NewTracerProvider()
	same := func(ctx context.Context) context.Context { return ctx }

	in, err := ingress.NewHandler(log, broker.TTLDefaulter(log, maxHops), brokers, nil, nil, nil, same, meters, traces)
	if err != nil {
		return fmt.Errorf("making the ingress: %w", err)
	}
	filters, err := filter.NewHandler(log, nil, nil, triggers, brokers, subscriptions, nil, same, meters, traces)
	if err != nil {
		return fmt.Errorf("making the filter: %w", err)
	}
	if err := brokers.Informer().GetIndexer().Add(e.brokerObject()); err != nil {
		return fmt.Errorf("storing the Broker: %w", err)
	}
	subscribed, err := e.subscribe(func(t *eventingv1.Trigger) error { return triggers.Informer().GetIndexer().Add(t) })
	if err != nil {
		return err
	}
	dispatcher := kncloudevents.NewDispatcher(eventingtls.ClientConfig{}, nil,
		kncloudevents.WithMeterProvider(meters), kncloudevents.WithTraceProvider(traces))
	fan, err := fanout.NewFanoutEventHandler(log, fanout.Config{Subscriptions: subscribed}, nil, nil, nil, dispatcher,
		meters, traces, channel.ResolveChannelFromPath(channel.ParseChannelFromPath))
	if err != nil {
		return fmt.Errorf("making the channel: %w", err)
	}
	e.gate.next = fan
	e.admission = e.gate.admit(in)
	e.handler = e.mux(map[string]http.Handler{ingressHost: e.admission, repliesHost: in, channelHost: e.gate, filterHost: filters})
	return nil
}

// mux serves each host of the network.
func (e *Engine) mux(parts map[string]http.Handler) http.Handler {
	for name, function := range e.config.Functions {
		parts[string(name)] = function
	}
	mux := http.NewServeMux()
	for name, part := range parts {
		host := e.url(name, "").Host
		e.network.add(host)
		mux.Handle(host+"/", part)
	}
	return mux
}

func (e *Engine) brokerObject() *eventingv1.Broker {
	b := &eventingv1.Broker{ObjectMeta: metav1.ObjectMeta{Namespace: e.namespace, Name: e.broker}}
	b.Status.Address = &duckv1.Addressable{URL: e.url(repliesHost, e.ingressURL().Path)}
	b.Status.Annotations = map[string]string{
		eventing.BrokerChannelAddressStatusAnnotationKey: e.url(channelHost, "/"+e.namespace+"/"+e.broker).String(),
	}
	return b
}

// subscribe makes the subscription of each Trigger, as Knative's Trigger controller does (pkg/reconciler/broker/trigger)
// where neither TLS nor OIDC is on.
func (e *Engine) subscribe(store func(*eventingv1.Trigger) error) ([]fanout.Subscription, error) {
	subscriptions := make([]fanout.Subscription, 0, len(e.config.Triggers))
	for _, given := range e.config.Triggers {
		t := given.DeepCopy()
		subscriber, deadLetter, err := e.destinations(t)
		if err != nil {
			return nil, fmt.Errorf("trigger %s: %w", t.Name, err)
		}
		t.Status.SubscriberURI, t.Status.DeadLetterSinkURI = subscriber, deadLetter
		retry, err := kncloudevents.RetryConfigFromDeliverySpec(*t.Spec.Delivery)
		if err != nil {
			return nil, fmt.Errorf("trigger %s: %w", t.Name, err)
		}
		if err := store(t); err != nil {
			return nil, fmt.Errorf("storing trigger %s: %w", t.Name, err)
		}
		subscriptions = append(subscriptions, fanout.Subscription{
			Subscriber:  duckv1.Addressable{URL: e.url(filterHost, path.Generate(t))},
			Reply:       &duckv1.Addressable{URL: e.url(repliesHost, e.ingressURL().Path)},
			DeadLetter:  &duckv1.Addressable{URL: deadLetter},
			RetryConfig: &retry,
			Name:        t.Name, Namespace: t.Namespace, UID: t.UID,
		})
	}
	return subscriptions, nil
}

func (e *Engine) destinations(t *eventingv1.Trigger) (subscriber, deadLetter *apis.URL, err error) {
	if t.Namespace != e.namespace || t.Spec.Broker != e.broker {
		return nil, nil, fmt.Errorf("is for Broker %s/%s, the others for %s/%s; an engine has one", t.Namespace, t.Spec.Broker, e.namespace, e.broker)
	}
	if subscriber, err = e.functionOf(t.Spec.Subscriber); err != nil {
		return nil, nil, fmt.Errorf("subscriber: %w", err)
	}
	if deadLetter, err = e.functionOf(*t.Spec.Delivery.DeadLetterSink); err != nil {
		return nil, nil, fmt.Errorf("dead-letter sink: %w", err)
	}
	return subscriber, deadLetter, nil
}

// functionOf resolves a reference to a Knative Service to the function of that name in this process.
func (e *Engine) functionOf(d duckv1.Destination) (*apis.URL, error) {
	if d.Ref == nil || d.Ref.Kind != "Service" || d.URI != nil {
		return nil, fmt.Errorf("want a reference to a Knative Service, got %+v", d)
	}
	name := api.Function(d.Ref.Name)
	if e.config.Functions[name] == nil {
		return nil, fmt.Errorf("no function %q in this process", name)
	}
	return e.functionURL(name), nil
}
