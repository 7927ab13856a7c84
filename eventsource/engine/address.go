package engine

import (
	"knative.dev/pkg/apis"
	knetwork "knative.dev/pkg/network"

	"drydock.dev/shared/api"
)

// Hosts of the data plane, with Knative's names on a cluster. Replies use a separate host that bypasses the admission.
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

// functionURL returns the address of the function's Knative Service.
func (e *Engine) functionURL(name api.Function) *apis.URL { return e.url(string(name), "") }
