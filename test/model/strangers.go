package model

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

const user = "user"

// disturbances are all faults and acts of strangers that are possible now, while the operation is active.
func (w *World) disturbances() []Step {
	record := w.record()
	if w.faults == 0 || record == nil || !record.Active() {
		return nil
	}
	var steps []Step
	for _, kind := range []func(*World) []Step{crashes, deletions, stolenFinalizers, moverFaults, nodeFaults, edits, late, tornLooks, secondLooks} {
		steps = append(steps, kind(w)...)
	}
	for i := range steps {
		do, what := steps[i].do, steps[i].What
		steps[i].Fault = true
		steps[i].do = func(w *World) { w.happened += what + "; "; do(w) }
	}
	return steps
}

// crashes end an invocation in the middle of its plan. A write that was refused as a conflict, and one whose answer was lost, look the
// same.
func crashes(w *World) []Step {
	var steps []Step
	for i := range w.functions {
		if len(w.functions[i].pending) > 0 {
			steps = append(steps, Step{Who: who(i), What: "crashes", do: func(w *World) { w.functions[i] = function{} }})
		}
	}
	return steps
}

// tornLooks begin a look that reads the set, claims or Jobs before the rest. Pods and volumes come last (shared/kube, observeRest).
func tornLooks(w *World) []Step {
	var steps []Step
	for i, f := range w.functions {
		if len(f.pending) > 0 || f.early != nil || !w.turn(functionNames[i]) {
			continue
		}
		for _, kind := range []plan.Resource{plan.StatefulSets, plan.Claims, plan.Jobs} {
			steps = append(steps, Step{Who: who(i), What: fmt.Sprintf("has read the %s, and reads the rest later", kind),
				do: func(w *World) { w.functions[i].early = w.see(kind) }})
		}
	}
	return steps
}

// secondLooks are of second processes, which write later.
func secondLooks(w *World) []Step {
	var steps []Step
	for i := secondBackupRole; i < functionCount; i++ {
		if f := w.functions[i]; len(f.pending) > 0 || f.early != nil || !w.turn(functionNames[i]) {
			continue
		}
		if writes := writesOf(w.decide(w.observe(), i, 0)); len(writes) > 0 {
			steps = append(steps, Step{Who: who(i), What: "looks", do: func(w *World) { w.functions[i].pending = writes }})
		}
	}
	return steps
}

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

// moverFaults end movers.
func moverFaults(w *World) []Step {
	var steps []Step
	for _, uid := range sortedUIDs(w.processes) {
		is := w.processes[uid]
		end := func(what string, code int32) {
			steps = append(steps, Step{Who: "mover " + string(uid), What: what, do: func(w *World) {
				is.stage, is.code = failed, code
				w.processes[uid] = is
			}})
		}
		if is.target == "" {
			continue
		}
		switch is.stage {
		case first, final:
			end("crashes", moverreport.CodeIO)
		case pinning:
			end("loses its pin", moverreport.CodeKilled)
		case waiting:
			end("crashes", moverreport.CodeIO)
			end("has lost its lease", moverreport.CodeLeaseLost)
		}
	}
	return steps
}

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

// edits of the set: scale, a new template, abort.
func edits(w *World) []Step {
	set := w.set()
	if set.DeletionTimestamp != nil {
		return nil
	}
	change := func(what string, do func(*World, *appsv1.StatefulSet)) Step {
		return Step{Who: user, What: what, do: func(w *World) {
			edit(w, plan.StatefulSets, setName, func(s *appsv1.StatefulSet) {
				s.Generation++
				do(w, s)
			})
		}}
	}
	scale := func(by int32) func(*World, *appsv1.StatefulSet) {
		return func(w *World, s *appsv1.StatefulSet) {
			w.replicas += by
			s.Spec.Replicas = ptr.To(w.replicas)
		}
	}
	steps := []Step{
		change("scales up by one", scale(1)),
		change("applies a new pod template", func(_ *World, s *appsv1.StatefulSet) { s.Spec.Template.Annotations["version"] += "1" }),
	}
	if *set.Spec.Replicas > 0 {
		steps = append(steps, change("scales down by one", scale(-1)))
	}
	if set.Annotations[api.AbortAnnotation] == "" {
		steps = append(steps, change("aborts", func(_ *World, s *appsv1.StatefulSet) {
			s.Generation--
			metav1.SetMetaDataAnnotation(&s.ObjectMeta, api.AbortAnnotation, "true")
		}))
	}
	return steps
}

// late lets the next deadline pass while anything may still be to do: the functions were away.
func late(w *World) []Step {
	next, found := w.deadline()
	if !found {
		return nil
	}
	return []Step{{Who: "clock", What: "the next deadline passes", do: func(w *World) { w.now = next }}}
}
