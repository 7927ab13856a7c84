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

// faultSteps returns all possible faults and acts of users, while the operation is active.
func (w *World) faultSteps() []Step {
	record := w.record()
	if w.faults == 0 || record == nil || !record.Active() {
		return nil
	}
	var steps []Step
	for _, kind := range []func(*World) []Step{
		crashes, deletions, removedFinalizers, moverFaults, nodeFaults, edits, missedDeadlines, earlyReads, secondProcesses,
	} {
		steps = append(steps, kind(w)...)
	}
	for i := range steps {
		do, what := steps[i].do, steps[i].What
		steps[i].Fault = true
		steps[i].do = func(w *World) { w.pastFaults += what + "; "; do(w) }
	}
	return steps
}

// crashes ends an invocation in the middle of its plan. This also covers a conflict and a lost response.
func crashes(w *World) []Step {
	var steps []Step
	for i := range w.functions {
		if len(w.functions[i].pending) > 0 {
			steps = append(steps, Step{Who: who(i), What: "crashes", do: func(w *World) { w.functions[i] = function{} }})
		}
	}
	return steps
}

// earlyReads lets a process read the set, claims or Jobs earlier than the rest. Pods and volumes are always read last (shared/kube,
// observeRest).
func earlyReads(w *World) []Step {
	var steps []Step
	for i, f := range w.functions {
		if len(f.pending) > 0 || f.early != nil || !w.hasWork(functionNames[i]) {
			continue
		}
		for _, kind := range []plan.Resource{plan.StatefulSets, plan.Claims, plan.Jobs} {
			steps = append(steps, Step{Who: who(i), What: fmt.Sprintf("reads %s early", kind),
				do: func(w *World) { w.functions[i].early = w.readKind(kind) }})
		}
	}
	return steps
}

// secondProcesses lets a second process decide; its writes follow later.
func secondProcesses(w *World) []Step {
	var steps []Step
	for i := secondBackupRole; i < functionCount; i++ {
		if f := w.functions[i]; len(f.pending) > 0 || f.early != nil || !w.hasWork(functionNames[i]) {
			continue
		}
		if writes := writesOf(w.decide(w.observe(), i, 0)); len(writes) > 0 {
			steps = append(steps, Step{Who: who(i), What: "decides", do: func(w *World) { w.functions[i].pending = writes }})
		}
	}
	return steps
}

// deletions returns deletions by users: pods, with and without force, claims with a retained volume, Jobs and temporary claims.
func deletions(w *World) []Step {
	var steps []Step
	for _, p := range all[*corev1.Pod](w, plan.Pods) {
		if p.DeletionTimestamp == nil {
			steps = append(steps, Step{Who: user, What: "deletes pod " + p.Name, do: func(w *World) {
				_ = w.delete(plan.Pods, p.Name, "", "", false)
			}})
		}
		if p.DeletionTimestamp == nil || ptr.Deref(p.DeletionGracePeriodSeconds, 0) != 0 {
			steps = append(steps, Step{Who: user, What: "deletes pod " + p.Name + " by force", do: func(w *World) { w.forceDelete(p.Name) }})
		}
	}
	for _, c := range all[*corev1.PersistentVolumeClaim](w, plan.Claims) {
		v := w.volume(c.Spec.VolumeName)
		temporary := strings.HasPrefix(c.Name, "drydock-")
		retained := v != nil && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain
		if c.DeletionTimestamp == nil && (temporary || retained && !w.restoreReleases()) {
			steps = append(steps, Step{Who: user, What: "deletes claim " + c.Name, do: func(w *World) {
				if !w.inUse(c.Name) {
					w.unprotectedDeletes += c.Name + " "
				}
				_ = w.delete(plan.Claims, c.Name, "", "", false)
			}})
		}
	}
	for _, j := range all[*batchv1.Job](w, plan.Jobs) {
		steps = append(steps, Step{Who: user, What: "deletes job " + j.Name, do: func(w *World) {
			_ = w.delete(plan.Jobs, j.Name, "", "", false)
		}})
	}
	if set := w.set(); set.DeletionTimestamp == nil {
		steps = append(steps, Step{Who: user, What: "deletes StatefulSet " + set.Name, do: func(w *World) {
			w.setDeleted = true
			_ = w.delete(plan.StatefulSets, set.Name, "", "", false)
		}},
			Step{Who: user, What: "deletes StatefulSet " + set.Name + " and orphans its pods", do: func(w *World) {
				w.setDeleted = true
				_ = w.delete(plan.StatefulSets, set.Name, "", "", true)
			}})
	}
	return steps
}

