package pauseowner

import (
	"fmt"
	"slices"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/turns"
)

// needsTurns reports whether the list of turns matters: a resize needs a turn, or the turn of an ended one must end.
func needsTurns(in Input, records operation.Records) bool {
	return !records.Resize.Active() || neededTurn(in, in.plannedOperation(records)) != nil || returnsTurn(records.Resize)
}

// returnsTurn reports whether the resize has given its turn back while its members wait for an approval or a window.
func returnsTurn(resize *api.Resize) bool {
	return resize.Active() && resize.Phase == api.Moving && resize.TurnReturned
}

// neededTurn returns the turn that the operation needs, or nil. A user could write a record with the id of an operation of another
// set, and so take its place in the list. backup gives such a record up before it creates a mover. The id of a resize that has created its
// set again comes from the former UID: its journal counts. An aborted or overdue operation needs no turn, so that it ends even if the list
// cannot be read.
func neededTurn(in Input, planned operation.Record) *turns.Turn {
	resize, ok := planned.(*api.Resize)
	genuine := ok && (resize.HasIDOf(in.Set.UID) || in.Journal(resize.Operation) != nil)
	if !genuine || operation.Aborted(in.Set) || operation.Overdue(resize, in.Now) {
		return nil
	}
	turn, needed := turns.Of(in.Set.Namespace, resize)
	if !needed {
		return nil
	}
	return &turn
}

// takeTurn lets the resize wait for its turn. Until then there is no deadline, and the owners of a planned resize are not paused. A Noop
// means that the resize has its turn, or needs none.
func takeTurn(in Input, planned operation.Record) plan.Plan {
	resize, ok := planned.(*api.Resize)
	if !ok {
		return plan.Noop(api.TurnBegins)
	}
	turn := neededTurn(in, planned)
	if turn == nil || in.Turns == nil { // the list may have been removed while it waited
		return beginAfterWait(in, resize)
	}
	if in.Turns.HasTurn(turn.Operation) {
		return beginAfterWait(in, resize)
	}
	list := withoutEnded(in, turn.Operation).Request(*turn)
	if list.HasTurn(turn.Operation) {
		return beginTurn(in, resize, list)
	}
	next := resize.Clone()
	next.Reason, next.Deadline = api.TurnWaits, nil
	next.Message = fmt.Sprintf("too few movers are free: DRYDOCK_MOVERS allows %d in the cluster, half of them per namespace, and other "+
		"resizes use them. When enough of them have ended, this resize continues by itself, without a time limit", in.Turns.Limit())
	actions := append(operation.Store(in.Set, next).Actions(), list.Store()...)
	if len(actions) == 0 {
		return plan.Wait(api.TurnWaits, "the limit is %d movers in the cluster", in.Turns.Limit())
	}
	return plan.Do(api.TurnWaits, in.ifSetUnchanged(actions)...)
}

// beginTurn takes the turn. A resize that has waited continues by the event of its record, so that the answer can wake the next set.
func beginTurn(in Input, resize *api.Resize, list *turns.List) plan.Plan {
	taken := in.ifSetUnchanged(list.Store())
	if !waited(resize) {
		return plan.Do(api.TurnBegins, taken...)
	}
	return wakeNext(plan.Do(api.TurnBegins, append(taken, storeBegin(in, resize)...)...), list)
}

// beginAfterWait lets a resize continue that has its turn, but whose record says that it waits.
func beginAfterWait(in Input, resize *api.Resize) plan.Plan {
	if !waited(resize) {
		return plan.Noop(api.TurnBegins)
	}
	return plan.Do(api.TurnBegins, storeBegin(in, resize)...)
}

// waited reports whether the record says that the resize has no turn.
func waited(resize *api.Resize) bool { return resize.WaitsForTurn() || resize.TurnReturned }

