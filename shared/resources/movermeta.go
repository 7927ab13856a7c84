package resources

import (
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
)

// optOutLabels and optOutAnnotations keep the common injectors from adding a container to a mover's pod: it would outlive the copy,
// and the Job would not end. Each is the key that the project documents for one pod.
var (
	optOutLabels = map[string]string{
		"sidecar.istio.io/inject":         "false",
		"istio.io/dataplane-mode":         "none",
		"kuma.io/sidecar-injection":       "disabled",
		"admission.datadoghq.com/enabled": "false",
	}
	optOutAnnotations = map[string]string{
		"sidecar.istio.io/inject":                "false", // before Istio 1.10
		"linkerd.io/inject":                      "disabled",
		"consul.hashicorp.com/connect-inject":    "false",
		"kuma.io/sidecar-injection":              "disabled", // before Kuma 2.0
		"openservicemesh.io/sidecar-injection":   "disabled",
		"appmesh.k8s.aws/sidecarInjectorWebhook": "disabled",
		"sidecar.opentelemetry.io/inject":        "false",
		"dynatrace.com/inject":                   "false",
	}
	// keepNode has node autoscalers leave the mover where it is: a copy that is interrupted begins again, and the node may have the
	// only volume.
	keepNode = map[string]string{
		"cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
		"karpenter.sh/do-not-disrupt":                    "true",
	}
)

// podMeta returns the labels and annotations of the mover's pod. The user's come before the defaults, and Drydock's own before the
// user's: by them the operation finds its pods.
func (m Mover) podMeta(own metav1.ObjectMeta) metav1.ObjectMeta {
	labels, annotations := maps.Clone(optOutLabels), maps.Clone(optOutAnnotations)
	maps.Copy(annotations, keepNode)
	copyUsers(labels, m.Options.Labels)
	copyUsers(annotations, m.Options.Annotations)
	if m.First {
		labels[api.MemberLabel] = m.member()
	}
	maps.Copy(labels, own.Labels)
	maps.Copy(annotations, own.Annotations)
	return metav1.ObjectMeta{Labels: labels, Annotations: annotations}
}

// member is the name of the member's pod.
func (m Mover) member() string { return statefulset.PodName(m.Set, *m.Link.Member) }

// copyUsers copies what the user asks for. A key of Drydock's is not the user's to set.
func copyUsers(to, users map[string]string) {
	for key, value := range users {
		if !strings.HasPrefix(key, api.Prefix) {
			to[key] = value
		}
	}
}
