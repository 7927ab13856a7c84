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

	"drydock.dev/shared/api"
)

// maxReplyHops bounds the length of a chain of replies. It is Knative's default (cmd/broker/ingress, MAX_TTL).
const maxReplyHops = 255

// wireDataPlane does the work of Knative's controllers for a Broker and its Triggers: it resolves each address into the status of the
// objects. The data plane reads them from listers that only this function fills.
func (e *Engine) wireDataPlane() error {
	log := newZapLogger(e.config.Log)
	informers, brokers, triggers := newInformers()
	subscriptions := informers.Messaging().V1().Subscriptions()
	meters, traces := metricnoop.NewMeterProvider(), tracenoop.NewTracerProvider()
	same := func(ctx context.Context) context.Context { return ctx }

	in, err := ingress.NewHandler(log, broker.TTLDefaulter(log, maxReplyHops), brokers, nil, nil, nil, same, meters, traces)
	if err != nil {
		return fmt.Errorf("making the ingress: %w", err)
	}
	filters, err := filter.NewHandler(log, nil, nil, triggers, brokers, subscriptions, nil, same, meters, traces)
	if err != nil {
		return fmt.Errorf("making the filter: %w", err)
	}
	// Both handlers have requested a thousand idle connections for each client, which suits a process that serves a whole cluster.
	kncloudevents.ConfigureConnectionArgs(&kncloudevents.ConnectionArgs{MaxIdleConns: idleConnectionsPerHost,
		MaxIdleConnsPerHost: idleConnectionsPerHost})
	if err := brokers.add(e.brokerObject()); err != nil {
		return err
	}
	for _, t := range e.config.Triggers {
		resolved, err := e.resolve(t)
		if err != nil {
			return fmt.Errorf("trigger %s: %w", t.Name, err)
		}
		if err := triggers.add(resolved); err != nil {
			return err
		}
		e.triggers = append(e.triggers, resolved)
	}
	if _, err := e.fanOut(log); err != nil {
		return err
	}
	e.gate.next = newChannel(func() (http.Handler, error) { return e.fanOut(log) })
	e.admission = e.gate.admitFromOutside(in)
	e.handler = e.newMux(map[string]http.Handler{ingressHost: e.admission, repliesHost: in, channelHost: e.gate, filterHost: filters})
	return nil
}

// newMux returns the handler for all hosts of the network.
func (e *Engine) newMux(handlers map[string]http.Handler) http.Handler {
	for name, function := range e.config.Functions {
		handlers[string(name)] = function
	}
	mux := http.NewServeMux()
	for name, handler := range handlers {
		host := e.url(name, "").Host
		e.network.add(host)
		mux.Handle(host+"/", handler)
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

// resolve returns the Trigger with the addresses in its status.
func (e *Engine) resolve(trigger *eventingv1.Trigger) (*eventingv1.Trigger, error) {
	t := trigger.DeepCopy()
	if t.Namespace != e.namespace || t.Spec.Broker != e.broker {
		return nil, fmt.Errorf("it is for Broker %s/%s, and the others for %s/%s; an engine has one Broker", t.Namespace,
			t.Spec.Broker, e.namespace, e.broker)
	}
	var err error
	if t.Status.SubscriberURI, err = e.resolveFunction(t.Spec.Subscriber); err != nil {
		return nil, fmt.Errorf("subscriber: %w", err)
	}
	if t.Status.DeadLetterSinkURI, err = e.resolveFunction(*t.Spec.Delivery.DeadLetterSink); err != nil {
		return nil, fmt.Errorf("dead-letter sink: %w", err)
	}
	return t, nil
}

// resolveFunction returns the address of the function in this process that a reference to a Knative Service names.
func (e *Engine) resolveFunction(d duckv1.Destination) (*apis.URL, error) {
	if d.Ref == nil || d.Ref.Kind != "Service" || d.URI != nil {
		return nil, fmt.Errorf("it must be a reference to a Knative Service, not %+v", d)
	}
	name := api.Function(d.Ref.Name)
	if e.config.Functions[name] == nil {
		return nil, fmt.Errorf("no function %q in this process", name)
	}
	return e.functionURL(name), nil
}
