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

// waitReasons finds the reasons why an operation and its members wait. They complete the words "waits for: ".
type waitReasons struct {
	*world.Observed
	record *api.Resize
}

// operationReasons returns why an active operation as a whole waits.
func (w waitReasons) operationReasons() []string {
	var waits []string
	switch phase := w.record.Phase; {
	case w.record.Reason == api.TurnWaits:
		waits = append(waits, "movers that other resizes use now")
	case phase == api.Planned:
		waits = append(waits, "pause-owner to pause the owner of the set, if it has one")
	case phase == api.Moving:
		if closed := w.cutover(); closed != "" {
			waits = append(waits, closed)
		}
	case phase == api.Finishing:
		waits = append(waits, "the objects of the operation to be removed")
	case phase == api.Reverting:
		if slices.ContainsFunc(w.Pods, statefulset.Held) {
			waits = append(waits, "held pods to be released; each member keeps its present volumes")
		} else {
			waits = append(waits, "the objects of the operation to be removed; each member keeps its present volumes")
		}
	}
	for i := range w.record.Expansions {
		if e := &w.record.Expansions[i]; !e.Done && w.record.Phase == api.Expanding {
			waits = append(waits, expansionReason(e))
		}
	}
	return waits
}

// ownerReasons returns why the owner stays paused although the operation no longer needs it, also after its end.
func (w waitReasons) ownerReasons() []string {
	if w.record == nil || w.record.OwnerProblem == "" {
		return nil
	}
	return []string{"the owner to be resumed: " + w.record.OwnerProblem}
}

// expansionReason returns the change of a claim that the operation waits for.
func expansionReason(e *api.Expansion) string {
	switch {
	case e.Attributes == nil:
		return fmt.Sprintf("claim %s to grow to %s", e.Claim, &e.To)
	case e.To.Cmp(e.From) > 0:
		return fmt.Sprintf("claim %s to grow to %s and to get VolumeAttributesClass %s", e.Claim, &e.To, *e.Attributes)
	}
	return fmt.Sprintf("claim %s to get VolumeAttributesClass %s", e.Claim, *e.Attributes)
}

// heldPodReasons returns why pods are still held after the end of the operation.
func (w waitReasons) heldPodReasons() []string {
	var waits []string
	for _, pod := range w.Pods {
		ordinal, member := statefulset.ParsePodName(w.Set, pod.Name)
		if !member || !statefulset.Held(pod) {
			continue
		}
		why := "restore removes the finalizer " + api.HoldFinalizer + " at the next tick"
		if claim := w.MissingClaim(ordinal); claim != "" {
			why = fmt.Sprintf("claim %s is missing, and without it the pod would start on an empty volume. Create the claim again "+
				"on its old volume, see kubectl get pv -l %s=%s", claim, api.NamespaceLabel, w.Set.Namespace)
		}
		waits = append(waits, fmt.Sprintf("pod %s to be released: %s", pod.Name, why))
	}
	return waits
}

// cutover returns the unmet condition for stopping members. It is empty if members may stop, or if no member has yet to stop.
func (w waitReasons) cutover() string {
	if !slices.ContainsFunc(w.record.Members, func(m api.Member) bool { return stopsLater(m.Phase) }) {
		return ""
	}
	return resize.CutoverObstacle(w.Observed, w.record)
}

// stopsLater reports whether a member in the phase has yet to be stopped.
func stopsLater(phase api.MemberPhase) bool {
	return phase == api.MemberPending || phase == api.MemberCopying || phase == api.MemberWaiting
}

// startReason returns why the member is not copied, or not stopped, yet.
func (w waitReasons) startReason(m *api.Member) string {
	for _, other := range w.record.Members {
		pod := statefulset.PodName(w.Set, other.Ordinal)
		switch {
		case slices.Contains([]api.MemberPhase{m.Phase, api.MemberPending, api.MemberMoved, api.MemberKept}, other.Phase):
		case w.record.Strategy == api.StrategyRolling:
			return "pod " + pod + " to be moved"
		case other.Phase == api.MemberCopying:
			return "the first passes beside pod " + pod + ", because all members stop together"
		}
	}
	if m.Phase == api.MemberPending {
		return "the start of its move"
	}
	return "its stop" // the message of the operation contains the details
}

// memberReason returns why the member waits; "" if it does not wait.
func (w waitReasons) memberReason(m *api.Member) string {
	if m.Stalled != "" {
		return "its mover: " + m.Stalled
	}
	pod := w.MemberPod(m.Ordinal)
	name := statefulset.PodName(w.Set, m.Ordinal)
	switch m.Phase {
	case api.MemberPending, api.MemberWaiting:
		return w.startReason(m)
	case api.MemberCopying:
		return "the first passes beside its pod"
	case api.MemberStopping:
		switch {
		case m.Locked:
			return "the name of pod " + name + " to become free"
		case pod != nil:
			if why := w.MayWrite(m, pod); why != "" {
				return "the end of its processes: " + why
			}
			return ""
		}
		return "pod " + name
	case api.MemberFinalPass:
		return "the final pass"
	case api.MemberGrowing:
		return w.growthReason(m)
	case api.MemberSwapping:
		return w.swapReason(m)
	case api.MemberStarting:
		if m.ReadyAt != nil {
			return "its Job after-member"
		}
		if w.hasMemberCheck() && pod != nil && pod.UID != m.Pod && statefulset.PodReady(pod) {
			return "pod " + name + " to catch up, according to its member check"
		}
		return "pod " + name + " to be ready"
	}
	return ""
}

// growthReason returns why the volumes of a held member have not grown yet.
func (w waitReasons) growthReason(m *api.Member) string {
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

// swapReason returns why a held member does not have all its new volumes yet.
func (w waitReasons) swapReason(m *api.Member) string {
	for _, move := range m.Claims {
		claim := w.Claim(move.Claim)
		if claim == nil {
			return "claim " + move.Claim + " to be created again on its reserved volume"
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
		return "the other members that start with it"
	}
	return "its new volumes to be bound"
}

// hasMemberCheck reports whether the set has a member check, which asks members whether they have caught up.
func (w waitReasons) hasMemberCheck() bool {
	_, found := w.Set.Annotations[api.MemberCheckAnnotation]
	return found
}
