package arch

import (
	"slices"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// peer has the labels of the namespace that a connection comes from.
type peer map[string]string

func namespaceNamed(name string) peer { return peer{"kubernetes.io/metadata.name": name} }

// admits judges a connection as a network plugin does: a selected pod accepts only connections that one of its policies allows. It supports
// namespace selectors and named ports, which Drydock's policies use, and fails the test for anything else.
func admits(t *testing.T, policies []networkingv1.NetworkPolicy, pod map[string]string, port string, from peer) bool {
	t.Helper()
	isolated := false
	for _, policy := range policies {
		if !matches(t, &policy.Spec.PodSelector, pod) {
			continue
		}
		isolated = true
		for _, rule := range policy.Spec.Ingress {
			if len(rule.From) == 0 {
				t.Fatalf("policy %s has a rule for all peers", policy.Name)
			}
			allowsPort := len(rule.Ports) == 0 || slices.ContainsFunc(rule.Ports,
				func(p networkingv1.NetworkPolicyPort) bool { return p.Port != nil && p.Port.String() == port })
			for _, allowed := range rule.From {
				if allowed.IPBlock != nil || allowed.PodSelector != nil || allowed.NamespaceSelector == nil {
					t.Fatalf("policy %s has a peer that this test cannot judge: %v", policy.Name, allowed)
				}
				if allowsPort && matches(t, allowed.NamespaceSelector, from) {
					return true
				}
			}
		}
	}
	return !isolated
}

func matches(t *testing.T, selector *metav1.LabelSelector, set map[string]string) bool {
	t.Helper()
	compiled, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	return compiled.Matches(labels.Set(set))
}

// TestNetworkPoliciesAdmitOnlyTheNamedPeers judges the policies as a network plugin would, because the local cluster enforces none.
func TestNetworkPoliciesAdmitOnlyTheNamedPeers(t *testing.T) {
	service := func(name string) map[string]string { return map[string]string{"serving.knative.dev/service": name} }
	standalone := map[string]string{"app.kubernetes.io/name": "drydock", "app.kubernetes.io/component": "standalone"}
	knative := documents[networkingv1.NetworkPolicy](t, "config/base/network.yaml")
	alone := documents[networkingv1.NetworkPolicy](t, "deploy/standalone/network.yaml")
	for name, row := range map[string]struct {
		policies []networkingv1.NetworkPolicy
		pod      map[string]string
		port     string
		from     peer
		want     bool
	}{
		"the Broker's filter calls a function": {knative, service("backup"), "http", namespaceNamed("knative-eventing"),
			true},
		"the activator calls a function": {knative, service("sift"), "http", namespaceNamed("knative-serving"), true},
		"an ingress does not call a function's pod": {knative, service("backup"), "http", namespaceNamed("kourier-system"),
			false},
		"a tenant does not call a function's pod":                   {knative, service("backup"), "http", namespaceNamed("shop"), false},
		"a pod of namespace drydock does not call a function's pod": {knative, service("backup"), "http", namespaceNamed("drydock"), false},
		"an ingress calls the wake gateway":                         {knative, service("wake-gateway"), "http", namespaceNamed("traefik"), true},
		"the activator calls the wake gateway": {knative, service("wake-gateway"), "http",
			namespaceNamed("knative-serving"), true},
		"a tenant does not call the wake gateway's pod": {knative, service("wake-gateway"), "http", namespaceNamed("shop"), false},
		"an ingress calls the status page":              {knative, service("status-page"), "http", namespaceNamed("traefik"), true},
		"a tenant does not call the status page's pod":  {knative, service("status-page"), "http", namespaceNamed("shop"), false},
		"the Broker does not call the event source": {knative,
			map[string]string{"eventing.knative.dev/source": "apiserver-source-controller"}, "http", namespaceNamed("knative-eventing"), false},
		"a proxy with the label calls the gateway of standalone": {alone, standalone, "gateway",
			peer{"drydock.dev/gateway-client": "allow"}, true},
		"a proxy with the label calls the status page of standalone": {alone, standalone, "status-page",
			peer{"drydock.dev/status-client": "allow"}, true},
		"a client of the gateway does not call the status page": {alone, standalone, "status-page",
			peer{"drydock.dev/gateway-client": "allow"}, false},
		"a proxy does not read metrics of standalone": {alone, standalone, "metrics",
			peer{"drydock.dev/gateway-client": "allow"}, false},
		"a collector with the label reads metrics": {alone, standalone, "metrics",
			peer{"drydock.dev/metrics-client": "allow"}, true},
		"a tenant does not call the gateway of standalone": {alone, standalone, "gateway", namespaceNamed("shop"), false},
		"a tenant does not read metrics of standalone":     {alone, standalone, "metrics", namespaceNamed("shop"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := admits(t, row.policies, row.pod, row.port, row.from); got != row.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
