package swarm

import (
	"cmp"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/apiserver"
)

// ownerResources are the custom resources of the operators that a world may have.
var ownerResources = []string{"postgresclusters", "rabbitmqclusters", "perconaxtradbclusters", "infinispans"}

// Ways of an operator. Its resource has the count in spec.replicas.
const (
	noOperator     = iota
	pausesOrStops  // spec.paused pauses the operator, spec.shutdown stops all pods
	keepsSizes     // a label pauses the operator; it undoes a resize that spec.persistence.storage does not have, and keeps the labels, too
	stopsByPause   // spec.pause stops all pods
	oneByOne       // the same, and the operator starts and stops one pod after the other
	stopsByCount   // a count of zero stops all pods, so the stop and the user write the same field
	lastOperator   = stopsByCount
	pauseLabel     = "rabbitmq.com/pauseReconciliation"
	operatorsCount = 3 // in spec.replicas of a new resource
)

// resourcesOf has the custom resource of each way.
var resourcesOf = map[int]string{pausesOrStops: ownerResources[0], keepsSizes: ownerResources[1], stopsByPause: ownerResources[2],
	oneByOne: ownerResources[2], stopsByCount: ownerResources[3]}

// operator makes the sets of its custom resource as the resource says. It may act on a resource that it has read long ago.
type operator struct {
	way     int
	key     apiserver.Key // of the custom resource
	sets    []string
	seen    *apiserver.Object
	wanted  map[string]any // spec, labels and annotations of the custom resource, as its user wrote them
	paused  bool           // by its user
	updated bool           // its users have let Drydock change the size
	held    int            // where in the log Drydock has last written the custom resource
	sized   int            // where in the log its users have last written the size
}

var operatorClient = apiserver.Client{User: "system:serviceaccount:operators:operator", Manager: "operator"}

// addOperator creates a custom resource and its operator.
func (w *World) addOperator(name string, way int, sets []string) {
	op := &operator{way: way, key: in(resourcesOf[way], name), sets: sets}
	spec, labels := map[string]any{"replicas": operatorsCount, "other": "x"}, map[string]any{"app": "own"}
	if way == keepsSizes {
		spec["persistence"] = map[string]any{"storage": "1Gi"}
		labels, _ = w.manifest(name)
	}
	o := w.create(person, op.key.Resource, map[string]any{"metadata": map[string]any{"name": name, "namespace": namespace,
		"annotations": map[string]any{"note": "own"}, "labels": labels},
		"spec": spec})
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
	if isOn(op.seen, "pause") || isOn(op.seen, "shutdown") {
		count = 0
	}
	switch has := numberOf(set, "spec", "replicas"); {
	case set == nil:
		w.createSet(operatorClient, name, count)
	case set.GetDeletionTimestamp() != nil:
	case op.way == keepsSizes && (w.replaceMetadata(op, set) || w.undoResize(op, set)):
	case has == count:
	case op.way == oneByOne && (numberOf(set, "status", "replicas") != has || numberOf(set, "status", "readyReplicas") != has):
	default:
		if op.way == oneByOne {
			count = has + cmp.Compare(count, has)
		}
		w.tell("  the operator sets %s from %d to %d", name, has, count)
		w.change(operatorClient, in("statefulsets", name), "", func(o *apiserver.Object) {
			put(o, int64(count), "spec", "replicas")
			for key, value := range op.seen.GetAnnotations() { // as some operators do
				put(o, value, "metadata", "annotations", key)
			}
		})
	}
}

// labelsOf returns the labels of a set that its operator writes: those of its resource, and no others.
func (op *operator) labelsOf(set string) map[string]any {
	labels := map[string]any{}
	for key, value := range op.seen.GetLabels() {
		labels[key] = value
	}
	labels["app"] = set
	return labels
}

// replaceMetadata lets the operator replace the labels of the set, and copy the annotations of its resource to it. It reports whether they
// differed.
func (w *World) replaceMetadata(op *operator, set *apiserver.Object) bool {
	labels, has, differs := op.labelsOf(set.GetName()), map[string]any{}, false
	for key, value := range set.GetLabels() {
		has[key] = value
	}
	for key, value := range op.seen.GetAnnotations() {
		is, there := set.GetAnnotations()[key]
		differs = differs || !there || is != value
	}
	if maps.Equal(labels, has) && !differs {
		return false
	}
	w.tell("  the operator replaces the metadata of %s", set.GetName())
	return w.change(operatorClient, in("statefulsets", set.GetName()), "", func(o *apiserver.Object) {
		put(o, labels, "metadata", "labels")
		for key, value := range op.seen.GetAnnotations() {
			put(o, value, "metadata", "annotations", key)
		}
	})
}

// undoResize lets the operator make claims larger that are smaller than its resource says, and create the set again if its template differs
// from the resource: some operators keep the pods meanwhile. It reports whether the set is deleted for that.
func (w *World) undoResize(op *operator, set *apiserver.Object) bool {
	size := textOf(op.seen, "spec", "persistence", "storage")
	for _, name := range claimsOfSet(set.GetName()) {
		claim := w.server.Get(in("persistentvolumeclaims", name))
		if claim == nil || textOf(claim, "spec", "storageClassName") != class {
			continue
		}
		if has := resource.MustParse(textOf(claim, "spec", "resources", "requests", "storage")); has.Cmp(resource.MustParse(size)) < 0 {
			w.tell("  the operator makes %s larger", name)
			w.change(operatorClient, in("persistentvolumeclaims", name), "", func(o *apiserver.Object) {
				put(o, size, "spec", "resources", "requests", "storage")
			})
		}
	}
	if sizeOfTemplate(set) == size {
		return false
	}
	options := metav1.DeleteOptions{}
	if w.Parallel {
		orphan := metav1.DeletePropagationOrphan
		options.PropagationPolicy = &orphan
	}
	w.tell("  the operator deletes set %s, because its template has %s", set.GetName(), sizeOfTemplate(set))
	if w.expectsPause(op, set) {
		w.violate("the operator undoes a resize of set %s within a day, and no user has ended its pause", set.GetName())
	}
	w.remove(operatorClient, in("statefulsets", set.GetName()), options)
	return true
}

