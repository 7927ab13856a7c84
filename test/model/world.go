package model

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
)

// World is one state of the cluster.
type World struct {
	objects map[key]*entry
	// incarnations counts the objects that a name has had. The count makes their UIDs unique.
	incarnations map[key]int
	version      int // the last resourceVersion
	now          time.Time

	processes map[types.UID]process
	contents  map[string]content // data of the volumes, by name
	functions [functionCount]function

	// budget is the minimum number of ready members for an eviction; 0 without a PodDisruptionBudget.
	budget int
	// nodeSilent means that the node has stopped reporting while its processes run.
	nodeSilent bool
	// claims lists the claims with data.
	claims []string
	// replicas is the user's replica count.
	replicas int32
	// rolling allows only one unavailable member.
	rolling bool
	// setDeleted means that the user has deleted the set.
	setDeleted bool
	// prompt puts the bookkeeping of controllers before all other steps.
	prompt bool
	// countsReady lets the Job controller also count ready pods in the status of a Job. That only makes a deletion of the Job conflict, and
	// multiplies the states, so only a replay needs it.
	countsReady bool
	// wroteLate means that backup wrote after the operation had stopped copying, from an older decision. Its objects may remain.
	wroteLate bool
	// unprotectedDeletes lists the claims that a user deleted while no pod protected them.
	unprotectedDeletes string
	// faults is how many more faults may happen. pastFaults lists the past ones.
	faults     int
	pastFaults string
	// violation is the invariant that the last step violated.
	violation string
}

// Step is one possible next event.
type Step struct {
	// Who acts, and What happens, in words. The pair is unique among the steps of one state.
	Who, What string
	// Fault marks a fault or an act of a user. It counts against the bound.
	Fault bool
	do    func(*World)
}

func (s Step) String() string { return s.Who + ": " + s.What }

func newWorld() *World {
	return &World{objects: map[key]*entry{}, incarnations: map[key]int{}, processes: map[types.UID]process{}, contents: map[string]content{},
		now: time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)}
}

// after returns the world after the step; w does not change.
func (w *World) after(s Step) *World {
	next := *w
	next.objects, next.incarnations = maps.Clone(w.objects), maps.Clone(w.incarnations)
	next.processes, next.contents = maps.Clone(w.processes), maps.Clone(w.contents)
	next.violation = ""
	if s.Fault {
		next.faults--
	}
	s.do(&next)
	return &next
}

// find returns the object of that name, or nil. The caller must not change it; use edit instead.
func find[T object](w *World, kind plan.Resource, name string) T {
	var none T
	if e := w.objects[key{kind, name}]; e != nil {
		return e.object.(T)
	}
	return none
}

// all returns the objects of a kind, sorted by name.
func all[T object](w *World, kind plan.Resource) []T {
	var found []T
	for k, e := range w.objects {
		if k.kind == kind {
			found = append(found, e.object.(T))
		}
	}
	slices.SortFunc(found, func(a, b T) int { return strings.Compare(a.GetName(), b.GetName()) })
	return found
}

// edit changes an object if it still exists.
func edit[T object](w *World, kind plan.Resource, name string, change func(T)) {
	if e := w.objects[key{kind, name}]; e != nil {
		next := e.object.DeepCopyObject().(T)
		change(next)
		w.store(kind, next)
	}
}

// store writes the object with a new resourceVersion. A terminating object disappears with its last finalizer.
func (w *World) store(kind plan.Resource, o object) {
	k := key{kind, o.GetName()}
	if removable(o) && !w.endsGracePeriod(k, o) {
		delete(w.objects, k)
		return
	}
	o.SetResourceVersion("")
	if e := w.objects[k]; e != nil && bytes.Equal(e.text, withoutVersion(o)) {
		return
	}
	w.version++
	e := &entry{object: fresh(kind), text: withoutVersion(o)}
	if err := json.Unmarshal(e.text, e.object); err != nil { // like the API server, which drops empty maps
		panic(err)
	}
	e.object.SetResourceVersion(fmt.Sprint("v", w.version))
	text := e.text
	if kind == plan.ControllerRevisions {
		text = versions.ReplaceAll(text, []byte("v"))
	}
	sum := sha256.Sum256(append([]byte(kind), text...))
	copy(e.digest[:], sum[:])
	w.objects[k] = e
}

