package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// Errors of the API server, in the classes of shared/apply.
var (
	errConflict = errors.New("conflict")
	errBudget   = errors.New("the disruption budget web needs more pods ready")
	errInvalid  = errors.New("invalid")
)

const (
	protection = "kubernetes.io/pvc-protection"
	orphan     = "orphan"
)

// applyAction applies one action of a plan.
func (w *World) applyAction(a plan.Action) error {
	switch a.Verb {
	case plan.VerbCreate:
		return w.create(a.Resource, a.Object)
	case plan.VerbPatch:
		return w.patch(a.Resource, a.Name, a.Ops)
	case plan.VerbDelete:
		return w.delete(a.Resource, a.Name, a.UID, a.ResourceVersion, a.Orphan)
	case plan.VerbEvict:
		return w.evict(a.Name, a.UID, a.Try)
	case plan.VerbCheck:
		return w.unchanged(a)
	}
	return nil // a dry run, or an Event
}

// create stores a new object, or returns a conflict if the name exists. Claims get the finalizer that admission adds (kubernetes
// plugin/pkg/admission/storage/storageobjectinuseprotection).
func (w *World) create(kind plan.Resource, from runtime.Object) error {
	made := fresh(kind)
	text, err := json.Marshal(from)
	if err != nil || json.Unmarshal(text, made) != nil {
		return errInvalid
	}
	k := key{kind, made.GetName()}
	if w.objects[k] != nil {
		return errConflict
	}
	w.incarnations[k]++
	made.SetUID(types.UID(fmt.Sprintf("%s.%d", made.GetName(), w.incarnations[k])))
	made.SetCreationTimestamp(metav1.NewTime(w.now))
	made.SetGeneration(1)
	switch made := made.(type) {
	case *corev1.PersistentVolumeClaim:
		if !slices.Contains(made.Finalizers, protection) {
			made.Finalizers = append(made.Finalizers, protection)
		}
		made.Status.Phase = corev1.ClaimPending
	case *corev1.Pod:
		made.Status.Phase = corev1.PodPending
	}
	w.store(kind, made)
	return nil
}

// patch applies a JSON patch. A failed test or a missing path counts as a conflict: the object has changed since it was observed. A
// terminating object accepts no new finalizers (kubernetes staging apimachinery pkg/api/validation, ValidateObjectMetaAccessorUpdate).
func (w *World) patch(kind plan.Resource, name string, ops []plan.Op) error {
	e := w.objects[key{kind, name}]
	if e == nil || slices.ContainsFunc(ops, func(op plan.Op) bool {
		return op.Path == "/metadata/resourceVersion" && op.Value != e.object.GetResourceVersion()
	}) {
		return errConflict
	}
	body, _ := json.Marshal(slices.DeleteFunc(slices.Clone(ops), func(op plan.Op) bool { return op.Path == "/metadata/resourceVersion" }))
	change, err := jsonpatch.DecodePatch(body)
	if err != nil {
		return errInvalid
	}
	text, err := change.Apply(e.text)
	if err != nil {
		return errConflict
	}
	next := fresh(kind)
	if json.Unmarshal(text, next) != nil {
		return errInvalid
	}
	if next.GetDeletionTimestamp() != nil {
		for _, finalizer := range next.GetFinalizers() {
			if !slices.Contains(e.object.GetFinalizers(), finalizer) {
				return errInvalid
			}
		}
	}
	w.store(kind, next)
	return nil
}

// unchanged returns a conflict if the object has changed since it was observed.
func (w *World) unchanged(a plan.Action) error {
	e := w.objects[key{a.Resource, a.Name}]
	if e == nil && a.UID == "" {
		return nil
	}
	if e == nil || e.object.GetUID() != a.UID || e.object.GetResourceVersion() != a.ResourceVersion {
		return errConflict
	}
	return nil
}

// delete starts the deletion if UID and resourceVersion match. A running pod gets a grace period (kubernetes pkg/registry/core/pod,
// CheckGracefulDelete).
func (w *World) delete(kind plan.Resource, name string, uid types.UID, version string, orphaning bool) error {
	e := w.objects[key{kind, name}]
	if e == nil || uid != "" && e.object.GetUID() != uid || version != "" && e.object.GetResourceVersion() != version {
		return errConflict
	}
	if e.object.GetDeletionTimestamp() != nil {
		return nil
	}
	next := e.object.DeepCopyObject().(object)
	next.SetDeletionTimestamp(&metav1.Time{Time: w.now})
	if orphaning {
		next.SetFinalizers(append(next.GetFinalizers(), orphan))
	}
	if pod, ok := next.(*corev1.Pod); ok {
		seconds := int64(30)
		if pod.Spec.NodeName == "" || statefulset.Done(pod) {
			seconds = 0
		}
		pod.DeletionGracePeriodSeconds = &seconds
	}
	w.store(kind, next)
	return nil
}

