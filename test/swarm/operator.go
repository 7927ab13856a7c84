package swarm

import (
	"cmp"
	"slices"

	"drydock.dev/test/swarm/apiserver"
)

// ownerResources are the custom resources of the operators that a world may have.
var ownerResources = []string{"rabbitmqclusters", "opentelemetrycollectors", "perconaxtradbclusters"}

// Ways of an operator.
const (
	noOperator     = iota
	pauses         // spec.replicas is the count, a label pauses the operator
	pausesByField  // the same with a field
	stopsByPause   // spec.pause stops all pods
	oneByOne       // the same, and the operator starts and stops one pod after the other
	lastOperator   = oneByOne
	pauseLabel     = "rabbitmq.com/pauseReconciliation"
	operatorsCount = 3 // in spec.replicas of a new resource
)

// operator makes the sets of its custom resource as the resource says. It may act on a resource that it has read long ago.
type operator struct {
	way    int
	key    apiserver.Key // of the custom resource
	sets   []string
	seen   *apiserver.Object
	wanted map[string]any // spec, labels and annotations of the custom resource, as its user wrote them
	paused bool           // by its user
	held   int            // where in the log Drydock has last written the custom resource
}

var operatorClient = apiserver.Client{User: "system:serviceaccount:operators:operator", Manager: "operator"}

// addOperator creates a custom resource and its operator.
func (w *World) addOperator(name string, way int, sets []string) {
	op := &operator{way: way, key: in(ownerResources[min(way, stopsByPause)-1], name), sets: sets}
	o := w.create(person, op.key.Resource, map[string]any{"metadata": map[string]any{"name": name, "namespace": namespace,
		"annotations": map[string]any{"note": "own"}, "labels": map[string]any{"app": "own"}},
		"spec": map[string]any{"replicas": operatorsCount, "other": "x"}})
	op.wanted = writtenByUsers(o.DeepCopy())
	w.operators = append(w.operators, op)
}

func writtenByUsers(o *apiserver.Object) map[string]any {
	metadata, _ := o.Object["metadata"].(map[string]any)
	return map[string]any{"spec": o.Object["spec"], "labels": metadata["labels"], "annotations": metadata["annotations"]}
}

// operatorOf returns the operator of the set, or nil.
func (w *World) operatorOf(set string) *operator {
	for _, op := range w.operators {
		if slices.Contains(op.sets, set) {
			return op
		}
	}
	return nil
}

func (w *World) isOwned(set string) bool { return w.operatorOf(set) != nil }

// reconcile lets the operators work. A stale one works with the resource that it read before.
func (w *World) reconcile(stale bool) {
	for _, op := range w.operators {
		live := w.server.Get(op.key)
		if !stale || op.seen == nil {
			op.seen = live
		}
		if live != nil && live.GetDeletionTimestamp() == nil && !isPaused(op.seen) {
			for _, set := range op.sets {
				w.reconcileSet(op, set)
			}
		}
	}
}

func (w *World) reconcileSet(op *operator, name string) {
	count, set := numberOf(op.seen, "spec", "replicas"), w.set(name)
	if paused, _ := op.seen.Object["spec"].(map[string]any)["pause"].(bool); paused {
		count = 0
	}
	switch has := numberOf(set, "spec", "replicas"); {
	case set == nil:
		w.createSet(operatorClient, name, count)
	case set.GetDeletionTimestamp() != nil || has == count:
	case op.way == oneByOne && (numberOf(set, "status", "replicas") != has || numberOf(set, "status", "readyReplicas") != has):
	default:
		if op.way == oneByOne {
			count = has + cmp.Compare(count, has)
		}
		w.tell("  the operator sets %s from %d to %d", name, has, count)
		w.change(operatorClient, in("statefulsets", name), "", func(o *apiserver.Object) { put(o, int64(count), "spec", "replicas") })
	}
}

func isPaused(resource *apiserver.Object) bool {
	return resource.GetLabels()[pauseLabel] == "true" || textOf(resource, "spec", "managementState") == "unmanaged"
}

// chosenOperator returns the operator of the set, or else the first one. It is nil if the custom resource does not exist.
func (w *World) chosenOperator(set string) *operator {
	op := w.operatorOf(set)
	if op == nil && len(w.operators) > 0 {
		op = w.operators[0]
	}
	if op == nil || w.server.Get(op.key) == nil {
		return nil
	}
	return op
}

func (w *World) scaleOwner(op *operator, n int) {
	if op == nil || !w.change(person, op.key, "", func(o *apiserver.Object) { put(o, int64(n), "spec", "replicas") }) {
		return
	}
	put(&apiserver.Object{Object: op.wanted}, int64(n), "spec", "replicas")
	for _, set := range op.sets {
		w.note(set)
	}
}

// pauseOperator pauses the operator by hand, or ends that.
func (w *World) pauseOperator(op *operator, pause bool) {
	if op == nil || op.way >= stopsByPause {
		return
	}
	path, value := []string{"metadata", "labels", pauseLabel}, any("true")
	if op.way == pausesByField {
		path, value = []string{"spec", "managementState"}, "unmanaged"
	}
	if !pause {
		value = nil
	}
	w.change(person, op.key, "", func(o *apiserver.Object) { put(o, value, path...) })
	for _, set := range op.sets {
		w.wishes.unclear[set] = pause
	}
	op.paused = pause
}