// endsGracePeriod reports whether the write ends the grace period. The API server stores that write and removes the object with a second
// one (kubernetes staging apiserver pkg/registry/generic/registry/store.go, Delete).
func (w *World) endsGracePeriod(k key, o object) bool {
	if e := w.objects[k]; e != nil && o.GetDeletionGracePeriodSeconds() != nil {
		before := e.object.GetDeletionGracePeriodSeconds()
		return before == nil || *before != 0
	}
	return false
}

func (w *World) set() *appsv1.StatefulSet {
	return find[*appsv1.StatefulSet](w, plan.StatefulSets, setName)
}

func (w *World) pod(name string) *corev1.Pod { return find[*corev1.Pod](w, plan.Pods, name) }

func (w *World) claim(name string) *corev1.PersistentVolumeClaim {
	return find[*corev1.PersistentVolumeClaim](w, plan.Claims, name)
}

func (w *World) volume(name string) *corev1.PersistentVolume {
	return find[*corev1.PersistentVolume](w, plan.Volumes, name)
}

// record returns the resize record of the set, or nil.
func (w *World) record() *api.Resize {
	e := w.objects[key{plan.StatefulSets, setName}]
	if e == nil {
		return nil
	}
	if e.record == nil {
		e.record, _ = api.LoadResize(w.set())
	}
	return e.record
}

// memberPods returns the pods that the set controls.
func (w *World) memberPods() []*corev1.Pod {
	var own []*corev1.Pod
	for _, p := range all[*corev1.Pod](w, plan.Pods) {
		if set := w.set(); set != nil && metav1.IsControlledBy(p, set) {
			own = append(own, p)
		}
	}
	return own
}

// namespace holds every namespaced object.
const namespace = "shop"

// setName is the name of the only StatefulSet.
const setName = "web"

// object is any Kubernetes object of the model.
type object interface {
	metav1.Object
	runtime.Object
}

// fresh returns an empty object of the kind.
func fresh(kind plan.Resource) object {
	switch kind {
	case plan.StatefulSets:
		return &appsv1.StatefulSet{}
	case plan.ControllerRevisions:
		return &appsv1.ControllerRevision{}
	case plan.Claims:
		return &corev1.PersistentVolumeClaim{}
	case plan.Volumes:
		return &corev1.PersistentVolume{}
	case plan.Jobs:
		return &batchv1.Job{}
	}
	return &corev1.Pod{}
}

type key struct {
	kind plan.Resource
	name string
}

// entry is one version of an object. It is immutable: a write makes a new entry, so that worlds can share entries.
type entry struct {
	object object
	text   []byte // as JSON, without resourceVersion
	digest [16]byte

	sent     []byte // computed on first use, like the following
	manifest *unstructured.Unstructured
	record   *api.Resize
}

// asJSON returns the object as the API server sends it.
func (e *entry) asJSON() []byte {
	if e.sent == nil {
		e.sent, _ = json.Marshal(e.object)
	}
	return e.sent
}

// asManifest returns the object with all its fields, as restore reads it.
func (e *entry) asManifest(apiVersion, kind string) *unstructured.Unstructured {
	if e.manifest == nil {
		e.manifest, _ = api.ParseManifest(e.asJSON(), apiVersion, kind)
	}
	return e.manifest
}

func withoutVersion(o object) []byte {
	version := o.GetResourceVersion()
	o.SetResourceVersion("")
	text, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	o.SetResourceVersion(version)
	return text
}

// versions matches resourceVersions within annotations. They differ between paths to the same state.
var versions = regexp.MustCompile(`\bv[0-9]+\b`)

// removable reports whether the terminating object has no finalizer and no grace period left.
func removable(o object) bool {
	grace := o.GetDeletionGracePeriodSeconds()
	return o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 && (grace == nil || *grace == 0)
}
