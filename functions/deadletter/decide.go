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

// Decide lists an undelivered event on the set, and reports it in a Kubernetes Event. It ignores a failure that is already listed, because
// dead-letter's own write may have caused the event that failed. Decide is pure.
func Decide(in Input) plan.Plan {
	if in.Set == nil {
		return plan.Noop(api.SetGone)
	}
	if events.IsOrder(in.Letter.Type) {
		// The letter of an order does not show who sent it, and any client can send an undelivered one. Sent again, it would have the
		// rights of another sender. The first sender has the HTTP answer, and gives the order again.
		return plan.Noop(api.OrderRefused)
	}
	if events.IsSource(in.Letter.Type) && !in.isKnownSource() {
		return plan.Noop(api.UnknownSource) // likewise: only a sender that has seen the set knows its UID
	}
	if !statefulset.Managed(in.Set) {
		return plan.Noop(api.NotManaged)
	}
	if reason := notListedReason(in); reason != "" {
		return plan.Do(api.DeadLettered, warnNotListed(in, reason))
	}
	letters, err := api.LoadDeadLetters(in.Set)
	if err != nil {
		return plan.Do(api.DeadLettered, warnNotListed(in, err.Error()))
	}
	letter := in.Letter
	letter.Time = *operation.Moment(in.Now)
	at := slices.IndexFunc(letters, func(l api.UndeliveredEvent) bool { return l.Key() == letter.Key() })
	switch {
	case at >= 0 && letters[at].Resent == nil:
		return plan.Noop(api.DeadLettered)
	case at >= 0: // the user sent it again, and it failed again
		letters = slices.Clone(letters)
		letters[at] = letter
	case len(letters) == api.MaxDeadLetters:
		return plan.Do(api.DeadLettered, warnNotListed(in, fmt.Sprintf("the list has %d other events. Send these first with %s", len(letters),
			redeliverCommand(in))))
	default:
		letters = append(slices.Clip(letters), letter)
	}
	patch := plan.PatchOf(plan.StatefulSets, in.Set).Annotate(api.DeadLettersAnnotation, api.EncodeDeadLetters(letters))
	return plan.Do(api.DeadLettered, append(patch.Actions(), warn(in, "To send the event again at once, run "+redeliverCommand(in)))...)
}

// isKnownSource reports whether the data of a source event has the UID of the set. The links of movers may have the UID from before a
// resize created the set again; the id of that resize comes from it.
func (in Input) isKnownSource() bool {
	if in.SetUID == in.Set.UID {
		return true
	}
	record := operation.Of(in.Set).Resize
	return in.SetUID != "" && record != nil && record.HasIDOf(in.SetUID)
}

// notListedReason returns why the event must not be listed on the set. It is empty if it may be listed.
func notListedReason(in Input) string {
	switch {
	case in.Set.DeletionTimestamp != nil:
		return "the set is being deleted"
	case in.Rejected != "":
		return in.Rejected
	case events.IsHook(in.Letter.Type):
		return "scale sends the request for the hook again, until the deadline of its stage"
	}
	return malformedReason(in.Letter)
}

// warnNotListed returns the action that creates a Warning Event on the set. It has nothing of the undelivered event but a known type:
// Kubernetes Events with the same text count once, so that forged events cannot create many.
func warnNotListed(in Input, reason string) plan.Action {
	subject := "an event"
	if known := in.Letter.Type; events.IsOwn(known) || events.IsSource(known) {
		subject = "an event of type " + known
	}
	return plan.Event(in.Set.Namespace, in.Set.Name, plan.Note{Warning: true, Reason: api.DeadLettered, UID: in.Set.UID,
		Message: subject + " could not be delivered. The next tick checks the set again. The event is not listed: " + reason +
			". The log of dead-letter has its cause"})
}

// warn returns the action that creates a Warning Event about a listed event.
func warn(in Input, outcome string) plan.Action {
	return plan.Event(in.Set.Namespace, in.Set.Name, plan.Note{Warning: true, Reason: api.DeadLettered, UID: in.Set.UID,
		Operation: in.Letter.Operation, Message: describe(in.Letter) + ". The next tick checks the set again. " + outcome})
}

// redeliverCommand returns the command that sends the listed events again.
func redeliverCommand(in Input) string {
	return fmt.Sprintf("kubectl drydock redeliver -n %s sts/%s", in.Set.Namespace, in.Set.Name)
}
