package deadletter

import (
	"fmt"
	"slices"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// Decide is pure. A failure that is listed already is not listed, and not told, again: its own write may be what made
// the event fail.
func Decide(in Input) plan.Plan {
	if in.Set == nil {
		return plan.Noop(api.SetGone)
	}
	if events.IsOrder(in.Letter.Type) && in.Letter.Code == orderRefusedCode {
		return plan.Noop(api.OrderRefused) // else a stranger could write on the set by sending orders
	}
	if why := notListedReason(in); why != "" {
		return plan.Do(api.DeadLettered, warn(in, "the event is not listed: "+why))
	}
	letters, err := api.LoadDeadLetters(in.Set)
	if err != nil {
		return plan.Do(api.DeadLettered, warn(in, "the event is not listed: "+err.Error()))
	}
	letter := in.Letter
	letter.Time = *operation.Moment(in.Now)
	at := slices.IndexFunc(letters, func(l api.Letter) bool { return l.Key() == letter.Key() })
	switch {
	case at >= 0 && letters[at].Resent == nil:
		return plan.Noop(api.DeadLettered)
	case at >= 0: // somebody sent it again, and it failed again
		letters = slices.Clone(letters)
		letters[at] = letter
	case len(letters) == api.MaxDeadLetters:
		return plan.Do(api.DeadLettered, warn(in, fmt.Sprintf("the event is not listed: %d others are; send them again first with %s",
			len(letters), redeliverCommand(in))))
	default:
		letters = append(slices.Clip(letters), letter)
	}
	patch := plan.PatchOf(plan.StatefulSets, in.Set).Annotate(api.DeadLettersAnnotation, api.EncodeDeadLetters(letters))
	return plan.Do(api.DeadLettered, append(patch.Actions(), warn(in, redeliverCommand(in)+" sends the event again"))...)
}

// orderRefusedCode is the HTTP status with which package serve refuses an order.
const orderRefusedCode = 403

// notListedReason says why nothing is written on the set.
func notListedReason(in Input) string {
	switch {
	case !statefulset.Managed(in.Set):
		return "the set has not opted in"
	case in.Set.DeletionTimestamp != nil:
		return "the set is being deleted"
	case in.Rejected != "":
		return in.Rejected
	}
	return malformedReason(in.Letter)
}

// warn warns people on the set.
func warn(in Input, ending string) plan.Action {
	return plan.Record(in.Set.Namespace, in.Set.Name, plan.Note{Warning: true, Reason: api.DeadLettered, UID: in.Set.UID,
		Operation: in.Letter.Operation, Message: describe(in.Letter) + "; the next tick looks at the set again; " + ending})
}

func redeliverCommand(in Input) string {
	return fmt.Sprintf("kubectl drydock redeliver -n %s sts/%s", in.Set.Namespace, in.Set.Name)
}
