package model

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// statefulSetController models kubernetes pkg/controller/statefulset: stateful_set.go (adoption), stateful_set_control.go
// (updateStatefulSet, processReplica) and stateful_pod_control.go (claims). Each write is a step. With OrderedReady only the first write
// is possible.
func statefulSetController(w *World) []Step {
	set := w.set()
	if set == nil || set.DeletionTimestamp != nil {
		return nil
	}
	steps := adopt(w, set)
	if len(steps) > 0 {
		return steps
	}
	span, ordered := statefulset.Span(set), statefulset.Ordered(set)
	for ordinal := span.Start; ordinal < span.End; ordinal++ {
		step, wait := replica(w, set, ordinal)
		steps = append(steps, step...)
		if ordered && (wait || len(step) > 0) {
			return append(steps, setStatus(w, set)...)
		}
	}
	steps = append(steps, surplusPods(w, set)...)
	return append(append(steps, rollout(w, set)...), setStatus(w, set)...)
}

const setController = "StatefulSet controller"

// adopt makes the set the controller of matching pods that have none.
func adopt(w *World, set *appsv1.StatefulSet) []Step {
	var steps []Step
	for _, p := range all[*corev1.Pod](w, plan.Pods) {
		_, member := statefulset.ParsePodName(set, p.Name)
		if member && metav1.GetControllerOf(p) == nil && p.DeletionTimestamp == nil && statefulset.Selects(set, p.Labels) {
			steps = append(steps, Step{Who: setController, What: "adopts pod " + p.Name, do: func(w *World) {
				edit(w, plan.Pods, p.Name, func(p *corev1.Pod) {
					p.OwnerReferences = append(p.OwnerReferences, *metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet")))
				})
			}})
		}
	}
	return steps
}

// replica models processReplica. It returns the writes for the ordinal, and whether higher ordinals must wait for it.
func replica(w *World, set *appsv1.StatefulSet, ordinal int) (steps []Step, wait bool) {
	pod := w.pod(statefulset.PodName(set, ordinal))
	switch {
	case pod == nil:
		return makeMember(w, set, ordinal), true
	case !metav1.IsControlledBy(pod, set): // another owner's pod has the name
		return nil, true
	case statefulset.Done(pod) && pod.DeletionTimestamp == nil:
		return []Step{{Who: setController, What: "deletes ended pod " + pod.Name, do: func(w *World) {
			_ = w.delete(plan.Pods, pod.Name, pod.UID, "", false)
		}}}, true
	case statefulset.Done(pod):
		return nil, true
	case pod.Status.Phase == corev1.PodPending:
		return missingClaims(w, set, ordinal), true
	}
	return nil, pod.DeletionTimestamp != nil || !statefulset.PodReady(pod)
}

// makeMember creates the missing claims of an ordinal, then its pod. A terminating claim blocks it (createPersistentVolumeClaims).
func makeMember(w *World, set *appsv1.StatefulSet, ordinal int) []Step {
	for _, t := range set.Spec.VolumeClaimTemplates {
		if claim := w.claim(statefulset.ClaimName(set, t.Name, ordinal)); claim != nil && claim.DeletionTimestamp != nil {
			return nil
		}
	}
	if steps := missingClaims(w, set, ordinal); len(steps) > 0 {
		return steps
	}
	name := statefulset.PodName(set, ordinal)
	return []Step{{Who: setController, What: "creates pod " + name, do: func(w *World) {
		w.checkCreation(name)
		_ = w.create(plan.Pods, memberPod(set, ordinal))
	}}}
}

func missingClaims(w *World, set *appsv1.StatefulSet, ordinal int) []Step {
	for _, t := range set.Spec.VolumeClaimTemplates {
		name := statefulset.ClaimName(set, t.Name, ordinal)
		if w.claim(name) != nil {
			continue
		}
		claim := t.DeepCopy()
		claim.Name, claim.Namespace, claim.Labels = name, namespace, set.Spec.Selector.MatchLabels
		return []Step{{Who: setController, What: "creates claim " + name, do: func(w *World) { _ = w.create(plan.Claims, claim) }}}
	}
	return nil
}

// revision returns the name of the set's newest revision.
func revision(set *appsv1.StatefulSet) string {
	return "rev-" + set.Spec.Template.Annotations["version"]
}

func memberPod(set *appsv1.StatefulSet, ordinal int) *corev1.Pod {
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: *set.Spec.Template.ObjectMeta.DeepCopy(),
		Spec: *set.Spec.Template.Spec.DeepCopy()}
	pod.Namespace, pod.Name = namespace, statefulset.PodName(set, ordinal)
	pod.Labels[appsv1.ControllerRevisionHashLabelKey] = revision(set)
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
	for _, t := range set.Spec.VolumeClaimTemplates {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: t.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: statefulset.ClaimName(set, t.Name, ordinal)}}})
	}
	return pod
}

