package restore

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
)

// Input is everything that Decide depends on.
type Input struct {
	*world.Observed
	Namespace string
	Settings  api.Settings
	// Waited is how long this event has waited for the same thing.
	Waited time.Duration
	// WriteRefused is the API server's reason for permanently refusing a write of this event, or empty.
	WriteRefused string
	// CreationRefused is the reason why a dry run of the StatefulSet's creation failed. It is empty if the dry run succeeded or was not
	// needed.
	CreationRefused string
	// WriteFailed is the API server's error for a write of this event that it could not carry out, or empty.
	WriteFailed string
	// NamespaceTerminating is true if the namespace is being deleted, so the API server refused to create an object in it.
	NamespaceTerminating bool
	// BudgetRefusal is the reason why a PodDisruptionBudget forbids the stop of a member now. It is empty if the stop is allowed or was
	// not tried.
	BudgetRefusal string
	// Checks holds the answers of pods to the member check: why a pod has not caught up, or empty if it has.
	Checks map[types.UID]string
}

// Decide is pure. Each call plans the next step only; the executor calls it again until nothing is left to do.
func Decide(in Input) plan.Plan {
	p, _ := decide(in)
	return p
}

// decide returns the plan, and the pods that must answer the member check first. With their answers, decide is called again.
func decide(in Input) (plan.Plan, []*corev1.Pod) {
	if in.NamespaceTerminating {
		return releaseForNamespaceDeletion(in), nil
	}
	record, err := in.Record()
	if err != nil {
		return plan.Noop(api.StatusInvalid), nil // detect-resize reports it on the set
	}
	if p, taken := recoverLost(in, record); taken {
		return p, nil
	}
	if record == nil {
		return handleIdle(in, record), nil
	}
	if in.WriteFailed != "" && !operation.Overdue(record, in.Now) {
		return plan.Noop(api.Rejected), nil // the event fails and is delivered again
	}
	switch record.Phase {
	case api.Moving, api.Reverting, api.Finishing:
		if in.Set.DeletionTimestamp != nil {
			return handleTerminatingSet(in, record), nil
		}
		return continueOperation(in, record)
	}
	return handleIdle(in, record), nil
}

// continueOperation continues the operation of the record if its journal agrees with the record.
func continueOperation(in Input, record *api.Resize) (plan.Plan, []*corev1.Pod) {
	if record.Phase == api.Moving && in.Journal(record.Operation) == nil && record.Set.UID != "" && len(record.Members) > 0 {
		return plan.Noop(api.NotOurPhase), nil // backup writes the journal first
	}
	if problem := journalConflict(in, record); problem != "" {
		return failUntrusted(in, record, problem), nil
	}
	in = confineVolumes(in, record.Operation)
	if record.Set.UID == "" {
		return recordIdentity(in, record), nil
	}
	switch record.Phase {
	case api.Reverting:
		return handleReverting(in, record), nil
	case api.Finishing:
		return handleFinishing(in, record), nil
	}
	return handleMoving(in, record)
}

// releaseForNamespaceDeletion removes Drydock's finalizers, because they would block the deletion of the namespace. The namespace
// controller deletes the pods first and waits until they are gone (kubernetes pkg/controller/namespace/deletion). No pod can start on an
// empty volume, because nothing can be created in a terminating namespace. The volumes stay; retire finds them by their links.
func releaseForNamespaceDeletion(in Input) plan.Plan {
	var actions []plan.Action
	for _, pod := range in.Pods {
		if statefulset.Held(pod) {
			actions = append(actions, release(pod)...)
		}
	}
	for _, claim := range in.Claims {
		if claim.DeletionTimestamp != nil {
			actions = append(actions, plan.PatchOf(plan.Claims, claim).RemoveFinalizer(api.SwitchFinalizer).Actions()...)
		}
	}
	if len(actions) == 0 {
		return plan.Noop(api.NamespaceTerminating)
	}
	return plan.Do(api.NamespaceTerminating, actions...)
}

// handleIdle handles a set without an active operation. It releases pods and volumes that earlier operations left.
func handleIdle(in Input, record *api.Resize) plan.Plan {
	releases, warnings := staleHoldReleases(in, record)
	if len(releases) > 0 {
		return plan.Do(api.CleaningUp, in.ifSetUnchanged(releases)...)
	}
	p := retire(in, record)
	if p.Kind != plan.KindDo && len(warnings) > 0 {
		return plan.Do(api.CleaningUp, warnings...)
	}
	return p
}

// staleHoldReleases returns the release of each held pod that no member of an active operation needs. Either its operation ended before
// the release, or the pod is a lock that is no longer needed. Such a pod would stay Terminating for ever. A pod with a missing claim
// stays held, because without the claim it would start on an empty volume; the user gets a warning.
func staleHoldReleases(in Input, record *api.Resize) (releases, warnings []plan.Action) {
	for _, pod := range in.Pods {
		link, err := api.LoadLink(pod)
		if !blocksStart(pod) || err != nil || link == nil || link.Role != api.RoleHeld || link.Member == nil {
			continue
		}
		active := record.Active() && record.Operation == link.Operation
		if active && holdsMember(record.Member(*link.Member), pod) || !active && in.Journal(link.Operation) != nil {
			continue
		}
		if active && locksForMissingClaim(in, record.Member(*link.Member), pod) {
			continue
		}
		if missing := in.MissingClaim(*link.Member); missing != "" {
			message := fmt.Sprintf("pod %s is still held by operation %s, which has ended: claim %s is missing, and without it the pod "+
				"would "+
				"start on an empty volume. Find its volume with kubectl get pv -l %s=%s, then create the claim on it",
				pod.Name, link.Operation, missing, api.NamespaceLabel, in.Namespace)
			warnings = append(warnings, warnOnSet(in, api.ClaimLost, message))
			continue
		}
		if !in.mustStayHeld(pod) {
			releases = append(releases, release(pod)...)
		}
	}
	return releases, warnings
}

// ifSetUnchanged puts a check of the set before writes that depend on its record but do not write to the set. Other objects are read
// after the set. So a new hold, for example, may come from another process that has already stored a newer record.
func (in Input) ifSetUnchanged(actions []plan.Action) []plan.Action {
	if in.Set == nil {
		return actions
	}
	return append([]plan.Action{plan.CheckUnchanged(plan.StatefulSets, in.Set)}, actions...)
}

// locksForMissingClaim reports whether the pod locks the name of a starting member while one of its claims is missing, see
// keptOnlyByPins.
func locksForMissingClaim(in Input, member *api.Member, pod *corev1.Pod) bool {
	return member != nil && member.Phase == api.MemberStarting && resources.IsLockPod(pod) && in.MissingClaim(member.Ordinal) != ""
}

// holdsMember reports whether the member is stopped and this pod keeps it stopped. During the swap, a lock may have replaced a pod that
// lost its hold, see lockName.
func holdsMember(member *api.Member, pod *corev1.Pod) bool {
	if member == nil {
		return false
	}
	switch member.Phase {
	case api.MemberStopping, api.MemberFinalPass, api.MemberGrowing, api.MemberSwapping, api.MemberStarting:
		return member.Pod == pod.UID || member.Locked || member.Phase == api.MemberSwapping && resources.IsLockPod(pod)
	}
	return false
}

// heldPod returns the member's pod that was held for this stop, or nil if it is gone or no longer held.
func (in Input) heldPod(member *api.Member) *corev1.Pod {
	pod := in.MemberPod(member.Ordinal)
	if pod == nil || pod.UID != member.Pod || !statefulset.Held(pod) {
		return nil
	}
	return pod
}