// forceDelete models kubectl delete --force --grace-period=0: the object disappears while its processes still run.
func (w *World) forceDelete(name string) {
	edit(w, plan.Pods, name, func(p *corev1.Pod) {
		if p.DeletionTimestamp == nil {
			p.DeletionTimestamp = &metav1.Time{Time: w.now}
		}
		p.DeletionGracePeriodSeconds = ptr.To[int64](0)
	})
}

const apiServer = "API server"

// removals returns the removal of pods whose grace period has ended.
func removals(w *World) []Step {
	var steps []Step
	for _, p := range all[*corev1.Pod](w, plan.Pods) {
		if removable(p) {
			steps = append(steps, Step{Who: apiServer, What: "removes pod " + p.Name, do: func(w *World) {
				delete(w.objects, key{plan.Pods, p.Name})
			}})
		}
	}
	return steps
}

// evict deletes the pod if the PodDisruptionBudget allows it. The budget counts ready pods of the set that are not terminating
// (kubernetes pkg/controller/disruption, and pkg/registry/core/pod/storage/eviction.go).
func (w *World) evict(name string, uid types.UID, try bool) error {
	pod := w.pod(name)
	if pod == nil || pod.UID != uid {
		return errConflict
	}
	ready := 0
	for _, p := range w.memberPods() {
		if p.DeletionTimestamp == nil && statefulset.PodReady(p) {
			ready++
		}
	}
	if w.budget > 0 && !statefulset.Done(pod) && ready-1 < w.budget {
		return errBudget
	}
	if try {
		return nil
	}
	return w.delete(plan.Pods, name, uid, "", false)
}

const collector = "garbage collector"

// garbageCollector models kubernetes pkg/controller/garbagecollector. It deletes objects whose owners are all gone. For an owner that is
// deleted with orphan propagation it first removes the owner references, then the owner's finalizer.
func garbageCollector(w *World) []Step {
	var steps []Step
	alive := map[types.UID]bool{}
	for _, e := range w.objects {
		alive[e.object.GetUID()] = true
	}
	for _, kind := range []plan.Resource{plan.Pods, plan.Claims, plan.Jobs} {
		for _, o := range all[object](w, kind) {
			owners := o.GetOwnerReferences()
			dead := len(owners) > 0 && !slices.ContainsFunc(owners, func(ref metav1.OwnerReference) bool { return alive[ref.UID] })
			if dead && o.GetDeletionTimestamp() == nil {
				steps = append(steps, Step{Who: collector, What: "deletes " + o.GetName() + ", whose owner is gone", do: func(w *World) {
					_ = w.delete(kind, o.GetName(), o.GetUID(), "", false)
				}})
			}
		}
	}
	if set := w.set(); set != nil && set.DeletionTimestamp != nil && slices.Contains(set.Finalizers, orphan) {
		return append(steps, orphanPods(w, set)...)
	}
	return steps
}

// orphanPods removes the set's owner reference from its pods and claims, in any order. After the last one it releases the set.
func orphanPods(w *World, set *appsv1.StatefulSet) []Step {
	var steps []Step
	for _, kind := range []plan.Resource{plan.Pods, plan.Claims} {
		for _, o := range all[object](w, kind) {
			if !slices.ContainsFunc(o.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == set.UID }) {
				continue
			}
			steps = append(steps, Step{Who: collector, What: "orphans " + o.GetName(), do: func(w *World) {
				edit(w, kind, o.GetName(), func(o object) {
					o.SetOwnerReferences(slices.DeleteFunc(slices.Clone(o.GetOwnerReferences()),
						func(ref metav1.OwnerReference) bool { return ref.UID == set.UID }))
				})
			}})
		}
	}
	if len(steps) > 0 {
		return steps
	}
	return []Step{{Who: collector, What: "releases StatefulSet " + set.Name, do: func(w *World) {
		edit(w, plan.StatefulSets, set.Name, func(s *appsv1.StatefulSet) {
			s.Finalizers = slices.DeleteFunc(slices.Clone(s.Finalizers), func(f string) bool { return f == orphan })
		})
	}}}
}