// surplusPods deletes pods beyond the replica count, the highest ordinal first.
func surplusPods(w *World, set *appsv1.StatefulSet) []Step {
	span := statefulset.Span(set)
	var steps []Step
	for _, p := range w.memberPods() {
		if ordinal, ok := statefulset.ParsePodName(set, p.Name); ok && ordinal >= span.End && p.DeletionTimestamp == nil {
			steps = append(steps, Step{Who: setController, What: "deletes surplus pod " + p.Name, do: func(w *World) {
				_ = w.delete(plan.Pods, p.Name, p.UID, "", false)
			}})
		}
	}
	if statefulset.Ordered(set) && len(steps) > 1 {
		return steps[len(steps)-1:]
	}
	return steps
}

// rollout deletes a pod of an older revision, the highest ordinal first, while all others are ready.
func rollout(w *World, set *appsv1.StatefulSet) []Step {
	if set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return nil
	}
	span := statefulset.Span(set)
	for ordinal := span.End - 1; ordinal >= span.Start; ordinal-- {
		p := w.pod(statefulset.PodName(set, ordinal))
		if p == nil || !metav1.IsControlledBy(p, set) {
			return nil
		}
		if p.Labels[appsv1.ControllerRevisionHashLabelKey] != revision(set) && p.DeletionTimestamp == nil {
			return []Step{{Who: setController, What: "rolls out: deletes pod " + p.Name, do: func(w *World) {
				_ = w.delete(plan.Pods, p.Name, p.UID, "", false)
			}}}
		}
		if !statefulset.PodReady(p) || p.DeletionTimestamp != nil {
			return nil
		}
	}
	return nil
}

// setStatus models updateStatefulSetStatus.
func setStatus(w *World, set *appsv1.StatefulSet) []Step {
	status := statusOf(w, set)
	if fmt.Sprintf("%+v", set.Status) == fmt.Sprintf("%+v", status) {
		return nil
	}
	return []Step{{Who: setController, What: fmt.Sprintf("reports %d of %d ready", status.ReadyReplicas,
		statefulset.Replicas(set)), do: func(w *World) {
		edit(w, plan.StatefulSets, set.Name, func(s *appsv1.StatefulSet) { s.Status = status })
	}}}
}

func statusOf(w *World, set *appsv1.StatefulSet) appsv1.StatefulSetStatus {
	status := appsv1.StatefulSetStatus{ObservedGeneration: set.Generation, UpdateRevision: revision(set),
		CurrentRevision: set.Status.CurrentRevision}
	for _, p := range w.memberPods() {
		status.Replicas++
		if statefulset.PodReady(p) && !statefulset.Done(p) {
			status.ReadyReplicas++
		}
		if p.Labels[appsv1.ControllerRevisionHashLabelKey] == revision(set) && p.DeletionTimestamp == nil {
			status.UpdatedReplicas++
		}
	}
	if status.CurrentRevision == "" ||
		status.UpdatedReplicas == statefulset.Replicas(set) && status.ReadyReplicas == statefulset.Replicas(set) {
		status.CurrentRevision = status.UpdateRevision
	}
	return status
}
