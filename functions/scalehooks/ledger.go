package scalehooks

import (
	"fmt"

	"drydock.dev/shared/api"
	"drydock.dev/shared/members"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
)

// keepLedger writes the set's ledger. It carries out the order of a user with it.
func (in Input) keepLedger() plan.Plan {
	set := in.Set
	if !members.Due(set) {
		return plan.Noop(api.MembersCounted)
	}
	patch, notes := plan.PatchOf(plan.StatefulSets, set), []plan.Action(nil)
	if !members.Keeps(set) {
		return plan.Do(api.MembersCounted, patch.Unannotate(api.LedgerAnnotation).Actions()...)
	}
	warn := func(reason api.Reason, message string, args ...any) {
		notes = append(notes, plan.Event(in.Namespace, in.Name, plan.Note{Warning: true, Reason: reason, Message: fmt.Sprintf(message, args...),
			UID: set.UID}))
	}
	isNew := len(in.Scalers) > 0 && operation.Of(set).Scale == nil // a Scaler that has not taken the set over may want more pods
	next := members.Next(set, in.Held || isNew)
	if written, ordered := set.Annotations[api.CleanupFromAnnotation]; ordered {
		patch.Unannotate(api.CleanupFromAnnotation)
		if ledger, err := members.Order(set, written); err != nil {
			warn(api.RequestInvalid, "annotation %s was removed and nothing is cleaned up: %v", api.CleanupFromAnnotation, err)
		} else {
			next = ledger
		}
	}
	if missing, some := members.Missing(next, set); some {
		warn(api.PodsExpected, "the claims of pods %[1]s-%[2]d to %[1]s-%[3]d are kept, because these pods are expected back. To give them up, "+
			"run: kubectl drydock cleanup -n %[4]s sts/%[1]s --from %[2]d", in.Name, missing.Start, missing.End-1, in.Namespace)
	}
	return plan.Do(api.MembersCounted, append(patch.Annotate(api.LedgerAnnotation, next.Encode()).Actions(), notes...)...)
}
