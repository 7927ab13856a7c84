package model

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// violate stores the violated invariant of the step. Only the first one counts.
func (w *World) violate(format string, args ...any) {
	if w.violation == "" {
		w.violation = fmt.Sprintf(format, args...)
	}
}

// checkStart checks that a member's pod never starts on a volume that lacks data written before.
func (w *World) checkStart(proc process) {
	if w.causedByUser(proc) {
		w.forgetData(proc.claim)
	}
	if on := w.contents[proc.volume]; on.claim != "" || w.hasData(proc.claim) {
		switch {
		case on.claim == "":
			w.violate("pod %s starts on the empty volume %s", proc.pod, proc.volume)
		case on.claim != proc.claim:
			w.violate("pod %s starts on volume %s with data of claim %s", proc.pod, proc.volume, on.claim)
		case !on.current:
			w.violate("pod %s starts on volume %s, which is stale", proc.pod, proc.volume)
		}
		return
	}
	w.contents[proc.volume] = content{claim: proc.claim, current: true} // a new member
}

// forgetData removes the data of a claim from the model.
func (w *World) forgetData(claim string) {
	w.claims = slices.DeleteFunc(slices.Clone(w.claims), func(c string) bool { return c == claim })
	for name, c := range w.contents {
		if c.claim == claim {
			w.contents[name] = content{finished: c.finished}
		}
	}
}

// causedByUser reports whether users caused this start without data: they deleted the claim and the pod that protected it.
func (w *World) causedByUser(proc process) bool {
	if strings.Contains(w.unprotectedDeletes, proc.claim+" ") {
		return true
	}
	ended := []string{"deletes pod " + proc.pod, "finalizer", "scales down", "new pod template", "fails and deletes the pods",
		"deletes StatefulSet"}
	return strings.Contains(w.pastFaults, "deletes claim "+proc.claim) &&
		slices.ContainsFunc(ended, func(what string) bool { return strings.Contains(w.pastFaults, what) })
}

func (w *World) hasData(claim string) bool {
	for _, c := range w.contents {
		if c.claim == claim {
			return true
		}
	}
	return slices.Contains(w.claims, claim)
}

// checkCreation checks that no pod of a held member is created, except after a fault.
func (w *World) checkCreation(name string) {
	record := w.record()
	if record == nil || !record.Active() || w.pastFaults != "" {
		return
	}
	for _, m := range record.Members {
		if fmt.Sprintf("%s-%d", setName, m.Ordinal) == name && (m.Phase == api.MemberFinalPass || m.Phase == api.MemberSwapping) {
			w.violate("pod %s is created while its member is in phase %s", name, m.Phase)
		}
	}
}

// checkAction checks a function's write before it is applied. Functions never write the replica count. They never release a stopped pod
// while one of its claims is missing or not bound.
func (w *World) checkAction(by api.Function, a plan.Action) {
	for _, op := range a.Ops {
		if a.Resource == plan.StatefulSets && op.Path == "/spec/replicas" {
			w.violate("%s writes spec.replicas", by)
		}
	}
	pod := w.pod(a.Name)
	if a.Verb != plan.VerbPatch || a.Resource != plan.Pods || pod == nil || pod.DeletionTimestamp == nil || !statefulset.Held(pod) ||
		!slices.ContainsFunc(a.Words, func(word string) bool { return strings.HasPrefix(word, "-finalizer hold") }) ||
		a.Ops[0].Value != pod.ResourceVersion {
		return
	}
	record := w.record()
	if record == nil {
		return
	}
	for _, m := range record.Members {
		if fmt.Sprintf("%s-%d", setName, m.Ordinal) != a.Name {
			continue
		}
		for _, move := range m.Claims {
			if claim := w.claim(move.Claim); claim == nil || claim.Status.Phase != corev1.ClaimBound ||
				claim.DeletionTimestamp != nil && w.pastFaults == "" {
				w.violate("%s releases pod %s although its claim %s is not bound", by, a.Name, move.Claim)
			}
		}
	}
}

// check returns the violated invariant of the state, or an empty text.
func (w *World) check() string {
	if w.violation != "" {
		return w.violation
	}
	for _, claim := range w.claims {
		if !w.hasCurrentCopy(claim) {
			return "there is no complete and current copy of claim " + claim
		}
	}
	if set := w.set(); set != nil && statefulset.Replicas(set) != w.replicas {
		return fmt.Sprintf("the set has %d replicas, want %d", statefulset.Replicas(set), w.replicas)
	}
	if stoppedPods := w.stoppedPods(); w.rolling && len(stoppedPods) > 1 {
		return fmt.Sprintf("pods %s are stopped at the same time", strings.Join(stoppedPods, " and "))
	}
	return ""
}

func (w *World) hasCurrentCopy(claim string) bool {
	for name, c := range w.contents {
		if c.claim == claim && c.current && w.volume(name) != nil {
			return true
		}
	}
	return false
}

// stoppedPods returns the held members that are terminating.
func (w *World) stoppedPods() []string {
	var names []string
	for _, p := range w.memberPods() {
		if statefulset.Held(p) && p.DeletionTimestamp != nil {
			names = append(names, p.Name)
		}
	}
	return names
}

// checkEnd checks a state without next steps and returns the problem, or an empty text. The operation must have ended, its objects must be
// gone, and the set must serve.
func (w *World) checkEnd() string {
	record := w.record()
	switch {
	case w.set() == nil && !w.setDeleted:
		return "the StatefulSet does not exist"
	case w.set() != nil && record == nil && !w.setDeleted:
		return "the record is gone"
	case record != nil && record.Active() && !w.setDeleted:
		return fmt.Sprintf("the operation is stuck in phase %s: %s", record.Phase, w.record().Message)
	}
	if left := w.leftovers(); len(left) > 0 {
		return "leftovers: " + strings.Join(left, ", ")
	}
	return w.serves()
}

func (w *World) leftovers() []string {
	var left []string
	for k, e := range w.objects {
		finalizers := e.object.GetFinalizers()
		if slices.Contains(finalizers, api.HoldFinalizer) || slices.Contains(finalizers, api.FreezeFinalizer) {
			left = append(left, "a finalizer on "+k.name)
		}
	}
	if w.wroteLate {
		return left
	}
	for _, job := range all[*batchv1.Job](w, plan.Jobs) {
		left = append(left, "job "+job.Name)
	}
	for _, r := range all[*appsv1.ControllerRevision](w, plan.ControllerRevisions) {
		left = append(left, "journal "+r.Name)
	}
	for _, c := range all[*corev1.PersistentVolumeClaim](w, plan.Claims) {
		if c.Labels[api.OperationLabel] != "" {
			left = append(left, "claim "+c.Name)
		}
	}
	slices.Sort(left)
	return left
}

func (w *World) serves() string {
	set := w.set()
	if set == nil {
		return ""
	}
	span := statefulset.Span(set)
	for ordinal := span.Start; ordinal < span.End; ordinal++ {
		pod := w.pod(statefulset.PodName(set, ordinal))
		given := strings.Contains(w.unprotectedDeletes, statefulset.ClaimName(set, "data", ordinal)+" ")
		if !given && (pod == nil || !statefulset.PodReady(pod) || pod.DeletionTimestamp != nil) {
			return fmt.Sprintf("pod %s does not serve", statefulset.PodName(set, ordinal))
		}
	}
	return ""
}
