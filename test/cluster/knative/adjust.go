package knative

// IngressClass is the class of Traefik's provider.
const IngressClass = "traefik.ingress.networking.knative.dev"

// omittedKinds lists kinds that spread or scale Knative's own pods. A single node does not need them.
var omittedKinds = map[string]bool{"HorizontalPodAutoscaler": true, "PodDisruptionBudget": true}

// Adjust adapts Knative's objects to a node with two processors and to short tests. All other settings keep Knative's defaults.
func Adjust(objects []Object) []Object {
	var kept []Object
	for _, o := range objects {
		if omittedKinds[o.Kind()] {
			continue
		}
		switch {
		case o.Kind() == "Deployment":
			adjustPod(at(o, "spec", "template", "spec"))
		case o.Kind() == "ConfigMap" && o.Name() == "config-network":
			at(o, "data")["ingress-class"] = IngressClass
		case o.Kind() == "ConfigMap" && o.Name() == "config-autoscaler":
			hastenToZero(at(o, "data"))
		}
		kept = append(kept, o)
	}
	return kept
}

// hastenToZero lets Services scale to zero 16 seconds after their last request, and not 90 seconds, because most tests begin with all
// functions at zero. The path of each request is the same: deploy/common keeps the activator in it.
func hastenToZero(autoscaler map[string]any) {
	autoscaler["stable-window"], autoscaler["scale-to-zero-grace-period"] = "10s", "6s" // 6s is the minimum of both
}

// adjustPod reduces the resources of a pod, so that all pods fit on the node beside those of tests, and speeds up its start.
func adjustPod(pod map[string]any) {
	delete(pod, "affinity")                   // there is no other node
	pod["terminationGracePeriodSeconds"] = 10 // the default is up to ten minutes, for open requests
	containers, _ := pod["containers"].([]any)
	for _, each := range containers {
		container, ok := each.(map[string]any)
		if !ok {
			continue
		}
		// Knative's defaults request 1.3 of two processors, and a limit slows down the start.
		container["resources"] = map[string]any{"requests": map[string]any{"cpu": "30m", "memory": "50Mi"}}
		if probe, ok := container["readinessProbe"].(map[string]any); ok {
			delete(probe, "initialDelaySeconds") // 20 seconds, but a start takes two
			probe["periodSeconds"] = 1
		}
	}
}
