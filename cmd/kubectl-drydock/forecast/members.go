package forecast

import (
	"cmp"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
)

// addStops completes the document of a resize that stops members.
func (f *Forecast) addStops(d *Document) {
	d.Strategy = f.record.Strategy
	d.Cutover = cmp.Or(f.in.Set.Annotations[api.CutoverAnnotation], api.CutoverAuto)
	d.MemberCheck = f.in.Set.Annotations[api.MemberCheckAnnotation]
	for _, hook := range resources.Hooks {
		if _, requested := f.in.Set.Annotations[hook.Annotation()]; requested {
			d.Hooks = append(d.Hooks, hook)
		}
	}
	d.Members, d.Budgets = f.members(), f.budgets()
	d.Stop = f.stopOf(d.Members, d.Claims)
	f.addWarnings(d)
	if f.suggestsRolling(d) {
		d.Suggestions = append(d.Suggestions, fmt.Sprintf("the set has %d replicas and PodDisruptionBudget %s. If its members replicate "+
			"their data, %s=%s stops one member at a time, and the others keep serving",
			statefulset.Replicas(f.in.Set), d.Budgets[0].Name, api.StrategyAnnotation, api.StrategyRolling))
	}
}

// members returns the members that stop, in the order of their moves. If they stop together, the highest ordinal is first.
func (f *Forecast) members() []Member {
	var all []Member
	record := f.record.Clone()
	for range record.Members {
		next := resize.NextMember(f.in.Observed, record)
		if f.record.Strategy == api.StrategyWhole {
			next = highestPending(record)
		}
		all = append(all, f.member(next))
		next.Phase = api.MemberMoved
	}
	return all
}

// highestPending returns the pending member with the highest ordinal, or nil. The members of a record are sorted.
func highestPending(record *api.Resize) *api.Member {
	for i := len(record.Members) - 1; i >= 0; i-- {
		if m := &record.Members[i]; m.Phase == api.MemberPending {
			return m
		}
	}
	return nil
}

func (f *Forecast) member(m *api.Member) Member {
	member := Member{Ordinal: m.Ordinal, NoFirstPass: f.whyNoFirstPass(m)}
	if pod := f.in.MemberPod(m.Ordinal); pod != nil {
		member.Pod, member.Node = pod.Name, pod.Spec.NodeName
		member.Ready, member.Primary = statefulset.PodReady(pod), statefulset.IsPrimary(f.in.Set, pod)
	}
	return member
}

// whyNoFirstPass says why no mover can copy while the member's pod runs; empty if one can.
func (f *Forecast) whyNoFirstPass(m *api.Member) string {
	if f.record.GrowsWhileStopped() {
		return "" // nothing is copied
	}
	if f.in.MemberPod(m.Ordinal) == nil && !f.in.Wants(m.Ordinal) {
		return "it has no pod"
	}
	return cmp.Or(resize.NoFirstPass(f.in.Observed, m), f.noAttachSlot(m))
}

// budgets returns the PodDisruptionBudgets that select the set's pods.
func (f *Forecast) budgets() []Budget {
	var all []Budget
	for i := range f.in.Budgets {
		b := &f.in.Budgets[i]
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err == nil && selector.Matches(labels.Set(f.in.Set.Spec.Template.Labels)) {
			all = append(all, Budget{Name: b.Name, Allows: b.Status.DisruptionsAllowed,
				Enforced: f.record.Strategy == api.StrategyRolling})
		}
	}
	return all
}

// suggestsRolling reports whether the set looks replicated and has no strategy annotation. Nothing is suggested for a set whose operator is
// paused, see addWarnings.
func (f *Forecast) suggestsRolling(d *Document) bool {
	_, chosen := f.in.Set.Annotations[api.StrategyAnnotation]
	return !chosen && !d.pausesOwner() && statefulset.Replicas(f.in.Set) >= 3 && len(d.Budgets) > 0
}

// addWarnings adds consequences that may surprise the user.
func (f *Forecast) addWarnings(d *Document) {
	if d.Recreate {
		d.Warnings = append(d.Warnings, "from the first stop on, the API server refuses any apply of a manifest with the old "+
			"volumeClaimTemplates, including its other changes. If the cluster takes edited manifests as requests, an old manifest with a larger "+
			"size makes the volumes larger again. Update the manifest when the resize has ended")
	}
	rolling := f.record.Strategy == api.StrategyRolling
	for _, b := range d.Budgets {
		if rolling && b.Allows < 1 {
			d.Warnings = append(d.Warnings, fmt.Sprintf("PodDisruptionBudget %s allows no member to stop now: the resize would wait until it "+
				"does", b.Name))
		}
	}
	if rolling && statefulset.Ordered(f.in.Set) {
		d.Warnings = append(d.Warnings, "podManagementPolicy is OrderedReady: if another pod is lost while a member is stopped, Kubernetes "+
			"replaces it only after the member has started. Drydock then starts the member at once, on its old volumes")
	}
	if rolling && d.pausesOwner() {
		d.Warnings = append(d.Warnings, fmt.Sprintf("%s %s stays paused until the last member has moved. Meanwhile its operator makes no member "+
			"that starts again a part of the cluster, and does not fail over. If the members cannot do that by themselves, a member that has moved "+
			"misses later writes: let all members stop together, with the strategy %s", d.Owner.Kind, d.Owner.Name,
			api.StrategyWhole))
	}
	warned := false // of a stop that becomes longer than max-stop allows. All members have about the same volumes
	for _, m := range d.Members {
		if m.Pod == "" || f.record.GrowsWhileStopped() {
			continue
		}
		recorded := f.record.Member(m.Ordinal)
		limit, short := resize.StopTooShort(f.in.Set, f.record.Strategy, recorded)
		minutes := int(resize.WholeCopy(recorded).Minutes())
		undone := fmt.Sprintf("about %d min if the volumes are full. It would be cancelled after %s, so it does not begin: raise %s", minutes,
			2*limit, api.MaxStopAnnotation)
		switch {
		case m.NoFirstPass != "" && short:
			d.Warnings = append(d.Warnings, fmt.Sprintf("pod %s gets no first pass (%s): its stop lasts as long as the whole copy, %s", m.Pod,
				m.NoFirstPass, undone))
		case m.NoFirstPass != "":
			d.Warnings = append(d.Warnings, fmt.Sprintf("pod %s gets no first pass (%s): its stop lasts as long as the whole copy", m.Pod,
				m.NoFirstPass))
		case short && !warned:
			warned = true
			d.Warnings = append(d.Warnings, fmt.Sprintf("if the node of pod %s cannot attach or mount a volume for a second pod, its stop lasts as "+
				"long as the whole copy, %s", m.Pod, undone))
		}
	}
}
