package progress

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
)

// waiting finds the reasons why an operation waits.
type waiting struct {
	*world.Observed
	record *api.Resize
}

// operation returns the reasons why an active operation as a whole waits.
func (w waiting) operation() []string {
	var waits []string
	switch w.record.Phase {
	case api.Planned:
		waits = append(waits, "pause-owner pauses the owner of the set, or finds none")
	case api.Moving:
		if shut := w.cutover(); shut != "" {
			waits = append(waits, shut)
		}
	case api.Finishing:
		waits = append(waits, "the objects of the operation to be removed")
	case api.Reverting:
		waits = append(waits, "held pods to be released; each member stays on the volumes that it has")
	}
	for i := range w.record.Expansions {
		if e := &w.record.Expansions[i]; !e.Done && w.record.Phase == api.Expanding {
			waits = append(waits, expansion(e))
		}
	}
	if w.record.OwnerProblem != "" {
		waits = append(waits, "the owner stays paused: "+w.record.OwnerProblem)
	}
	return waits
}

// expansion returns the size and the VolumeAttributesClass that a claim waits for.
func expansion(e *api.Expansion) string {
	switch {
	case e.Attributes == nil:
		return fmt.Sprintf("claim %s grows to %s", e.Claim, &e.To)
	case e.To.Cmp(e.From) > 0:
		return fmt.Sprintf("claim %s grows to %s and gets VolumeAttributesClass %s", e.Claim, &e.To, *e.Attributes)
	}
	return fmt.Sprintf("claim %s gets VolumeAttributesClass %s", e.Claim, *e.Attributes)
}

// stillHeld returns why pods are held although the operation has ended.
func (w waiting) stillHeld() []string {
	var waits []string
	for _, pod := range w.Pods {
		ordinal, member := statefulset.ParsePodName(w.Set, pod.Name)
		if !member || !statefulset.Held(pod) {
			continue
		}
		why := "restore takes the finalizer " + api.HoldFinalizer + " off with the next tick"
		if claim := w.MissingClaim(ordinal); claim != "" {
			why = fmt.Sprintf("claim %s is missing, and without it the pod would start on an empty volume. Put its volume back, see "+
				"kubectl get pv -l %s=%s", claim, api.NamespaceLabel, w.Set.Namespace)
		}
		waits = append(waits, fmt.Sprintf("pod %s to be released: %s", pod.Name, why))
	}
	return waits
}

// cutover returns the condition for a stop of members; empty if they may stop, or none is to be stopped.
func (w waiting) cutover() string {
	if !slices.ContainsFunc(w.record.Members, func(m api.Member) bool { return before(m.Phase) }) {
		return ""
	}
	return resize.ShutCutover(w.Observed, w.record)
}

// before reports whether a member of the phase is still to be stopped.
func before(phase api.MemberPhase) bool {
	return phase == api.MemberPending || phase == api.MemberCopying || phase == api.MemberWaiting
}

// of returns the reason why the member waits.
func (w waiting) of(m *api.Member) string {
	if m.Stalled != "" {
		return "its mover: " + m.Stalled
	}
	pod := w.MemberPod(m.Ordinal)
	name := statefulset.PodName(w.Set, m.Ordinal)
	switch m.Phase {
	case api.MemberPending:
		return "its turn"
	case api.MemberCopying:
		return "the first passes beside its pod"
	case api.MemberWaiting:
		return "its turn" // why it has not come, restore writes into the message of the operation
	case api.MemberStopping:
		switch {
		case m.Locked:
			return "the name of pod " + name + " to be free"
		case pod != nil:
			return w.MayWrite(m, pod)
		}
		return "pod " + name
	case api.MemberFinalPass:
		return "the final pass"
	case api.MemberGrowing:
		return w.growth(m)
	case api.MemberSwapping:
		return w.swap(m)
	case api.MemberStarting:
		if m.Ready != nil {
			return "its Job after-member"
		}
		if w.checks() && pod != nil && pod.UID != m.Pod && statefulset.PodReady(pod) {
			return "pod " + name + " to have caught up, as its member check says"
		}
		return "pod " + name + " to be ready"
	}
	return ""
}

// growth returns the reason why a held member's volumes have not grown yet.
func (w waiting) growth(m *api.Member) string {
	for _, move := range m.Claims {
		switch {
		case move.Moved:
		case w.Attached(move.OldVolume):
			return "volume " + move.OldVolume + " to be detached"
		default:
			return fmt.Sprintf("claim %s to grow to %s", move.Claim, &move.To)
		}
	}
	return "its volumes to grow"
}

// swap returns the reason why a held member does not have all of its new volumes yet.
func (w waiting) swap(m *api.Member) string {
	for _, move := range m.Claims {
		claim := w.Claim(move.Claim)
		if claim == nil {
			return "claim " + move.Claim + " to be created again, on the volume that is reserved for it"
		}
		if held := statefulset.HeldByOthers("claim", claim); held != "" {
			return held
		}
		switch {
		case claim.DeletionTimestamp != nil:
			return "claim " + claim.Name + " to be replaced"
		case claim.Spec.VolumeName == "" || claim.Status.Phase != corev1.ClaimBound:
			return "claim " + claim.Name + " to be bound"
		}
	}
	if !slices.ContainsFunc(m.Claims, func(move api.Move) bool { return !move.Moved }) {
		return "the members that start together with it"
	}
	return "its new volumes to be bound"
}

// checks reports whether members are asked whether they have caught up.
func (w waiting) checks() bool {
	_, asked := w.Set.Annotations[api.MemberCheckAnnotation]
	return asked
}