// storeBegin gives the resize the deadline back that it did not have while it waited.
func storeBegin(in Input, resize *api.Resize) []plan.Action {
	limit := in.Settings.PlanTimeout
	if resize.Phase == api.Moving {
		limit = in.Settings.CopyTimeout
	}
	next := operation.Enter(resize, resize.Phase, in.Now, limit)
	next.Reason, next.Message = api.TurnBegins, "enough movers are free, so the resize continues"
	next.TurnReturned, next.StartsLater = false, false
	return operation.Store(in.Set, next).Actions()
}

// exchangeTurn ends the turn of a resize that has given it back. It takes a turn again when the members may stop, or when no copy waits any
// more: another member has become the next one, and is copied first.
func exchangeTurn(in Input, record *api.Resize) plan.Plan {
	switch {
	case !returnsTurn(record) || in.Set.DeletionTimestamp != nil || operation.Aborted(in.Set) || operation.Overdue(record, in.Now):
		return plan.Noop(api.NotOurPhase)
	case resize.CutoverObstacle(in.Observed, record) == "" || needsCopy(record):
		return takeTurn(in, record)
	}
	next := record
	if record.Deadline == nil { // it waited for its turn, and waits for the user again
		next = operation.Enter(record, record.Phase, in.Now, in.Settings.CopyTimeout)
	}
	actions := operation.Store(in.Set, next).Actions()
	var list *turns.List
	if in.Turns != nil {
		list = withoutEnded(in, record.Operation).Leave(record.Operation)
		actions = append(actions, list.Store()...)
	}
	if len(actions) == 0 {
		return plan.Noop(api.NotOurPhase)
	}
	return wakeNext(plan.Do(api.TurnEnds, in.ifSetUnchanged(actions)...), list)
}

// needsCopy reports whether a copy is missing before the next stop.
func needsCopy(record *api.Resize) bool {
	has := func(phase api.MemberPhase) bool {
		return slices.ContainsFunc(record.Members, func(m api.Member) bool { return m.Phase == phase })
	}
	return !has(api.MemberWaiting) || has(api.MemberCopying) || record.Strategy == api.StrategyWhole && has(api.MemberPending)
}

// endTurn ends the turns of the set's operations that are over, and wakes the set that is next.
func endTurn(in Input, operations operation.Records) plan.Plan {
	if in.Turns == nil || operations.Resize.Active() {
		return plan.Noop(api.NotOurPhase)
	}
	list := withoutEnded(in, "")
	actions := list.Store()
	if len(actions) == 0 {
		return plan.Noop(api.NotOurPhase)
	}
	p := plan.Do(api.TurnEnds, in.ifSetUnchanged(actions)...)
	if len(in.OwnerRecords) > 0 {
		return p // the owner must be resumed now. The sweep wakes the next set
	}
	return wakeNext(p, list)
}

// ifSetUnchanged carries out writes of the list only if the set has not changed since its read. The set may have a new operation by now,
// whose turn would count as that of a former one.
func (in Input) ifSetUnchanged(writes []plan.Action) []plan.Action {
	check := plan.CheckAbsent(plan.StatefulSets, in.Namespace, in.Name)
	if in.Set != nil {
		check = plan.CheckUnchanged(plan.StatefulSets, in.Set)
	}
	return append([]plan.Action{check}, writes...)
}

// withoutEnded returns the list without the set's operations that are over, except the given one. The next operation of a set may be
// planned before the turn of the former one has ended, and would wait for it. While an operation has a journal, its movers may run.
func withoutEnded(in Input, except string) *turns.List {
	return in.Turns.Without(func(t turns.Turn) bool {
		return t.Namespace == in.Namespace && t.Set == in.Name && t.Operation != except && in.Journal(t.Operation) == nil
	})
}

// wakeNext adds the set whose turn is next.
func wakeNext(p plan.Plan, list *turns.List) plan.Plan {
	if next := list.Next(); len(next) > 0 {
		return p.Wake(plan.SetRef{Namespace: next[0].Namespace, Name: next[0].Set, UID: next[0].UID})
	}
	return p
}
