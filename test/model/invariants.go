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

// breaks notes an invariant that the step has broken; the first counts.
func (w *World) breaks(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
	}
}

// checkStart: no pod of a member ever starts on a volume that lacks data that was written before.
func (w *World) checkStart(is process) {
	if w.forfeits(is) {
		w.giveUp(is.claim)
	}
	if on := w.contents[is.volume]; on.claim != "" || w.hasData(is.claim) {
		switch {
		case on.claim == "":
			w.breaks("pod %s starts on the empty volume %s", is.pod, is.volume)
		case on.claim != is.claim:
			w.breaks("pod %s starts on volume %s with data of claim %s", is.pod, is.volume, on.claim)
		case !on.current:
			w.breaks("pod %s starts on volume %s, which is stale", is.pod, is.volume)
		}
		return
	}
	w.contents[is.volume] = content{claim: is.claim, current: true} // a new member
}

// giveUp forgets the data of a claim.
func (w *World) giveUp(claim string) {
	w.claims = slices.DeleteFunc(slices.Clone(w.claims), func(c string) bool { return c == claim })
	for name, c := range w.contents {
		if c.claim == claim {
			w.contents[name] = content{finished: c.finished}
		}
	}
}

// forfeits reports whether users have brought the start about themselves: they deleted the claim, and the pod that kept it.
func (w *World) forfeits(is process) bool {
	if strings.Contains(w.forfeited, is.claim+" ") {
		return true
	}
	ended := []string{"deletes pod " + is.pod, "finalizer", "scales down", "new pod template", "gives up the pods", "deletes StatefulSet"}
	return strings.Contains(w.happened, "deletes claim "+is.claim) &&
		slices.ContainsFunc(ended, func(what string) bool { return strings.Contains(w.happened, what) })
}

func (w *World) hasData(claim string) bool {
	for _, c := range w.contents {
		if c.claim == claim {
			return true
		}
	}
	return slices.Contains(w.claims, claim)
}

// checkCreation: no pod of a held member is created, unless others have taken the hold off.
func (w *World) checkCreation(name string) {
	record := w.record()
	if record == nil || !record.Active() || w.happened != "" {
		return
	}
	for _, m := range record.Members {
		if fmt.Sprintf("%s-%d", setName, m.Ordinal) == name && (m.Phase == api.MemberFinalPass || m.Phase == api.MemberSwapping) {
			w.breaks("pod %s is created while its member is %s", name, m.Phase)
		}
	}
}

// checkAction looks at a write of a function before it is done: replicas are never written, and no stopped pod is released of which a
// claim is missing or not bound.
func (w *World) checkAction(by api.Function, a plan.Action) {
	for _, op := range a.Ops {
		if a.Resource == plan.StatefulSets && op.Path == "/spec/replicas" {
			w.breaks("%s writes the replicas", by)
		}
	}
	pod := w.pod(a.Name)
	if a.Verb != plan.VerbPatch || a.Resource != plan.Pods || pod == nil || pod.DeletionTimestamp == nil || !statefulset.Held(pod) ||
		!slices.ContainsFunc(
			a.Words,
			func(word string) bool { return strings.HasPrefix(word, "-finalizer hold") },
		) || a.Ops[0].Value != pod.ResourceVersion {
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
				claim.DeletionTimestamp != nil && w.happened == "" {
				w.breaks("%s releases pod %s without its claim %s", by, a.Name, move.Claim)
			}
		}
	}
}

// check returns the invariant that does not hold in the state; empty if all do.
func (w *World) check() string {
	if w.broken != "" {
		return w.broken
	}
	for _, claim := range w.claims {
		if !w.hasCurrent(claim) {
			return "there is no whole, current copy of claim " + claim
		}
	}
	if set := w.set(); set != nil && statefulset.Replicas(set) != w.replicas {
		return fmt.Sprintf("the set has %d replicas, and %d were asked for", statefulset.Replicas(set), w.replicas)
	}
	if away := w.away(); w.rolling && len(away) > 1 {
		return fmt.Sprintf("pods %s are away at once", strings.Join(away, " and "))
	}
	return ""
}

func (w *World) hasCurrent(claim string) bool {
	for name, c := range w.contents {
		if c.claim == claim && c.current && w.volume(name) != nil {
			return true
		}
	}
	return false
}

// away are the members that have been told to stop and are held.
func (w *World) away() []string {
	var names []string
	for _, p := range w.memberPods() {
		if statefulset.Held(p) && p.DeletionTimestamp != nil {
			names = append(names, p.Name)
		}
	}
	return names
}

// rest returns what is wrong with a state in which nothing is left to do; empty if the operation has ended, nothing of it is left, and the
// set serves.
func (w *World) rest() string {
	record := w.record()
	switch {
	case w.set() == nil && !w.gone:
		return "the StatefulSet does not exist"
	case w.set() != nil && record == nil && !w.gone:
		return "the record is gone"
	case record != nil && record.Active() && !w.gone:
		return fmt.Sprintf("the operation is %s and nothing goes on: %s", record.Phase, w.record().Message)
	}
	if left := w.leftovers(); len(left) > 0 {
		return "left behind: " + strings.Join(left, ", ")
	}
	return w.serves()
}

func (w *World) leftovers() []string {
	var left []string
	for k, e := range w.objects {
		finalizers := e.object.GetFinalizers()
		if slices.Contains(finalizers, api.HoldFinalizer) || slices.Contains(finalizers, api.SwitchFinalizer) {
			left = append(left, "a finalizer on "+k.name)
		}
	}
	if w.late {
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
		given := strings.Contains(w.forfeited, statefulset.ClaimName(set, "data", ordinal)+" ")
		if !given && (pod == nil || !statefulset.PodReady(pod) || pod.DeletionTimestamp != nil) {
			return fmt.Sprintf("pod %s does not serve", statefulset.PodName(set, ordinal))
		}
	}
	return ""
}