// expectsPause reports whether the operator must be paused, because a function has created the set with other templates than the operator's
// within the last day, and no user has decided anything about that since.
func (w *World) expectsPause(op *operator, set *apiserver.Object) bool {
	if op.seen != w.server.Get(op.key) || time.Since(set.GetCreationTimestamp().Time) > 23*time.Hour {
		return false
	}
	created := false
	for _, c := range slices.Backward(w.server.Log()) {
		switch {
		case c.Key == op.key && !created && !isFunction(c.By): // by a user
			return false
		case c.Key != keyOf("statefulsets", set) || c.After == nil:
		case c.Before != nil && !created && (c.After.GetLabels()[api.ManagedLabel] != "true" ||
			c.After.GetAnnotations()[api.OwnerPolicyAnnotation] == string(api.OwnerIgnore)):
			return false
		case c.Before == nil && !isFunction(c.By): // the set that the operator or a user has created
			return created && sizeOfTemplate(c.After) != sizeOfTemplate(set)
		case c.Before == nil:
			created = true
		}
	}
	return false
}

// sizeOfTemplate returns the size in the set's claim template.
func sizeOfTemplate(set *apiserver.Object) string {
	templates := apiserver.Decode[appsv1.StatefulSet](set).Spec.VolumeClaimTemplates
	if len(templates) == 0 {
		return ""
	}
	return templates[0].Spec.Resources.Requests.Storage().String()
}

// sizeIn returns the size for the claims of a new set: what its operator's resource says.
func (w *World) sizeIn(set string) string {
	if op := w.operatorOf(set); op != nil && op.way == keepsSizes {
		return textOf(op.seen, "spec", "persistence", "storage")
	}
	return "1Gi"
}

func isOn(o *apiserver.Object, field string) bool {
	spec, _ := o.Object["spec"].(map[string]any)
	on, _ := spec[field].(bool)
	return on
}

func isPaused(o *apiserver.Object) bool {
	return o.GetLabels()[pauseLabel] == "true" || isOn(o, "paused")
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

// resizeOwner lets a user write the size of the claims into the custom resource.
func (w *World) resizeOwner(op *operator, size string) {
	if op == nil || op.way != keepsSizes {
		return
	}
	if w.change(person, op.key, "", func(o *apiserver.Object) { put(o, size, "spec", "persistence", "storage") }) {
		op.sized = len(w.server.Log())
		put(&apiserver.Object{Object: op.wanted}, size, "spec", "persistence", "storage")
	}
}

// sizeStays: Drydock does not replace a size that users have written since Drydock has paused the operator.
func (w *World) sizeStays(op *operator, c apiserver.Commit) {
	size := func(o *apiserver.Object) string { return textOf(o, "spec", "persistence", "storage") }
	if c.Before != nil && c.After != nil && size(c.Before) != size(c.After) && op.sized > op.held {
		w.violate("Drydock replaces the size %s in the custom resource, which its user wrote during the pause, by %s", size(c.Before),
			size(c.After))
	}
}

// isAsWritten reports whether the custom resource is as its users wrote it. They may have let Drydock change the size.
func (op *operator) isAsWritten(o *apiserver.Object) bool {
	is, wanted := apiserver.Object{Object: writtenByUsers(o.DeepCopy())}, apiserver.Object{Object: op.wanted}
	if op.updated {
		put(&is, textOf(&wanted, "spec", "persistence", "storage"), "spec", "persistence", "storage")
	}
	return equality.Semantic.DeepEqual(is.Object, wanted.Object)
}

// labelOwner lets a user label the custom resource, which keeps the label on its sets.
func (w *World) labelOwner(op *operator, name string, value any) {
	w.describeOwner(op, value, "labels", name)
}

// describeOwner lets a user change a label or an annotation of a custom resource.
func (w *World) describeOwner(op *operator, value any, path ...string) {
	path = append([]string{"metadata"}, path...)
	if w.change(person, op.key, "", func(o *apiserver.Object) { put(o, value, path...) }) {
		put(&apiserver.Object{Object: map[string]any{"metadata": op.wanted}}, value, path...)
	}
}

// stopOwner lets a user stop all pods by the field of the custom resource, or start them.
func (w *World) stopOwner(op *operator, stop bool) {
	field := map[int]string{pausesOrStops: "shutdown", stopsByPause: "pause", oneByOne: "pause"}[op.way]
	if field == "" {
		return
	}
	w.change(person, op.key, "", func(o *apiserver.Object) { put(o, stop, "spec", field) })
	put(&apiserver.Object{Object: op.wanted}, stop, "spec", field)
}

// isStopped reports whether the user has stopped all pods by the custom resource.
func (op *operator) isStopped() bool {
	wanted := &apiserver.Object{Object: op.wanted}
	return isOn(wanted, "pause") || isOn(wanted, "shutdown")
}

// pauseOperator pauses the operator by hand, or ends that.
func (w *World) pauseOperator(op *operator, pause bool) {
	if op == nil || op.way >= stopsByPause {
		return
	}
	path, value := []string{"metadata", "labels", pauseLabel}, any("true")
	if op.way == pausesOrStops {
		path, value = []string{"spec", "paused"}, true
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
