package resources

import (
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
)

// optOutLabels and optOutAnnotations keep common injectors from adding a container to a mover's pod. Such a container would outlive the
// copy, and the Job would never end. Each key is the documented opt-out of its project for a single pod.
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
	// keepOnNode keeps node autoscalers from evicting the mover. An interrupted copy starts again, and the volume may be available only on
	// this node.
	keepOnNode = map[string]string{
		"cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
		"karpenter.sh/do-not-disrupt":                    "true",
	}
)

// podMetadata returns the labels and annotations of the mover's pod. The user's keys override the defaults. Drydock's keys override the
// user's, because the operation finds its pods by them.
func (m Mover) podMetadata(own metav1.ObjectMeta) metav1.ObjectMeta {
	labels, annotations := maps.Clone(optOutLabels), maps.Clone(optOutAnnotations)
	maps.Copy(annotations, keepOnNode)
	copyUserKeys(labels, m.Options.Labels)
	copyUserKeys(annotations, m.Options.Annotations)
	if m.SelectsNode {
		labels[api.MemberLabel] = m.memberName()
	}
	maps.Copy(labels, own.Labels)
	maps.Copy(annotations, own.Annotations)
	return metav1.ObjectMeta{Labels: labels, Annotations: annotations}
}

// memberName returns the name of the member's pod.
func (m Mover) memberName() string { return statefulset.PodName(m.Set, *m.Link.Member) }

// copyUserKeys copies the user's keys. It skips keys with Drydock's prefix.
func copyUserKeys(to, users map[string]string) {
	for key, value := range users {
		if !strings.HasPrefix(key, api.Prefix) {
			to[key] = value
		}
	}
}
