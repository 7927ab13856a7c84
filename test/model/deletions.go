package model

import (
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// deletions are by users: pods, also by force, claims whose volumes are retained, Jobs and temporary claims.
func deletions(w *World) []Step {
	var steps []Step
	for _, p := range all[*corev1.Pod](w, plan.Pods) {
		if p.DeletionTimestamp == nil {
			steps = append(
				steps,
				Step{Who: user, What: "deletes pod " + p.Name, do: func(w *World) { _ = w.delete(plan.Pods, p.Name, "", "", false) }},
			)
		}
		if p.DeletionTimestamp == nil || ptr.Deref(p.DeletionGracePeriodSeconds, 0) != 0 {
			steps = append(steps, Step{Who: user, What: "deletes pod " + p.Name + " by force", do: func(w *World) { w.forceDelete(p.Name) }})
		}
	}
	for _, c := range all[*corev1.PersistentVolumeClaim](w, plan.Claims) {
		v := w.volume(c.Spec.VolumeName)
		temporary := strings.HasPrefix(c.Name, "drydock-")
		retained := v != nil && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain
		if c.DeletionTimestamp == nil && (temporary || retained && !w.releasing()) {
			steps = append(steps, Step{Who: user, What: "deletes claim " + c.Name, do: func(w *World) {
				if !w.kept(c.Name) {
					w.forfeited += c.Name + " "
				}
				_ = w.delete(plan.Claims, c.Name, "", "", false)
			}})
		}
	}
	for _, j := range all[*batchv1.Job](w, plan.Jobs) {
		steps = append(
			steps,
			Step{Who: user, What: "deletes job " + j.Name, do: func(w *World) { _ = w.delete(plan.Jobs, j.Name, "", "", false) }},
		)
	}
	if set := w.set(); set.DeletionTimestamp == nil {
		steps = append(
			steps,
			Step{
				Who:  user,
				What: "deletes StatefulSet " + set.Name,
				do:   func(w *World) { w.gone = true; _ = w.delete(plan.StatefulSets, set.Name, "", "", false) },
			},
			Step{Who: user, What: "deletes StatefulSet " + set.Name + " and leaves its pods", do: func(w *World) {
				w.gone = true
				_ = w.delete(plan.StatefulSets, set.Name, "", "", true)
			}},
		)
	}
	return steps
}

// kept reports whether the claim is that of a member's pod which runs, or is held. A mover ends with its Job.
func (w *World) kept(claim string) bool {
	return slices.ContainsFunc(all[*corev1.Pod](w, plan.Pods), func(p *corev1.Pod) bool {
		return statefulset.Mounts(p, claim) && statefulset.IsMemberName(setName, p.Name) && (statefulset.Started(p) || statefulset.Held(p))
	})
}

// releasing reports whether restore is about to release a pod or a volume: it has looked already. A claim that is deleted within these
// milliseconds goes as it goes without Drydock: while its pod starts, or with its volume.
func (w *World) releasing() bool {
	return slices.ContainsFunc(
		w.functions[restoreRole].pending,
		func(a plan.Action) bool { return a.Resource == plan.Pods || a.Resource == plan.Volumes },
	)
}

// stolenFinalizers are ours, taken off by somebody else.
func stolenFinalizers(w *World) []Step {
	var steps []Step
	for _, kind := range []plan.Resource{plan.Pods, plan.Claims} {
		for _, o := range all[object](w, kind) {
			for _, finalizer := range []string{api.HoldFinalizer, api.SwitchFinalizer} {
				if slices.Contains(o.GetFinalizers(), finalizer) {
					steps = append(steps, Step{Who: user, What: "takes finalizer " + finalizer + " off " + o.GetName(), do: func(w *World) {
						edit(w, kind, o.GetName(), func(o object) {
							o.SetFinalizers(slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(f string) bool { return f == finalizer }))
						})
					}})
				}
			}
		}
	}
	return steps
}

const user = "user"
