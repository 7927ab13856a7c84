package pauseowner

import (
	"fmt"
	"slices"
	"strings"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
)

// failOperation ends an operation before it has changed the set. For a resize, restore then removes the prepared objects.
func failOperation(in Input, planned operation.Record, reason api.Reason, message string) plan.Plan {
	switch record := planned.(type) {
	case *api.Resize:
		next := operation.Revert(record, in.Now, in.Settings.SwapTimeout, reason, message)
		return plan.Do(reason, operation.Store(in.Set, next).Unannotate(api.AbortAnnotation).Actions()...)
	case *api.Sleep:
		if record.Phase == api.Refused {
			return updateRefusal(in, record, reason, message)
		}
		next := operation.Fail(record, api.Refused, in.Now, reason, message)
		next.OwnerStops, next.RefusalDigest, next.Step = false, operation.RefusalDigest(in.Set), stepOf(reason)
		return plan.Do(reason, append(operation.Store(in.Set, next).Actions(), operation.NoteOf(in.Set, next, true))...).
			Then(events.OperationFailed, next.Operation)
	}
	return plan.Noop(api.NotOurPhase)
}

// stepOf returns what a refused sleep waits for. After any other refusal, idle-timeout tries it again by itself.
func stepOf(reason api.Reason) api.SleepStep {
	switch reason {
	case api.OwnerNotPausable, api.OwnerDeleting, api.DeletesClaims, api.ScalerActive:
		return api.AwaitsOwner
	case api.Rejected:
		return api.AwaitsAdmission
	}
	return ""
}

// updateRefusal stores the cause that a refused sleep has now. An Event reports only another reason.
func updateRefusal(in Input, refused *api.Sleep, reason api.Reason, message string) plan.Plan {
	if refused.Reason == reason && withoutFigures(refused.Message) == withoutFigures(message) {
		return plan.Wait(api.AlreadyRefused, "%s", message)
	}
	next := refused.Clone()
	next.Step, next.Reason, next.Message = stepOf(reason), reason, message
	actions := operation.Store(in.Set, next).Actions()
	if refused.Reason != reason {
		actions = append(actions, operation.NoteOf(in.Set, next, true))
	}
	return plan.Do(reason, actions...)
}

// withoutFigures returns the words of a message that have no digit. Errors of webhooks can have times and ids that differ each time.
func withoutFigures(message string) string {
	words := slices.DeleteFunc(strings.Fields(message), func(word string) bool { return strings.ContainsAny(word, "0123456789") })
	return strings.Join(words, " ")
}

// refuseOwner gives up an operation whose owner would undo it.
func refuseOwner(in Input, planned operation.Record, o Owner, why string, args ...any) plan.Plan {
	return refuseOwnerFor(api.OwnerNotPausable, in, planned, o, why, args...)
}

// refuseOwnerFor gives up an operation for the reason.
func refuseOwnerFor(reason api.Reason, in Input, planned operation.Record, o Owner, why string, args ...any) plan.Plan {
	return failOperation(in, planned, reason,
		fmt.Sprintf("%s %s controls StatefulSet %s and cannot be paused: %s. To pause it "+
			"yourself instead, do so and annotate the StatefulSet with %s=%s. %s",
			o.Ref.Kind, o.Ref.Name, in.Set.Name, fmt.Sprintf(why, args...),
			api.OwnerPolicyAnnotation, api.OwnerIgnore, retryHint(in, planned)))
}

// consentHint returns how to allow Drydock to pause owners. The set's ownerReference does not count as consent, because its author can
// name any resource of the namespace.
func consentHint(in Input) string {
	return "the namespace does not allow a pause. Allow it with " + owners.ConsentCommand(in.Set.Namespace)
}

// refuseClaimDeletion gives up a sleep if the operator's scale down would delete the set's claims.
func refuseClaimDeletion(in Input, planned operation.Record, o Owner, set string) plan.Plan {
	return failOperation(in, planned, api.DeletesClaims, fmt.Sprintf("%s %s would scale down StatefulSet %s, which deletes its claims. "+
		"Set its persistentVolumeClaimRetentionPolicy.whenScaled to Retain. %s", o.Ref.Kind, o.Ref.Name, set, retryHint(in, planned)))
}

// ownerDeletedMessage says that the owner is being deleted, and probably the set with it.
func ownerDeletedMessage(in Input, planned operation.Record, o Owner) string {
	return fmt.Sprintf("%s %s, which controls StatefulSet %s, is being deleted. To keep the StatefulSet, wait until the owner is gone. "+
		"%s", o.Ref.Kind, o.Ref.Name, in.Set.Name, retryHint(in, planned))
}

// requestOnOwnerMessage says that the request must not stand on the owner.
func requestOnOwnerMessage(in Input, planned operation.Record, o Owner) string {
	return fmt.Sprintf("the request is on %s %s, too, and would begin again with each StatefulSet that its operator creates. Remove it "+
		"there: kubectl annotate -n %s %s %s %s-. On StatefulSet %s it stays. %s", o.Ref.Kind, o.Ref.Name, in.Set.Namespace, o.Resource,
		o.Ref.Name, api.ResizeAnnotation, in.Set.Name, retryHint(in, planned))
}

// timeoutMessage says that the owner was not paused before the deadline.
func timeoutMessage(in Input, planned operation.Record) string {
	return fmt.Sprintf("the owner of StatefulSet %s was not paused within %s. Check the owner and the log of pause-owner. %s",
		in.Set.Name, in.Settings.PlanTimeout, retryHint(in, planned))
}

// retryHint returns how the operation is tried again. Drydock retries a sleep by itself. On a set with a resize, the retry annotation
// applies to the resize.
func retryHint(in Input, planned operation.Record) string {
	if resize, ok := planned.(*api.Resize); ok {
		return "Then " + operation.HowToRetry(in.Set.Namespace, resize)
	}
	text := fmt.Sprintf("The sleep begins by itself when this is corrected, at the latest %s later",
		max(in.Settings.SleepRetry, operation.RefusalInterval))
	if api.WantsSizes(in.Set) {
		return text
	}
	return text + ", or immediately with " + operation.RetryCommand(in.Set)
}
