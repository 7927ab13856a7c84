package swarm

import (
	"drydock.dev/test/swarm/apiserver"
)

// ownerResources are the custom resources of the operators that a world may have.
var ownerResources = []string{"rabbitmqclusters", "opentelemetrycollectors", "perconaxtradbclusters"}

// Ways of an operator. The value is one more than the index in ownerResources.
const (
	noOperator     = iota
	pauses         // spec.replicas is the count, a label pauses the operator
	pausesByField  // the same with a field
	stopsByPause   // spec.pause stops all pods
	lastOperator   = stopsByPause
	ownerName      = "own"
	pauseLabel     = "rabbitmq.com/pauseReconciliation"
	operatorsCount = 3 // in spec.replicas of a new resource
)

// operator makes the sets of its custom resource as the resource says. It may act on a resource that it has read long ago.
type operator struct {
	resource string
	sets     []string
	seen     *apiserver.Object
}

var operatorClient = apiserver.Client{User: "system:serviceaccount:operators:operator", Manager: "operator"}

func (w *World) isOwned(set string) bool {
	if w.operator == nil {
		return false
	}
	for _, s := range w.operator.sets {
		if s == set {
			return true
		}
	}
	return false
}

// owner returns the custom resource, or nil.
func (w *World) owner() *apiserver.Object {
	if w.operator == nil {
		return nil
	}
	return w.server.Get(in(w.operator.resource, ownerName))
}

// reconcile lets the operator work. A stale one works with the resource that it read before.
func (w *World) reconcile(stale bool) {
	if w.operator == nil {
		return
	}
	if !stale || w.operator.seen == nil {
		w.operator.seen = w.owner()
	}
	resource := w.operator.seen
	if live := w.owner(); resource == nil || live == nil || live.GetDeletionTimestamp() != nil || isPaused(resource) {
		return
	}
	count := numberOf(resource, "spec", "replicas")
	if paused, _ := resource.Object["spec"].(map[string]any)["pause"].(bool); paused {
		count = 0
	}
	for _, name := range w.operator.sets {
		set := w.set(name)
		switch {
		case set == nil:
			w.createSet(operatorClient, name, count)
		case set.GetDeletionTimestamp() == nil && numberOf(set, "spec", "replicas") != count:
			w.tell("  the operator sets %s from %d to %d", name, numberOf(set, "spec", "replicas"), count)
			w.change(operatorClient, in("statefulsets", name), "", func(o *apiserver.Object) { put(o, int64(count), "spec", "replicas") })
		}
	}
}

func isPaused(resource *apiserver.Object) bool {
	return resource.GetLabels()[pauseLabel] == "true" || textOf(resource, "spec", "managementState") == "unmanaged"
}
