package scale

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
	if !members.Due(set) || in.Rejected != "" && len(in.Scalers) > 0 { // a rejected write must not keep the Scaler from its work
		return plan.Noop(api.MembersCounted)
	}
	patch, notes := plan.PatchOf(plan.StatefulSets, set), []plan.Action(nil)
	warn := func(reason api.Reason, message string, args ...any) {
		notes = append(notes, plan.Event(in.Namespace, in.Name, plan.Note{Warning: true, Reason: reason, Message: fmt.Sprintf(message, args...),
			UID: set.UID}))
	}
	written, ordered := members.Asked(set)
	if ordered {
		patch.Unannotate(api.CleanupFromAnnotation)
	}
	if !members.Keeps(set) {
		if ordered {
			warn(api.RequestInvalid, "annotation %s was removed and nothing is cleaned up: the StatefulSet has no cleanup pod template. Write "+
				"annotation %s first", api.CleanupFromAnnotation, api.CleanupTemplateAnnotation)
		}
		return plan.Do(api.MembersCounted, append(patch.Unannotate(api.LedgerAnnotation).Actions(), notes...)...)
	}
	facts := in.Members
	if len(in.Scalers) > 0 && operation.Of(set).Scale == nil { // a Scaler that has not taken the set over may want more pods
		facts.Held = true
	}
	next := members.Next(set, facts)
	if ordered {
		if err := members.Order(set, next, written); err != nil {
			warn(api.RequestInvalid, "annotation %s was removed and nothing is cleaned up: %v", api.CleanupFromAnnotation, err)
		}
	} else if next.Encode() == set.Annotations[api.LedgerAnnotation] {
		return plan.Noop(api.MembersCounted)
	}
	if missing, some := members.Missing(next, set); some {
		warn(api.PodsExpected, "the claims of pods %[1]s-%[2]d to %[1]s-%[3]d are kept, because these pods are expected back. To give them up, "+
			"run: kubectl drydock cleanup -n %[4]s sts/%[1]s --from %[2]d", in.Name, missing.Start, missing.End-1, in.Namespace)
	}
	return plan.Do(api.MembersCounted, append(patch.Annotate(api.LedgerAnnotation, next.Encode()).Actions(), notes...)...)
}
