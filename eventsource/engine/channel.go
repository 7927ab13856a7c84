package engine

import (
	"fmt"
	"net/http"
	"sync"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/zap"
	eventingv1 "knative.dev/eventing/pkg/apis/eventing/v1"
	"knative.dev/eventing/pkg/channel"
	"knative.dev/eventing/pkg/channel/fanout"
	"knative.dev/eventing/pkg/eventingtls"
	"knative.dev/eventing/pkg/kncloudevents"
	"knative.dev/eventing/pkg/reconciler/sugar/trigger/path"
	duckv1 "knative.dev/pkg/apis/duck/v1"
)

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
		Subscriber:  duckv1.Addressable{URL: e.url(filterHost, path.Generate(t))},
		Reply:       &duckv1.Addressable{URL: e.url(repliesHost, e.ingressURL().Path)},
		DeadLetter:  &duckv1.Addressable{URL: t.Status.DeadLetterSinkURI},
		RetryConfig: &retry,
		Name:        t.Name, Namespace: t.Namespace, UID: t.UID,
	}, nil
}
