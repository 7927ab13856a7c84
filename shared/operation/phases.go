package operation

import (
	"fmt"
	"slices"

	"drydock.dev/shared/api"
)

// State is one phase of one kind of operation.
type State struct {
	Kind  api.Kind
	Phase api.Phase
	// Means says what is true of the set in this phase.
	Means string
	// By is the function that moves the operation on. It is empty in a terminal phase.
	By api.Function
	// Next are the phases that may follow. The record may also change within its phase.
	Next []api.Phase
	// First is true if an operation may begin in this phase.
	First bool
}

type phases = []api.Phase

// States is the table of all phases. It is the whole life of every operation: no function writes a phase that does not follow from the
// one before, and docs/status.md shows the same rows.
var States = []State{
	{Kind: api.KindResize, Phase: api.Expanding, First: true, By: api.DetectResize,
		Means: "claims ask for more and grow; the set runs", Next: phases{api.Planned, api.Succeeded, api.Failed}},
	{Kind: api.KindResize, Phase: api.Planned, First: true, By: api.PauseOwner,
		Means: "the preflight passed; the owner's consent is awaited", Next: phases{api.Moving, api.Reverting}},
	{Kind: api.KindResize, Phase: api.Moving, By: api.Restore,
		Means: "members are copied and moved, see the phases of a member", Next: phases{api.Finishing, api.Reverting, api.Failed}},
	{Kind: api.KindResize, Phase: api.Finishing, By: api.Restore,
		Means: "every member runs on its new volumes; the objects of the operation are removed", Next: phases{api.Succeeded, api.Failed}},
	{Kind: api.KindResize, Phase: api.Reverting, By: api.Restore,
		Means: "given up: held pods are released, each member stays on its present volumes; if these are the new ones of every member, the " +
			"operation is done",
		Next: phases{api.Failed, api.Finishing}},
	{Kind: api.KindResize, Phase: api.Succeeded, Means: "the set has what was asked for"},
	{Kind: api.KindResize, Phase: api.Failed, Means: "given up; `failedAt` says in which phase, and `members` which of them are moved"},
	{Kind: api.KindResize, Phase: api.Refused, First: true, Means: "the preflight found a reason; nothing was touched"},

	{Kind: api.KindRollback, Phase: api.Planned, First: true, By: api.PauseOwner,
		Means: "the preflight passed; the owner's consent is awaited", Next: phases{api.Moving, api.Reverting}},
	{Kind: api.KindRollback, Phase: api.Moving, By: api.Restore,
		Means: "members get their old volumes back, see the phases of a member; nothing is copied",
		Next:  phases{api.Finishing, api.Reverting, api.Failed}},
	{Kind: api.KindRollback, Phase: api.Finishing, By: api.Restore,
		Means: "every member has its old volumes back; the objects of the operation are removed", Next: phases{api.Succeeded, api.Failed}},
	{Kind: api.KindRollback, Phase: api.Reverting, By: api.Restore,
		Means: "given up: held pods are released, each member stays on its present volumes; if these are the new ones of every member, the " +
			"operation is done",
		Next: phases{api.Failed, api.Finishing}},
	{Kind: api.KindRollback, Phase: api.Succeeded, Means: "the claims have their old volumes back"},
	{Kind: api.KindRollback, Phase: api.Failed, Means: "given up; `members` says which of them have their old volumes back"},
	{Kind: api.KindRollback, Phase: api.Refused, First: true, Means: "the preflight found a reason; nothing was touched"},

	{Kind: api.KindSleep, Phase: api.Planned, First: true, By: api.PauseOwner,
		Means: "the set is to sleep; nothing was touched. If the set is needed after all, idle-timeout ends the sleep",
		Next:  phases{api.Stopping, api.Waking, api.Succeeded, api.Refused}},
	{Kind: api.KindSleep, Phase: api.Stopping, By: api.IdleTimeout,
		Means: "the owner consents; idle-timeout, or the owner's operator, scales the set to zero",
		Next:  phases{api.Asleep, api.Waking, api.Succeeded}},
	{Kind: api.KindSleep, Phase: api.Asleep, By: api.IdleTimeout,
		Means: "no replica is left; there is no deadline", Next: phases{api.Waking, api.Stopping}},
	{Kind: api.KindSleep, Phase: api.Waking, First: true, By: api.IdleTimeout,
		Means: "the set gets its replicas back, and is to become ready; pause-owner ends an operator's stop, and a pause when the replicas are " +
			"back",
		Next: phases{api.Succeeded, api.Failed}},
	{Kind: api.KindSleep, Phase: api.Succeeded, Means: "the set is awake, or another process has scaled it to zero"},
	{Kind: api.KindSleep, Phase: api.Failed, Means: "the set was started again; `failedAt` is the phase in which the sleep was given up"},
	{Kind: api.KindSleep, Phase: api.Refused, First: true, Means: "nothing was touched"},

	{Kind: api.KindCleanup, Phase: api.Cleaning, First: true, By: api.CleanupPod,
		Means: "cleanup pods run on the claims of removed replicas", Next: phases{api.Succeeded, api.Failed}},
	{Kind: api.KindCleanup, Phase: api.Succeeded, First: true,
		Means: "with `CleanupCompleted`: nothing is left behind. With `CleanupReady`: the template is understood, nothing was to be done yet"},
	{Kind: api.KindCleanup, Phase: api.Failed,
		Means: "given up; the claims that are left are kept until a retry, a new template or another count"},
	{Kind: api.KindCleanup, Phase: api.Refused, First: true,
		Means: "the template, or a setting beside it, cannot be carried out; nothing was touched"},

	{Kind: api.KindScale, Phase: api.PreScaling, First: true, By: api.ScaleHooks,
		Means: "the hook before the change runs; the set has its previous count", Next: phases{api.Scaling, api.Failing, api.Failed}},
	{Kind: api.KindScale, Phase: api.Scaling, First: true, By: api.ScaleHooks,
		Means: "the set has the new count; its members start or stop", Next: phases{api.PostScaling, api.Failing, api.Failed}},
	{Kind: api.KindScale, Phase: api.PostScaling, First: true, By: api.ScaleHooks,
		Means: "the members are ready; the hook after the change runs", Next: phases{api.Succeeded, api.Failing, api.Failed}},
	{Kind: api.KindScale, Phase: api.Failing, By: api.ScaleHooks,
		Means: "given up; the hook for a failure runs", Next: phases{api.Failed}},
	{Kind: api.KindScale, Phase: api.Succeeded, First: true,
		Means: "with `ScalingCompleted`: the set has the count. With `ScalerReady`: a Scaler looks after the set, and nothing was to be done yet"},
	{Kind: api.KindScale, Phase: api.Failed,
		Means: "given up; `failedAt` says in which phase. A retry is another operation that begins in that phase"},
}

