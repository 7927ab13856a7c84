package arch

import (
	"slices"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// peer is where a connection comes from: a pod of a namespace with these labels.
type peer map[string]string

func namespaceNamed(name string) peer { return peer{"kubernetes.io/metadata.name": name} }

// admits judges a connection as a network plugin does: a pod that a policy selects takes only what one of its policies allows. It knows
// what our policies use, namespaces and named ports, and fails the test for anything else.
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
				t.Fatalf("policy %s has a rule for everybody", policy.Name)
			}
			named := len(rule.Ports) == 0 || slices.ContainsFunc(rule.Ports, func(p networkingv1.NetworkPolicyPort) bool { return p.Port != nil && p.Port.String() == port })
			for _, who := range rule.From {
				if who.IPBlock != nil || who.PodSelector != nil || who.NamespaceSelector == nil {
					t.Fatalf("policy %s has a peer that this test cannot judge: %v", policy.Name, who)
				}
				if named && matches(t, who.NamespaceSelector, from) {
					return true
				}
			}
		}
	}
	return !isolated
}

func matches(t *testing.T, selector *metav1.LabelSelector, of map[string]string) bool {
	t.Helper()
	compiled, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	return compiled.Matches(labels.Set(of))
}

// TestNetworkPoliciesLetInWhoTheySay: the local cluster's network enforces no policy, so they are judged here as a plugin would.
func TestNetworkPoliciesLetInWhoTheySay(t *testing.T) {
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
		"the Broker's filter calls a function":            {knative, service("backup"), "http", namespaceNamed("knative-eventing"), true},
		"the activator calls a function":                  {knative, service("sift"), "http", namespaceNamed("knative-serving"), true},
		"an ingress does not call a function's pod":       {knative, service("backup"), "http", namespaceNamed("kourier-system"), false},
		"a tenant does not call a function's pod":         {knative, service("backup"), "http", namespaceNamed("shop"), false},
		"another pod of drydock does not":                 {knative, service("backup"), "http", namespaceNamed("drydock"), false},
		"an ingress calls the wake gateway":               {knative, service("wake-gateway"), "http", namespaceNamed("traefik"), true},
		"the activator calls the wake gateway":            {knative, service("wake-gateway"), "http", namespaceNamed("knative-serving"), true},
		"a tenant does not call the wake gateway's pod":   {knative, service("wake-gateway"), "http", namespaceNamed("shop"), false},
		"nobody calls the event source":                   {knative, map[string]string{"eventing.knative.dev/source": "apiserver-source-controller"}, "http", namespaceNamed("knative-eventing"), false},
		"a proxy that is let in asks the standalone one":  {alone, standalone, "gateway", peer{"drydock.dev/gateway-client": "allow"}, true},
		"that proxy gets no metrics":                      {alone, standalone, "metrics", peer{"drydock.dev/gateway-client": "allow"}, false},
		"who collects metrics gets them":                  {alone, standalone, "metrics", peer{"drydock.dev/metrics-client": "allow"}, true},
		"a tenant reaches nothing of the standalone one":  {alone, standalone, "gateway", namespaceNamed("shop"), false},
		"a tenant reads no metrics of the standalone one": {alone, standalone, "metrics", namespaceNamed("shop"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := admits(t, row.policies, row.pod, row.port, row.from); got != row.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
