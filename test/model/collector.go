package model

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/plan"
)

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