// Find returns the row of the phase; nil if the kind has no such phase.
func Find(kind api.Kind, phase api.Phase) *State {
	i := slices.IndexFunc(States, func(s State) bool { return s.Kind == kind && s.Phase == phase })
	if i < 0 {
		return nil
	}
	return &States[i]
}

// MovedBy returns the function whose turn it is in the record's phase; empty in a terminal phase.
func MovedBy(record Record) api.Function {
	head := record.Head()
	if state := Find(head.Kind, head.Phase); state != nil {
		return state.By
	}
	return ""
}

// CheckStep returns an error if the table does not have the step from one record of a set to the next. Before is nil if the set had none.
func CheckStep(before, after *api.Header) error {
	state := Find(after.Kind, after.Phase)
	switch {
	case state == nil:
		return fmt.Errorf("a %s has no phase %q", after.Kind, after.Phase)
	case before == nil || before.Operation != after.Operation:
		if before != nil && !before.Phase.Terminal() {
			return fmt.Errorf("%s %s begins while %s %s is %s", after.Kind, after.Operation, before.Kind, before.Operation, before.Phase)
		}
		if !state.First {
			return fmt.Errorf("a %s does not begin in phase %s", after.Kind, after.Phase)
		}
		return nil
	case before.Kind != after.Kind:
		return fmt.Errorf("%s %s becomes a %s", before.Kind, before.Operation, after.Kind)
	case before.Phase == after.Phase:
		return nil
	}
	if from := Find(before.Kind, before.Phase); from == nil || !slices.Contains(from.Next, after.Phase) {
		return fmt.Errorf("a %s does not go from %s to %s", after.Kind, before.Phase, after.Phase)
	}
	return nil
}
