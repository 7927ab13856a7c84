package model

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
)

// find returns the object of the name; nil if there is none. It must not be changed: see edit.
func find[T object](w *World, kind plan.Resource, name string) T {
	var none T
	if e := w.objects[key{kind, name}]; e != nil {
		return e.object.(T)
	}
	return none
}

// all returns the objects of a kind, by name.
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

// edit changes an object as a controller does, if it exists still.
func edit[T object](w *World, kind plan.Resource, name string, change func(T)) {
	if e := w.objects[key{kind, name}]; e != nil {
		next := e.object.DeepCopyObject().(T)
		change(next)
		w.store(kind, next)
	}
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

// record is the resize on the set; nil without one.
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

// memberPods are the pods that the set controls.
func (w *World) memberPods() []*corev1.Pod {
	var own []*corev1.Pod
	for _, p := range all[*corev1.Pod](w, plan.Pods) {
		if set := w.set(); set != nil && metav1.IsControlledBy(p, set) {
			own = append(own, p)
		}
	}
	return own
}
