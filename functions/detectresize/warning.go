package detectresize

import (
	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
)

// warn returns the action that creates a Warning Event on the set.
func warn(in Input, operation string, reason api.Reason, message string) plan.Action {
	return plan.Event(in.Set.Namespace, in.Set.Name,
		plan.Note{Warning: true, Reason: reason, Message: message, UID: in.Set.UID, Operation: operation})
}
