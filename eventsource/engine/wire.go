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
	"knative.dev/eventing/pkg/kncloudevents"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"
	knetwork "knative.dev/pkg/network"

	"drydock.dev/shared/api"
)

// maxHops bounds how often replies may follow one another, Knative's default (cmd/broker/ingress, MAX_TTL).
const maxHops = 255

// idleConnections is how many connections of the process's own network wait for the next event, to each address.
const idleConnections = 8

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
	informers, brokers, triggers := newInformers()
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
	// Both handlers asked for a thousand idle connections a client, as befits a process that serves a cluster.
	kncloudevents.ConfigureConnectionArgs(&kncloudevents.ConnectionArgs{MaxIdleConns: idleConnections, MaxIdleConnsPerHost: idleConnections})
	if err := brokers.put(e.brokerObject()); err != nil {
		return err
	}
	for _, t := range e.config.Triggers {
		resolved, err := e.resolve(t)
		if err != nil {
			return fmt.Errorf("trigger %s: %w", t.Name, err)
		}
		if err := triggers.put(resolved); err != nil {
			return err
		}
		e.triggers = append(e.triggers, resolved)
	}
	if _, err := e.fanOut(log); err != nil {
		return err
	}
	e.gate.next = newChannel(func() (http.Handler, error) { return e.fanOut(log) })
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

// resolve puts the addresses into the Trigger's status.
func (e *Engine) resolve(given *eventingv1.Trigger) (*eventingv1.Trigger, error) {
	t := given.DeepCopy()
	if t.Namespace != e.namespace || t.Spec.Broker != e.broker {
		return nil, fmt.Errorf("is for Broker %s/%s, the others for %s/%s; an engine has one", t.Namespace, t.Spec.Broker, e.namespace, e.broker)
	}
	var err error
	if t.Status.SubscriberURI, err = e.functionOf(t.Spec.Subscriber); err != nil {
		return nil, fmt.Errorf("subscriber: %w", err)
	}
	if t.Status.DeadLetterSinkURI, err = e.functionOf(*t.Spec.Delivery.DeadLetterSink); err != nil {
		return nil, fmt.Errorf("dead-letter sink: %w", err)
	}
	return t, nil
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
