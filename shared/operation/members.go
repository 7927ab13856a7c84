package operation

import (
	"fmt"
	"slices"

	"drydock.dev/shared/api"
)

// MemberState is a row of the table of a member's phases.
type MemberState struct {
	Phase api.MemberPhase
	// By are the functions that work on the member in this phase. A final phase has none.
	By []api.Function
	// Next are the phases that may follow while the operation moves members.
	Next []api.MemberPhase
}

// MemberStates is the table of all phases of a member. docs/status.md has the same rows, with their meaning. Nothing is copied in a
// rollback, or if claims grow while their member is stopped. Then a member skips the phases of the copy, and returns to Waiting instead of
// Copying.
var MemberStates = []MemberState{
	{api.MemberPending, []api.Function{api.Backup}, []api.MemberPhase{api.MemberCopying, api.MemberWaiting}},
	{api.MemberCopying, []api.Function{api.Backup}, []api.MemberPhase{api.MemberWaiting}},
	{api.MemberWaiting, []api.Function{api.Restore, api.Backup}, []api.MemberPhase{api.MemberStopping, api.MemberCopying, api.MemberPending}},
	{api.MemberStopping, []api.Function{api.Restore}, []api.MemberPhase{api.MemberFinalPass, api.MemberGrowing, api.MemberSwapping,
		api.MemberCopying, api.MemberWaiting}},
	{api.MemberFinalPass, []api.Function{api.Backup, api.Restore}, []api.MemberPhase{api.MemberSwapping, api.MemberCopying}},
	{api.MemberGrowing, []api.Function{api.Restore}, []api.MemberPhase{api.MemberStarting, api.MemberWaiting}},
	{api.MemberSwapping, []api.Function{api.Restore}, []api.MemberPhase{api.MemberStarting, api.MemberCopying, api.MemberWaiting}},
	{api.MemberStarting, []api.Function{api.Restore}, []api.MemberPhase{api.MemberMoved, api.MemberSwapping}},
	{Phase: api.MemberMoved},
	{Phase: api.MemberKept},
}

// CheckMemberSteps returns an error if the table does not allow the step of a member. When an operation fails, each member becomes Kept, or
// Moved if it is on its new volumes.
func CheckMemberSteps(before, after *api.Resize) error {
	if before == nil || before.Operation != after.Operation {
		return nil
	}
	for i := range after.Members {
		if i >= len(before.Members) {
			break
		}
		former, present := &before.Members[i], &after.Members[i] // the order of members does not change
		if former.Ordinal != present.Ordinal || former.Phase == present.Phase {
			continue
		}
		next := []api.MemberPhase{api.MemberKept, api.MemberMoved}
		if after.Phase == api.Moving {
			next = nextMemberPhases(former.Phase)
		}
		if !slices.Contains(next, present.Phase) {
			return fmt.Errorf("member %d cannot change from %s to %s while the operation is %s",
				present.Ordinal, former.Phase, present.Phase, after.Phase)
		}
	}
	return nil
}

func nextMemberPhases(phase api.MemberPhase) []api.MemberPhase {
	i := slices.IndexFunc(MemberStates, func(s MemberState) bool { return s.Phase == phase })
	if i < 0 {
		return nil
	}
	return MemberStates[i].Next
}
