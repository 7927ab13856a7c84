package engine

import (
	"fmt"

	"k8s.io/client-go/tools/cache"
	"knative.dev/eventing/pkg/client/informers/externalversions"
	eventinginformers "knative.dev/eventing/pkg/client/informers/externalversions/eventing/v1"
)

// staticInformer is an informer that never runs. It contains the objects that were added, and notifies Knative's handlers immediately, as a
// running informer does. The filter handler relies on that: for a Trigger that it was not notified of, it creates new filters for each
// event. Each of them leaves a goroutine behind (pkg/broker/filter, pkg/eventfilter/subscriptionsapi/any_filter.go).
type staticInformer struct {
	cache.SharedIndexInformer
	handlers []cache.ResourceEventHandler
}

// AddEventHandler adds the handler to the handlers that add notifies.
func (o *staticInformer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	o.handlers = append(o.handlers, handler)
	return nil, nil // Knative's handlers ignore it
}

// add stores the object for the listers and notifies the handlers.
func (o *staticInformer) add(object any) error {
	if err := o.GetIndexer().Add(object); err != nil {
		return fmt.Errorf("storing %T: %w", object, err)
	}
	for _, handler := range o.handlers {
		handler.OnAdd(object, true)
	}
	return nil
}

// brokers is the generated informer with a static informer in its place. Its lister reads the same store.
type brokers struct {
	eventinginformers.BrokerInformer
	*staticInformer
}

func (b brokers) Informer() cache.SharedIndexInformer { return b.staticInformer }

// triggers is like brokers.
type triggers struct {
	eventinginformers.TriggerInformer
	*staticInformer
}

func (t triggers) Informer() cache.SharedIndexInformer { return t.staticInformer }

func newInformers() (externalversions.SharedInformerFactory, brokers, triggers) {
	factory := externalversions.NewSharedInformerFactory(nil, 0) // never started, so it needs no client
	b, t := factory.Eventing().V1().Brokers(), factory.Eventing().V1().Triggers()
	return factory, brokers{b, &staticInformer{SharedIndexInformer: b.Informer()}}, triggers{t,
		&staticInformer{SharedIndexInformer: t.Informer()}}
}
