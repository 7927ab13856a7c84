package restore

import (
	"slices"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
)

// revert gives the operation up. Held pods are released, and each member stays on its present volumes.
func revert(in Input, record *api.Resize, why api.Reason, message string) plan.Plan {
	next := operation.Revert(record, in.Now, in.Settings.SwapTimeout, why, message)
	actions := append(withdrawOrder(in, record), operation.Store(in.Set, next).Actions()...)
	return plan.Do(why, append(actions, operation.NoteOf(in.Set, next, true))...)
}

// enterFinishing begins the removal of the operation's objects.
func enterFinishing(in Input, record *api.Resize) plan.Plan {
	next := operation.Enter(record, api.Finishing, in.Now, in.Settings.SwapTimeout)
	next.Reason, next.Message = api.ClaimsSwapped, movedMessage(next)
	return plan.Do(api.ClaimsSwapped, operation.Store(in.Set, next).Actions()...)
}

// allMoved reports whether every member has its new volumes.
func allMoved(record *api.Resize) bool {
	return !slices.ContainsFunc(record.Members, func(m api.Member) bool { return m.Phase != api.MemberMoved })
}

// conclude stores the end of the operation, then makes an Event and announces the end to the functions. After a success, it also removes
// the dead letters on the set, which are no longer needed.
func conclude(in Input, next *api.Resize, announce string) plan.Plan {
	store := operation.Store(in.Set, next).Unannotate(api.AbortAnnotation).Unannotate(api.ApproveAnnotation)
	if next.Phase == api.Succeeded {
		store.Unannotate(api.DeadLettersAnnotation)
	}
	actions := append(store.Actions(), operation.NoteOf(in.Set, next, next.Phase == api.Failed))
	return plan.Do(next.Reason, actions...).Then(announce, next.Operation)
}
