package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"sync"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"knative.dev/eventing/pkg/apis/eventing"
	eventingv1 "knative.dev/eventing/pkg/apis/eventing/v1"
	"knative.dev/eventing/pkg/apis/feature"
	"knative.dev/eventing/pkg/broker"
	"knative.dev/eventing/pkg/broker/filter"
	"knative.dev/eventing/pkg/broker/ingress"
	"knative.dev/eventing/pkg/channel"
	"knative.dev/eventing/pkg/channel/fanout"
	"knative.dev/eventing/pkg/eventingtls"
	"knative.dev/eventing/pkg/kncloudevents"
	triggerpath "knative.dev/eventing/pkg/reconciler/sugar/trigger/path"
	"knative.dev/pkg/apis"
	duckv1 "knative.dev/pkg/apis/duck/v1"
	"sigs.k8s.io/yaml"

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

// newChannel returns a handler that gives each event exclusive use of a fan-out from a pool. Knative's dispatcher writes to the addresses
// of a subscription while it sends (sanitizeAddressable in pkg/kncloudevents/event_dispatcher.go), so two events in one fan-out would race.
func newChannel(fanOut func() (http.Handler, error)) http.Handler {
	pool := sync.Pool{New: func() any {
		handler, err := fanOut()
		if err != nil {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, err.Error(), http.StatusInternalServerError)
			})
		}
		return handler
	}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler := pool.Get().(http.Handler)
		defer pool.Put(handler)
		handler.ServeHTTP(w, r)
	})
}

// fanOut returns Knative's synchronous fan-out. It sends an event to the filter of each Trigger, retries, forwards the reply, and sends an
// undeliverable event to the dead-letter sink. It responds when all of this is done.
func (e *Engine) fanOut(log *zap.Logger) (http.Handler, error) {
	meters, traces := metricnoop.NewMeterProvider(), tracenoop.NewTracerProvider()
	subscriptions := make([]fanout.Subscription, 0, len(e.triggers))
	for _, t := range e.triggers {
		s, err := e.subscription(t)
		if err != nil {
			return nil, fmt.Errorf("subscribing trigger %s: %w", t.Name, err)
		}
		subscriptions = append(subscriptions, s)
	}
	dispatcher := kncloudevents.NewDispatcher(eventingtls.ClientConfig{}, nil,
		kncloudevents.WithMeterProvider(meters), kncloudevents.WithTraceProvider(traces))
	return fanout.NewFanoutEventHandler(log, fanout.Config{Subscriptions: subscriptions}, nil, nil, nil, dispatcher,
		meters, traces, channel.ResolveChannelFromPath(channel.ParseChannelFromPath))
}

// subscription returns the subscription that Knative's Trigger controller creates for the Trigger without TLS and OIDC
// (pkg/reconciler/broker/trigger).
func (e *Engine) subscription(t *eventingv1.Trigger) (fanout.Subscription, error) {
	retry, err := kncloudevents.RetryConfigFromDeliverySpec(*t.Spec.Delivery)
	if err != nil {
		return fanout.Subscription{}, fmt.Errorf("reading delivery: %w", err)
	}
	retry.CheckRetry = closingBodies(retry.CheckRetry)
	return fanout.Subscription{
		Subscriber:  duckv1.Addressable{URL: e.url(filterHost, triggerpath.Generate(t))},
		Reply:       &duckv1.Addressable{URL: e.url(repliesHost, e.ingressURL().Path)},
		DeadLetter:  &duckv1.Addressable{URL: t.Status.DeadLetterSinkURI},
		RetryConfig: &retry,
		Name:        t.Name, Namespace: t.Namespace, UID: t.UID,
	}, nil
}

// LoadTriggers reads the files */triggers.yaml, and validates each Trigger with the code of Knative's webhook.
func LoadTriggers(files fs.FS) ([]*eventingv1.Trigger, error) {
	names, err := fs.Glob(files, "*/triggers.yaml")
	if err != nil {
		return nil, fmt.Errorf("looking for Triggers: %w", err)
	}
	var triggers []*eventingv1.Trigger
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("reading Triggers: %w", err)
		}
		trigger := &eventingv1.Trigger{}
		if err := yaml.UnmarshalStrict(text, trigger); err != nil {
			return nil, fmt.Errorf("reading %s, one Trigger a file: %w", name, err)
		}
		if err := completeAndValidate(trigger); err != nil {
			return nil, fmt.Errorf("checking Trigger %s of %s: %w", trigger.Name, path.Dir(name), err)
		}
		triggers = append(triggers, trigger)
	}
	return triggers, nil
}

// completeAndValidate sets the Trigger's defaults, and returns an error if it is invalid. The delivery of a Trigger replaces the Broker's
// delivery completely, so it must be complete. A retry without policy and delay loops without pause (knative.dev/eventing
// pkg/kncloudevents).
func completeAndValidate(t *eventingv1.Trigger) error {
	flags, err := feature.NewFlagsConfigFromMap(map[string]string{})
	if err != nil {
		return fmt.Errorf("making Knative's default features: %w", err)
	}
	ctx := apis.WithinCreate(feature.ToContext(context.Background(), flags))
	t.SetDefaults(ctx)
	if problems := t.Validate(ctx); problems != nil {
		return problems
	}
	d := t.Spec.Delivery
	if d == nil || d.Retry == nil || d.BackoffPolicy == nil || d.BackoffDelay == nil || d.Timeout == nil || d.DeadLetterSink == nil {
		return errors.New("spec.delivery needs retry, backoffPolicy, backoffDelay, timeout and deadLetterSink")
	}
	for _, filter := range t.Spec.Filters {
		if len(filter.Any) > 0 {
			return errors.New(`spec.filters uses "any", which races in Knative's broker filter (subscriptionsapi/any_filter.go). Write ` +
				`one cesql with OR`)
		}
	}
	if t.Kind != "Trigger" || t.Name == "" || t.Namespace == "" {
		return errors.New("the manifest must have kind Trigger, a name and a namespace")
	}
	t.UID = types.UID("standalone-" + t.Name)
	return nil
}
