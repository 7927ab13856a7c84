package operation

import (
	"fmt"
	"slices"

	"drydock.dev/shared/api"
)

// MemberState is one phase of a member of a resize or a rollback.
type MemberState struct {
	Phase api.MemberPhase
	// By are the functions that move the member on. There are none in a phase that lasts.
	By []api.Function
	// Next are the phases that may follow while the operation moves members.
	Next []api.MemberPhase
}

// MemberStates is the table of all phases of a member; docs/status.md has the same rows, with their meaning. In a rollback, and
// where claims grow while their member is stopped, nothing is copied, so a member goes from Pending and Stopping to the phase after the copy,
// and back to Waiting where a copy would go back to Copying.
var MemberStates = []MemberState{
	{api.MemberPending, []api.Function{api.Backup}, []api.MemberPhase{api.MemberCopying, api.MemberWaiting}},
	{api.MemberCopying, []api.Function{api.Backup}, []api.MemberPhase{api.MemberWaiting}},
	{api.MemberWaiting, []api.Function{api.Restore, api.Backup}, []api.MemberPhase{api.MemberStopping, api.MemberCopying, api.MemberPending}},
	{api.MemberStopping, []api.Function{api.Restore}, []api.MemberPhase{api.MemberFinalPass, api.MemberGrowing, api.MemberSwapping, api.MemberCopying,
		api.MemberWaiting}},
	{api.MemberFinalPass, []api.Function{api.Backup, api.Restore}, []api.MemberPhase{api.MemberSwapping, api.MemberCopying}},
	{api.MemberGrowing, []api.Function{api.Restore}, []api.MemberPhase{api.MemberStarting, api.MemberWaiting}},
	{api.MemberSwapping, []api.Function{api.Restore}, []api.MemberPhase{api.MemberStarting, api.MemberCopying, api.MemberWaiting}},
	{api.MemberStarting, []api.Function{api.Restore}, []api.MemberPhase{api.MemberMoved, api.MemberSwapping}},
	{Phase: api.MemberMoved},
	{Phase: api.MemberKept},
}

// CheckMemberSteps returns an error if a member of the operation makes a step that the table does not have. When an operation is given up,
// each member becomes Kept, or Moved if it is on its new volumes.
func CheckMemberSteps(before, after *api.Resize) error {
	if before == nil || before.Operation != after.Operation {
		return nil
	}
	for i := range after.Members {
		if i >= len(before.Members) {
			break
		}
		was, now := &before.Members[i], &after.Members[i] // the order of members does not change
		if was.Ordinal != now.Ordinal || was.Phase == now.Phase {
			continue
		}
		next := []api.MemberPhase{api.MemberKept, api.MemberMoved}
		if after.Phase == api.Moving {
			next = nextOfMember(was.Phase)
		}
		if !slices.Contains(next, now.Phase) {
			return fmt.Errorf("member %d does not go from %s to %s while the operation is %s", now.Ordinal, was.Phase, now.Phase, after.Phase)
		}
	}
	return nil
}

func nextOfMember(phase api.MemberPhase) []api.MemberPhase {
	i := slices.IndexFunc(MemberStates, func(s MemberState) bool { return s.Phase == phase })
	if i < 0 {
		return nil
	}
	return MemberStates[i].Next
}
