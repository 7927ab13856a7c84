package build

import (
	"fmt"
	"slices"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
)

// checkStep returns an error if operation.States does not allow the function the step from one record of a set to the next.
// Before is nil without a former record.
func checkStep(by api.Function, before, after *api.Header) error {
	if err := checkPhases(before, after); err != nil {
		return err
	}
	former := api.Phase("")
	if before != nil && before.Operation == after.Operation {
		former = before.Phase
	}
	if !operation.MayWrite(by, after.Kind, former, after.Phase) {
		return fmt.Errorf("%s may not change a %s from %q to %s", by, after.Kind, former, after.Phase)
	}
	return nil
}

// checkPhases returns an error if no function may take the step.
func checkPhases(before, after *api.Header) error {
	state := operation.Find(after.Kind, after.Phase)
	switch {
	case state == nil:
		return fmt.Errorf("a %s has no phase %q", after.Kind, after.Phase)
	case before == nil || before.Operation != after.Operation:
		if before != nil && !before.Phase.Terminal() {
			return fmt.Errorf("%s %s cannot begin while %s %s is %s", after.Kind, after.Operation, before.Kind, before.Operation, before.Phase)
		}
		if !state.First {
			return fmt.Errorf("a %s cannot begin in phase %s", after.Kind, after.Phase)
		}
		return nil
	case before.Kind != after.Kind:
		return fmt.Errorf("%s %s cannot become a %s", before.Kind, before.Operation, after.Kind)
	case before.Phase == after.Phase:
		return nil
	}
	if from := operation.Find(before.Kind, before.Phase); from == nil || !slices.Contains(from.Next, after.Phase) {
		return fmt.Errorf("a %s cannot change from %s to %s", after.Kind, before.Phase, after.Phase)
	}
	return nil
}

// checkMemberSteps returns an error if operation.MemberStates does not allow the step of a member. When an operation fails, each
// member becomes Kept, or Moved if it is on its new volumes.
func checkMemberSteps(before, after *api.Resize) error {
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
	i := slices.IndexFunc(operation.MemberStates, func(s operation.MemberState) bool { return s.Phase == phase })
	if i < 0 {
		return nil
	}
	return operation.MemberStates[i].Next
}
