package moving

import (
	"fmt"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/world"
)

// Forged returns the message for a record in the phase Moving that Drydock did not write for this set. It is empty for a genuine record.
// Every user who may edit the set can write a record, but only Drydock can write a journal. Before there is a journal, the operation id
// must derive from the set, and every member must be pending. Afterwards, the journal must name every claim with its volumes. backup and
// restore both check this, because the phases in a forged record decide which of them gets the events.
func Forged(o *world.Observed, record *api.Resize) string {
	problem := JournalConflict(o, record)
	if o.Journal(record.Operation) == nil {
		problem = problemWithoutJournal(o, record)
	}
	if problem == "" {
		return ""
	}
	return fmt.Sprintf("the annotation %s was not written by Drydock: %s. Drydock leaves its volumes alone. Find out who wrote it, then %s",
		api.StatusAnnotation, problem, operation.HowToRetry(o.Set.Namespace, record))
}

// problemWithoutJournal returns what shows that the record does not belong to an operation that has no journal yet. It is empty for a
// genuine record.
func problemWithoutJournal(o *world.Observed, record *api.Resize) string {
	if !record.HasIDOf(o.Set.UID) {
		return fmt.Sprintf("%s is not the id of request %q on this StatefulSet", record.Operation, record.Purpose())
	}
	for _, member := range record.Members {
		if member.Phase != api.MemberPending {
			return fmt.Sprintf("member %d is in phase %s, but ControllerRevision %s does not exist", member.Ordinal, member.Phase,
				api.JournalName(record.Operation))
		}
	}
	return ""
}

// JournalConflict returns where the record contradicts its operation's journal. It is empty if they agree, or if there is no journal.
func JournalConflict(o *world.Observed, record *api.Resize) string {
	if o.Journal(record.Operation) == nil {
		return ""
	}
	journal := o.JournalRecord(record.Operation)
	if journal == nil {
		return fmt.Sprintf("ControllerRevision %s cannot be read", api.JournalName(record.Operation))
	}
	for _, move := range record.Moves() {
		if !journal.HasSameMove(move) {
			return fmt.Sprintf("ControllerRevision %s does not name claim %s on volume %s", api.JournalName(record.Operation), move.Claim,
				move.OldVolume)
		}
	}
	return ""
}
