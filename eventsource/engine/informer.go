package engine

import (
	"fmt"

	"k8s.io/client-go/tools/cache"
	"knative.dev/eventing/pkg/client/informers/externalversions"
	eventinginformers "knative.dev/eventing/pkg/client/informers/externalversions/eventing/v1"
)

// objects is an informer that nobody runs: what is in it was put there. It tells Knative's handlers at once, as a running
// one would. They rely on that: the filter handler makes the filters of a Trigger that it was not told of anew for every
// event, and each leaves a goroutine behind (pkg/broker/filter, pkg/eventfilter/subscriptionsapi/any_filter.go).
type objects struct {
	cache.SharedIndexInformer
	handlers []cache.ResourceEventHandler
}

// AddEventHandler remembers who wants to be told.
func (o *objects) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	o.handlers = append(o.handlers, handler)
	return nil, nil //nolint:nilnil // Knative's handlers do not look at it
}

// put stores the object for the listers and tells the handlers.
func (o *objects) put(object any) error {
	if err := o.GetIndexer().Add(object); err != nil {
		return fmt.Errorf("storing %T: %w", object, err)
	}
	for _, handler := range o.handlers {
		handler.OnAdd(object, true)
	}
	return nil
}

// brokers and triggers are the generated informers with objects in their place; their listers read the same store.
type brokers struct {
	eventinginformers.BrokerInformer
	*objects
}

func (b brokers) Informer() cache.SharedIndexInformer { return b.objects }

type triggers struct {
	eventinginformers.TriggerInformer
	*objects
}

func (t triggers) Informer() cache.SharedIndexInformer { return t.objects }

func newInformers() (externalversions.SharedInformerFactory, brokers, triggers) {
	factory := externalversions.NewSharedInformerFactory(nil, 0) // never started, so it needs no client
	b, t := factory.Eventing().V1().Brokers(), factory.Eventing().V1().Triggers()
	return factory, brokers{b, &objects{SharedIndexInformer: b.Informer()}}, triggers{t, &objects{SharedIndexInformer: t.Informer()}}
}
