package model

import (
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// nodeFaults: the node stops to report while its processes run on. The garbage collector of pods gives its pods up (kubernetes
// pkg/controller/podgc) once an administrator has removed the node.
func nodeFaults(w *World) []Step {
	if !w.nodeSilent {
		return []Step{{Who: node, What: "stops to report", do: func(w *World) { w.nodeSilent = true }}}
	}
	return []Step{{Who: "pod garbage collector", What: "gives up the pods of " + node, do: func(w *World) {
		for _, p := range all[*corev1.Pod](w, plan.Pods) {
			if p.Spec.NodeName != "" && !statefulset.Done(p) {
				edit(w, plan.Pods, p.Name, func(p *corev1.Pod) {
					p.Status.Phase = corev1.PodFailed
					p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByPodGC"}}
				})
				w.forceDelete(p.Name)
			}
		}
	}}}
}

// nodeReturns is what follows such a fault sooner or later.
func nodeReturns(w *World) []Step {
	if !w.nodeSilent {
		return nil
	}
	return []Step{{Who: node, What: "reports again", do: func(w *World) { w.nodeSilent = false }}}
}