// inUse reports whether a member's running or held pod uses the claim. A mover ends with its Job.
func (w *World) inUse(claim string) bool {
	return slices.ContainsFunc(all[*corev1.Pod](w, plan.Pods), func(p *corev1.Pod) bool {
		return statefulset.Mounts(p, claim) && statefulset.IsMemberName(setName, p.Name) && (statefulset.Started(p) || statefulset.Held(p))
	})
}

// restoreReleases reports whether restore has decided to release a pod or a volume. If a user deletes the claim within these milliseconds,
// the claim is lost as it would be without Drydock: while its pod starts, or with its volume.
func (w *World) restoreReleases() bool {
	return slices.ContainsFunc(w.functions[restoreRole].pending,
		func(a plan.Action) bool { return a.Resource == plan.Pods || a.Resource == plan.Volumes })
}

// removedFinalizers returns the removal of Drydock's finalizers by a user.
func removedFinalizers(w *World) []Step {
	var steps []Step
	for _, kind := range []plan.Resource{plan.Pods, plan.Claims} {
		for _, o := range all[object](w, kind) {
			for _, finalizer := range []string{api.HoldFinalizer, api.FreezeFinalizer} {
				if slices.Contains(o.GetFinalizers(), finalizer) {
					steps = append(steps, Step{Who: user, What: "removes finalizer " + finalizer + " from " + o.GetName(), do: func(w *World) {
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

// moverFaults returns the faults that end a mover.
func moverFaults(w *World) []Step {
	var steps []Step
	for _, uid := range sortedUIDs(w.processes) {
		proc := w.processes[uid]
		end := func(what string, code int32) {
			steps = append(steps, Step{Who: "mover " + string(uid), What: what, do: func(w *World) {
				proc.stage, proc.code = failed, code
				w.processes[uid] = proc
			}})
		}
		if proc.target == "" {
			continue
		}
		switch proc.stage {
		case first, final:
			end("crashes", moverreport.CodeIO)
		case pinning:
			end("loses its pin", moverreport.CodeKilled)
		case waiting:
			end("crashes", moverreport.CodeIO)
			end("loses its lease", moverreport.CodeLeaseLost)
		}
	}
	return steps
}

// nodeFaults lets the node stop reporting while its processes still run. After an administrator removes the node, the pod garbage
// collector fails and deletes its pods (kubernetes pkg/controller/podgc).
func nodeFaults(w *World) []Step {
	if !w.nodeSilent {
		return []Step{{Who: node, What: "stops reporting", do: func(w *World) { w.nodeSilent = true }}}
	}
	return []Step{{Who: "pod garbage collector", What: "fails and deletes the pods of " + node, do: func(w *World) {
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

// edits returns changes of the set by a user: scaling, a new pod template, an abort.
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
	steps := []Step{change("scales up by one", scale(1)),
		change("applies a new pod template", func(_ *World, s *appsv1.StatefulSet) { s.Spec.Template.Annotations["version"] += "1" })}
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

// missedDeadlines lets the next deadline pass while other steps are still possible, as if the functions had not run for a while.
func missedDeadlines(w *World) []Step {
	next, found := w.deadline()
	if !found {
		return nil
	}
	return []Step{{Who: "clock", What: "the next deadline passes", do: func(w *World) { w.now = next }}}
}
