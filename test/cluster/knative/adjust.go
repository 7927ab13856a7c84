package knative

// IngressClass is the class that Traefik's provider serves.
const IngressClass = "traefik.ingress.networking.knative.dev"

// notHere are kinds that spread or scale Knative's own pods, for which one node has no use.
var notHere = map[string]bool{"HorizontalPodAutoscaler": true, "PodDisruptionBudget": true}

// Adjust fits Knative's objects to a node with two processors. Everything it does not mention is Knative's default.
func Adjust(objects []Object) []Object {
	var kept []Object
	for _, o := range objects {
		if notHere[o.Kind()] {
			continue
		}
		switch {
		case o.Kind() == "Deployment":
			adjustPod(at(o, "spec", "template", "spec"))
		case o.Kind() == "ConfigMap" && o.Name() == "config-network":
			at(o, "data")["ingress-class"] = IngressClass
		}
		kept = append(kept, o)
	}
	return kept
}

// adjustPod lets all pods fit on the node beside those of tests, and start as fast as they can.
func adjustPod(pod map[string]any) {
	delete(pod, "affinity")                   // there is no other node
	pod["terminationGracePeriodSeconds"] = 10 // up to ten minutes, for requests that nobody waits for here
	containers, _ := pod["containers"].([]any)
	for _, each := range containers {
		container, ok := each.(map[string]any)
		if !ok {
			continue
		}
		// Of two processors Knative would ask for 1.3, and a limit slows a start down.
		container["resources"] = map[string]any{"requests": map[string]any{"cpu": "30m", "memory": "50Mi"}}
		if probe, ok := container["readinessProbe"].(map[string]any); ok {
			delete(probe, "initialDelaySeconds") // 20 seconds, of which a start needs two
			probe["periodSeconds"] = 1
		}
	}
}
