package statefulset

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
)

// Mounts reports whether the claim is one of the pod's volumes.
func Mounts(pod *corev1.Pod, claim string) bool {
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim {
			return true
		}
	}
	return false
}

// Done reports whether the pod's containers have ended and will not start again.
func Done(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// PodReady reports whether the pod is ready according to its status.
func PodReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// Consumers returns the pods with the claim, without finished pods. A pod that is being deleted counts until it is gone, because the
// kubelet removes it only after it has unmounted its volumes.
func Consumers(pods []*corev1.Pod, claim string) []*corev1.Pod {
	var using []*corev1.Pod
	for _, p := range pods {
		if !Done(p) && Mounts(p, claim) {
			using = append(using, p)
		}
	}
	return using
}

// IsPodOf reports whether the StatefulSet controls the pod. It also returns true for an orphaned pod that matches the set's selector: a set
// that was deleted with orphan propagation and created again adopts its pods.
func IsPodOf(pod *corev1.Pod, set *appsv1.StatefulSet) bool {
	owner := metav1.GetControllerOf(pod)
	if owner == nil { // orphaned: the next owner with a matching selector adopts it
		return Selects(set, pod.Labels)
	}
	return owner.UID == set.UID
}

// Selects reports whether the set's selector matches the labels. The StatefulSet controller treats a pod with these labels as a pod of the
// set.
func Selects(set *appsv1.StatefulSet, labels map[string]string) bool {
	return set.Spec.Selector != nil && selects(set.Spec.Selector, labels)
}

// SelectorOf returns the set's selector as text. An unreadable selector yields a text that selects no pod.
func SelectorOf(set *appsv1.StatefulSet) string {
	s, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil || set.Spec.Selector == nil {
		return "drydock.dev/none,!drydock.dev/none"
	}
	return s.String()
}

func selects(selector *metav1.LabelSelector, labels map[string]string) bool {
	s, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && !s.Empty() && s.Matches(labelSet(labels))
}

type labelSet map[string]string

func (l labelSet) Has(key string) bool   { _, ok := l[key]; return ok }
func (l labelSet) Get(key string) string { return l[key] }
func (l labelSet) Lookup(key string) (string, bool) {
	v, ok := l[key]
	return v, ok
}

// ReadySince returns when the pod's condition Ready became true.
func ReadySince(pod *corev1.Pod) (since time.Time, ready bool) {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time, true
		}
	}
	return time.Time{}, false
}

// IsPrimary reports whether the pod has the label of the set's primary, see api.PrimaryAnnotation.
func IsPrimary(set *appsv1.StatefulSet, pod *corev1.Pod) bool {
	key, value, ok := api.PrimaryLabel(set)
	return ok && pod != nil && pod.Labels[key] == value
}

// Ordered reports whether the pods of the set end one after the other, the highest ordinal first.
func Ordered(set *appsv1.StatefulSet) bool {
	return set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement
}
