package operation

import "drydock.dev/shared/api"

// MemberState is a row of the table of a member's phases.
type MemberState struct {
	Phase api.MemberPhase
	// By are the functions that work on the member in this phase. A final phase has none.
	By []api.Function
	// Next are the phases that may follow while the operation moves members.
	Next []api.MemberPhase
}

// MemberStates is the table of all phases of a member, for tests and readers. docs/status.md has the same rows, with their meaning. Nothing
// is copied in a rollback, or if claims grow while their member is stopped. Then a member skips the phases of the copy, and returns to
// Waiting instead of Copying.
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
