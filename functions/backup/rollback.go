package backup

import (
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
)

// words name an operation in messages: podKind are the pods to look at.
type words struct{ work, podKind, stopped, again, done string }

// wording returns the words for the operation: a rollback copies nothing.
func wording(status *api.Resize) words {
	if status.IsRollback() {
		return words{work: "stopping the set", podKind: "set's", stopped: "stopped for the rollback", again: "it is stopped again",
			done: "the set is stopped, its claims get their old volumes back"}
	}
	return words{work: "the copy", podKind: "mover", stopped: "being copied", again: "it is stopped and copied again",
		done: "every copy is verified, the claims are switched to the new volumes"}
}

// returningLink is the link of an old volume that is to come back. It says whose the volume was, in case it does not.
func returningLink(in Input, status *api.Resize, part api.ClaimStatus) api.Link {
	link := linkOf(in, status, part, api.RoleReturning)
	is, err := api.LoadLink(in.Volume(part.NewVolume))
	switch {
	case err != nil || is == nil: // comesBack has seen it
	case is.Operation == status.Operation && is.Role == api.RoleReturning:
		return *is
	case is.Operation != status.Operation:
		link.Before = is.Operation
	}
	return link
}

// giveUp has restore give the set back. One of which half is rolled back stays at zero instead, until what is in the way is mended.
func giveUp(in Input, status *api.Resize, why api.Reason, message string) plan.Plan {
	if !status.HalfBack() {
		next := operation.RollBack(status, in.Now, in.Settings.SwitchTimeout, why, message)
		return plan.Do(why, operation.Store(in.Set, next).Unannotate(api.AbortAnnotation).Actions()...)
	}
	next := status.Clone()
	next.Phase, next.FailedAt, next.Reason, next.Finished, next.Deadline = api.Failed, api.Switching, why, operation.Moment(in.Now), nil
	next.Message = message + ". Some claims have their old volumes back and others not, so the set stays at zero; every volume is kept, and " +
		"the annotation " + api.RetryAnnotation + " goes on"
	patch := toZero(in, operation.Store(in.Set, next))
	return plan.Do(why, append(patch.Actions(), operation.NoteOf(in.Set, next, true))...).Then(events.OperationFailed, next.Operation)
}

// comesBack reports whether the claim's old volume is there, and was left behind of this very claim: a document that names
// another volume was not written by Drydock.
func comesBack(in Input, status *api.Resize, part api.ClaimStatus) bool {
	volume := in.Volume(part.NewVolume)
	if volume == nil || volume.Status.Phase != corev1.VolumeReleased {
		return false
	}
	link, err := api.LoadLink(volume)
	switch {
	case err != nil || link == nil || link.Namespace != in.Set.Namespace || link.Set.Name != in.Set.Name || link.Claim != part.Name:
		return false
	case link.Role == api.RoleReturning:
		return link.Operation == status.Operation
	}
	return link.Role == api.RoleRetired && link.Operation == status.RollsBack
}
