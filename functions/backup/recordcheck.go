package backup

import (
	"fmt"

	"drydock.dev/shared/api"
)

// recordProblem returns what shows that Drydock did not write the record for this set. It is empty for a genuine record. Everyone who may
// edit the set can write a record, but only Drydock can write a journal. Before there is a journal, the operation id must derive from the
// set. Afterwards, the journal must name every claim with its volumes.
func recordProblem(in Input, record *api.Resize) string {
	if in.Journal(record.Operation) == nil {
		return problemWithoutJournal(in, record)
	}
	journal := in.JournalRecord(record.Operation)
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

// problemWithoutJournal returns what shows that the record does not belong to an operation that has no journal yet: an id that does not
// derive from the set, or a member that has left the phase Pending. It is empty for a genuine record.
func problemWithoutJournal(in Input, record *api.Resize) string {
	if !record.HasIDOf(in.Set.UID) {
		return fmt.Sprintf("%s is not the id of request %q on this StatefulSet", record.Operation, record.Request)
	}
	for _, member := range record.Members {
		if member.Phase != api.MemberPending {
			return fmt.Sprintf("member %d is in phase %s, but ControllerRevision %s does not exist", member.Ordinal, member.Phase,
				api.JournalName(record.Operation))
		}
	}
	return ""
}
