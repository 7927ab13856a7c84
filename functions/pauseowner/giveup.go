package pauseowner

import (
	"fmt"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
)

// giveUp ends an operation before it has touched the set. Of a resize, restore clears what was prepared.
func giveUp(in Input, status operation.Record, reason api.Reason, message string) plan.Plan {
	switch record := status.(type) {
	case *api.Resize:
		next := operation.Revert(record, in.Now, in.Settings.SwitchTimeout, reason, message)
		return plan.Do(reason, operation.Store(in.Set, next).Unannotate(api.AbortAnnotation).Actions()...)
	case *api.Sleep:
		next := operation.Fail(record, api.Refused, in.Now, reason, message)
		next.OwnerStops = false
		return plan.Do(reason, append(operation.Store(in.Set, next).Actions(), operation.NoteOf(in.Set, next, true))...).
			Then(events.OperationFailed, next.Operation)
	}
	return plan.Noop(api.NotOurPhase)
}

// refuse gives up an operation whose owner would undo it (I5).
func refuse(in Input, status operation.Record, o Owner, why string, args ...any) plan.Plan {
	return giveUp(in, status, api.OwnerNotPausable, fmt.Sprintf("%s %s controls StatefulSet %s and cannot be paused: %s. Or pause it "+
		"yourself and set the annotation %s=%s on the StatefulSet. %s",
		o.Ref.Kind, o.Ref.Name, in.Set.Name, fmt.Sprintf(why, args...),
		api.OwnerPolicyAnnotation, api.OwnerIgnore, thenRetry(in, status)))
}

// notAllowed says how to allow that the owner is paused. The set's ownerReference allows nothing: its author can name any resource
// of the namespace there.
func notAllowed(in Input, o Owner) string {
	return fmt.Sprintf("it does not allow that. Allow it with kubectl annotate -n %s %s %s %s=%s, or for all owners of the namespace with "+
		"kubectl label namespace %s %s=%s", in.Set.Namespace, o.Resource, o.Ref.Name, api.AllowAnnotation, api.AllowPause,
		in.Set.Namespace, api.PauseOwnersLabel, api.AllowValue)
}

// deletesClaims gives up a sleep in which the operator would scale a set down whose claims go with its replicas.
func deletesClaims(in Input, status operation.Record, o Owner, set string) plan.Plan {
	return giveUp(in, status, api.DeletesClaims, fmt.Sprintf("%s %s stops StatefulSet %s, whose claims are deleted when it is scaled down. "+
		"Set its persistentVolumeClaimRetentionPolicy.whenScaled to Retain. %s", o.Ref.Kind, o.Ref.Name, set, thenRetry(in, status)))
}

// beingDeleted says that the owner is about to go, and with it probably the set.
func beingDeleted(in Input, status operation.Record, o Owner) string {
	return fmt.Sprintf("%s %s, which controls StatefulSet %s, is being deleted. If the StatefulSet is to stay, wait until the owner is gone. "+
		"%s", o.Ref.Kind, o.Ref.Name, in.Set.Name, thenRetry(in, status))
}

// tookTooLong says which owners had not consented at the deadline.
func tookTooLong(in Input, status operation.Record) string {
	return fmt.Sprintf("the owner of StatefulSet %s was not paused within %s. Look at the owner, and at the log of pause-owner. %s",
		in.Set.Name, in.Settings.PlanTimeout, thenRetry(in, status))
}

// thenRetry says how the operation is tried again. A sleep comes again by itself; on a set with a resize the retry annotation is about
// the resize.
func thenRetry(in Input, status operation.Record) string {
	if resize, ok := status.(*api.Resize); ok {
		return "Then " + operation.AskAgain(resize)
	}
	text := fmt.Sprintf("Drydock tries the sleep again after %s", in.Settings.SleepRetry)
	if _, resized := in.Set.Annotations[api.ResizeAnnotation]; resized {
		return text
	}
	return text + ", or at once with the annotation " + api.RetryAnnotation
}
