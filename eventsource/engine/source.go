package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/kelseyhightower/envconfig"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"knative.dev/eventing/pkg/adapter/apiserver"
	"knative.dev/eventing/pkg/adapter/v2"
	sourcesv1 "knative.dev/eventing/pkg/apis/sources/v1"
	"knative.dev/eventing/pkg/client/informers/externalversions"
	eventinginformers "knative.dev/eventing/pkg/client/informers/externalversions/eventing/v1"
	"knative.dev/pkg/injection"
	"knative.dev/pkg/logging"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
)

// Source runs Knative's ApiServerSource adapter inside the process. As on a cluster, it sends no events for objects that exist when it
// starts, and none for changes during an interrupted watch. The tick finds them.
type Source struct {
	// Config is the client configuration for the API server.
	Config *rest.Config
	// Namespaces are the namespaces to watch. If there are none, it watches all.
	Namespaces []string
}

// sinkTimeout is the adapter's timeout in seconds. It is longer than admissionTimeout.
const sinkTimeout = "15"

// run keeps the adapter running until the context ends. The adapter recovers from errors itself, except when it cannot list the resources
// of the API server.
func (s *Source) run(ctx context.Context, namespace, sink string, log *slog.Logger) {
	backoff := wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.2, Steps: 6, Cap: 30 * time.Second}
	for ctx.Err() == nil {
		err := s.startAdapter(ctx, namespace, sink, log)
		if ctx.Err() != nil {
			return
		}
		delay := backoff.Step()
		log.Warn("source stopped and is started again; only ticks find changes until then", "error", fmt.Sprint(err),
			"in", delay.Round(time.Millisecond).String())
		select {
		case <-ctx.Done():
		case <-time.After(delay):
		}
	}
}

func (s *Source) startAdapter(ctx context.Context, namespace, sink string, log *slog.Logger) error {
	watched := s.adapterConfig()
	if err := s.removeMissingResources(&watched, log); err != nil {
		return err
	}
	env, err := adapterEnvironment(watched, namespace, sink)
	if err != nil {
		return err
	}
	client, err := adapter.NewClient(adapter.ClientConfig{
		Env: env, MeterProvider: metricnoop.NewMeterProvider(), TraceProvider: tracenoop.NewTracerProvider(),
	})
	if err != nil {
		return fmt.Errorf("making the source's client: %w", err)
	}
	config := rest.CopyConfig(s.Config)
	config.QPS, config.Burst = 50, 100
	ctx = logging.WithLogger(injection.WithConfig(ctx, config), newZapLogger(log).Sugar())
	for _, add := range injection.Default.GetClients() {
		ctx = add(ctx, config)
	}
	return apiserver.NewAdapter(ctx, env, client).Start(ctx)
}

// removeMissingResources removes Drydock's custom resources from the watched resources if they are not installed. The adapter would not
// start without them.
func (s *Source) removeMissingResources(watched *apiserver.Config, log *slog.Logger) error {
	client, err := discovery.NewDiscoveryClientForConfig(s.Config)
	if err != nil {
		return fmt.Errorf("making the source's client: %w", err)
	}
	_, err = client.ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
	switch {
	case apierrors.IsNotFound(err):
		log.Warn("the CustomResourceDefinition of Scalers is not installed; apply config/crd and restart drydock-standalone to watch " +
			"Scalers")
		watched.Resources = slices.DeleteFunc(watched.Resources,
			func(r apiserver.ResourceWatch) bool { return r.GVR.Group == v1alpha1.GroupVersion.Group })
		return nil
	case err != nil:
		return fmt.Errorf("asking which resources the API server has: %w", err)
	}
	return nil
}

// adapterEnvironment returns the adapter's configuration. The adapter reads it only from the environment, so the function sets the
// variables for a moment.
func adapterEnvironment(watched apiserver.Config, namespace, sink string) (adapter.EnvConfigAccessor, error) {
	config, err := json.Marshal(watched)
	if err != nil {
		return nil, fmt.Errorf("encoding the source's configuration: %w", err)
	}
	for key, value := range map[string]string{
		"NAME": "drydock", "NAMESPACE": namespace, "K_SINK": sink, "K_SINK_TIMEOUT": sinkTimeout, "K_SOURCE_CONFIG": string(config),
	} {
		before, found := os.LookupEnv(key)
		if err := os.Setenv(key, value); err != nil {
			return nil, fmt.Errorf("setting %s: %w", key, err)
		}
		defer func() {
			if _ = os.Unsetenv(key); found {
				_ = os.Setenv(key, before)
			}
		}()
	}
	env := apiserver.NewEnvConfig()
	if err := envconfig.Process("", env); err != nil {
		return nil, fmt.Errorf("reading the source's environment: %w", err)
	}
	return env, nil
}

// adapterConfig returns the same configuration as config/base/source.yaml.
func (s *Source) adapterConfig() apiserver.Config {
	watch := func(group, resource, selector string) apiserver.ResourceWatch {
		return apiserver.ResourceWatch{
			GVR:           schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource},
			LabelSelector: selector,
		}
	}
	scalers := apiserver.ResourceWatch{GVR: v1alpha1.GroupVersion.WithResource("scalers")}
	namespaces := s.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	return apiserver.Config{
		Namespaces:    namespaces,
		AllNamespaces: len(s.Namespaces) == 0,
		EventMode:     sourcesv1.ResourceMode,
		Resources: []apiserver.ResourceWatch{
			watch("apps", "statefulsets", api.ManagedLabel+"=true"),
			watch("", "persistentvolumeclaims", api.OperationLabel),
			watch("batch", "jobs", api.OperationLabel),
			watch("", "pods", api.OperationLabel),
			scalers,
		},
	}
}

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
