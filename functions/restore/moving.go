package restore

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moving"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// handleMoving plans the next step of each member. Held members come before waiting members, because they are down. It also returns the
// pods whose answers to the member check are missing.
func handleMoving(in Input, record *api.Resize) (plan.Plan, []*corev1.Pod) {
	if why, message := reasonToGiveUp(in, record); why != "" {
		return revert(in, record, why, message), nil
	}
	if orders := withdrawOrder(in, record); len(orders) > 0 && !in.needsReplacement(record) {
		return plan.Do(api.SwapRunning, in.ifSetUnchanged(orders)...), nil
	}
	if releases, _ := staleHoldReleases(in, record); len(releases) > 0 { // the warnings follow when the operation ends
		return plan.Do(api.CleaningUp, in.ifSetUnchanged(releases)...), nil
	}
	w := &work{Input: in, Work: moving.Begin(record)}
	for i := range w.Record.Members {
		member := &w.Record.Members[i]
		switch member.Phase {
		case api.MemberStopping:
			w.stopping().handleStopping(member)
		case api.MemberFinalPass:
			w.stopping().handleFinalPass(member)
		case api.MemberGrowing:
			w.swapping().handleGrowing(member)
		case api.MemberSwapping:
			w.swapping().handleSwapping(member)
		case api.MemberStarting:
			w.starting().handleStarting(member)
		}
	}
	if w.idle() {
		w.gate().stopWaitingMembers()
	}
	if orders := withdrawOrder(in, record); len(orders) > 0 && w.override.Kind == "" { // the order must not be carried out now
		w.Do(api.SwapRunning, orders...)
	}
	return w.plan(), w.podsToAsk
}

// reasonsToGiveUp are checked in this order. The first one with a message for the user ends the operation.
var reasonsToGiveUp = []struct {
	reason  api.Reason
	message func(in Input, record *api.Resize) string
}{
	{api.Aborted, abortedByUser},
	{api.RecreateRefused, recreationRefused},
	{api.Rejected, stepRefusedForLong},
	{api.DeadlineExceeded, stepFailed},
	{api.ClaimLost, claimLostDuringStop},
	{api.ClaimLost, claimLeavesWithPod},
	{api.ClaimEnlarged, claimOutgrewCopy},
	{api.DeadlineExceeded, deadlinePassed},
}

// reasonToGiveUp returns why the operation must be given up, with the message for the user, or nothing.
func reasonToGiveUp(in Input, record *api.Resize) (api.Reason, string) {
	for _, r := range reasonsToGiveUp {
		if message := r.message(in, record); message != "" {
			return r.reason, message
		}
	}
	return "", ""
}

func abortedByUser(in Input, record *api.Resize) string {
	if !operation.Aborted(in.Set) {
		return ""
	}
	return operation.AbortWords(in.Set) + "moved members stay on their new volumes, the others on their old ones" +
		operation.GrowthContinues(record, in.Claim)
}

func recreationRefused(in Input, record *api.Resize) string {
	if in.CreationRefused == "" {
		return ""
	}
	return fmt.Sprintf("the API server would not create StatefulSet %s again: %s. Fix that, then %s", in.Name, in.CreationRefused,
		operation.HowToRetry(in.Namespace, record))
}

func stepRefusedForLong(in Input, record *api.Resize) string {
	if in.Rejected == "" || !operation.Overdue(record, in.Now) {
		return ""
	}
	return fmt.Sprintf("the API server refuses a step: %s. Fix that, then %s", in.Rejected, operation.HowToRetry(in.Namespace, record))
}

func stepFailed(in Input, record *api.Resize) string {
	if in.WriteFailed == "" {
		return ""
	}
	return fmt.Sprintf("the API server fails to carry out a step: %s. Fix that, then %s", in.WriteFailed,
		operation.HowToRetry(in.Namespace, record))
}

func claimLostDuringStop(in Input, record *api.Resize) string {
	claim := lostClaim(in, record)
	if claim == "" {
		return ""
	}
	return fmt.Sprintf("claim %s was deleted or replaced while its pod was stopped, but its volume is kept. Wait until restore has "+
		"re-created the claim on it, then %s", claim, operation.HowToRetry(in.Namespace, record))
}

func claimLeavesWithPod(in Input, record *api.Resize) string {
	claim := terminatingClaim(in, record)
	if claim == "" {
		return ""
	}
	return fmt.Sprintf("claim %s is being deleted, so after a stop its pod would start on an empty volume. The pod keeps running: copy its "+
		"data, then %s", claim, operation.HowToRetry(in.Namespace, record))
}

func claimOutgrewCopy(in Input, record *api.Resize) string {
	enlarged := enlargedClaim(in, record)
	if enlarged == nil {
		return ""
	}
	size := statefulset.VolumeSize(in.Claim(enlarged.Claim))
	return fmt.Sprintf("claim %s was enlarged to %s during the operation, and its copy has only %s. The claim keeps its volume. Correct the "+
		"request if necessary, then %s", enlarged.Claim, &size, &enlarged.To, operation.HowToRetry(in.Namespace, record))
}

func deadlinePassed(in Input, record *api.Resize) string {
	if !operation.Overdue(record, in.Now) {
		return ""
	}
	return operation.TookTooLong(in.Namespace, record, in.Settings.CopyTimeout)
}

// lostClaim returns a claim that was deleted or replaced although its member is being stopped, or empty. The member must not be released
// without the claim, because the StatefulSet controller would create an empty one.
func lostClaim(in Input, record *api.Resize) string {
	for _, member := range record.Members {
		if !canCancelStop(&member) {
			continue
		}
		for _, move := range member.Claims {
			if claim := in.Claim(move.Claim); claim == nil || claim.UID != move.UID || claim.DeletionTimestamp != nil {
				return move.Claim
			}
		}
	}
	return ""
}

// enlargedClaim returns a claim that another client has enlarged since the plan, to more than its copy has, or nil. A swap would take that
// space away. In a rollback the user wants the former size.
func enlargedClaim(in Input, record *api.Resize) *api.Move {
	if record.IsRollback() {
		return nil
	}
	for _, member := range record.Members {
		for i := range member.Claims {
			move := &member.Claims[i]
			claim := in.Claim(move.Claim)
			if move.InPlace || claim == nil || claim.DeletionTimestamp != nil || claim.Spec.VolumeName != move.OldVolume {
				continue
			}
			if size := statefulset.VolumeSize(claim); size.Cmp(move.From) > 0 && size.Cmp(move.To) > 0 {
				return move
			}
		}
	}
	return nil
}

// terminatingClaim returns a claim that another process has deleted, that the operation does not move, and that only its running pod
// keeps; empty if there is none. The pod is not stopped, because the StatefulSet controller would create an empty claim for its
// replacement.
func terminatingClaim(in Input, record *api.Resize) string {
	for _, member := range record.Members {
		pod := in.MemberPod(member.Ordinal)
		if pod == nil || pod.DeletionTimestamp != nil || member.Phase == api.MemberStarting || member.Phase == api.MemberMoved {
			continue
		}
		for _, name := range in.LeavingClaims(member.Ordinal) {
			if record.Move(name) == nil {
				return name
			}
		}
	}
	return ""
}
