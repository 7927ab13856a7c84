package engine

import (
	_ "github.com/kelseyhightower/envconfig"
	_ "github.com/prometheus/client_golang/prometheus/promhttp"
	_ "go.opentelemetry.io/otel/metric/noop"
	_ "go.opentelemetry.io/otel/trace/noop"
	_ "k8s.io/client-go/tools/leaderelection/resourcelock"
	_ "knative.dev/eventing/pkg/adapter/apiserver"
	_ "knative.dev/eventing/pkg/broker/filter"
	_ "knative.dev/eventing/pkg/broker/ingress"
	_ "knative.dev/eventing/pkg/channel/fanout"
	_ "knative.dev/eventing/pkg/client/informers/externalversions"
	_ "knative.dev/eventing/pkg/client/listers/eventing/v1"
	_ "knative.dev/eventing/pkg/reconciler/sugar/trigger/path"
)
