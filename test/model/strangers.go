package model

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/plan"
)

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
