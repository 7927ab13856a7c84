package restore

import (
	"fmt"
	"slices"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resize"
)

// stopWaitingMembers is the gate: it stops waiting members once every condition for their stop holds. A rolling resize stops one member;
// otherwise all members stop together.
func (w *work) stopWaitingMembers() {
	next, complete := w.waitingMembers()
	w.noteHooksBefore(next)
	if !complete || len(next) == 0 && (len(w.record.Members) > 0 || !w.needsReplacement(w.record)) || !w.cutoverOpen() ||
		w.stopBlocked(next) {
		return
	}
	hooks, ready := w.hooksBefore(next)
	if !ready || slices.ContainsFunc(next, func(member *api.Member) bool { return !w.othersCaughtUp(member) }) {
		return
	}
	for _, member := range hooks {
		w.runHookBefore(member)
	}
	if len(hooks) > 0 || w.replaceSet() {
		return
	}
	for _, member := range slices.Backward(next) { // the Events then show the order of the stops
		w.stopMember(member)
	}
	w.reportStop(next)
}

// waitingMembers returns the members that wait to be stopped. It reports false if all members stop together and one is not copied yet.
func (w *work) waitingMembers() (next []*api.Member, complete bool) {
	complete = true
	for i := range w.record.Members {
		switch member := &w.record.Members[i]; {
		case member.Phase == api.MemberWaiting:
			next = append(next, member)
		case w.anotherWaitsToStop() && member.Phase == api.MemberSwapping:
		case member.Phase != api.MemberMoved:
			w.waitFor(false, "pod %s-%d must be %s first", w.Name, member.Ordinal, prepared(w.record))
			complete = complete && w.record.Strategy != api.StrategyWhole
		}
	}
	return next, complete
}

// stopBlocked reports whether one of the members must not be stopped now. The record then says why.
func (w *work) stopBlocked(members []*api.Member) bool {
	for _, member := range members {
		if problem := w.foreignClaimFinalizer(member); problem != "" {
			w.blockStop("pod %s-%d is not stopped yet: %s", w.Name, member.Ordinal, problem)
			if w.record.Message != w.before.Message {
				w.addEvent(true, api.ForeignFinalizer, "%s", problem)
			}
			return true
		}
		if why := w.stopBlocker(member); why != "" {
			w.blockStop("pod %s-%d is not stopped yet: %s", w.Name, member.Ordinal, why)
			return true
		}
	}
	return false
}

// reportStop tells the user which pod Drydock stops and holds, because kubectl get pods shows the pod as Terminating without a reason.
func (w *work) reportStop(members []*api.Member) {
	first := members[0]
	subject := fmt.Sprintf("pod %s-%d is stopped", w.Name, first.Ordinal)
	switch {
	case len(members) > 1:
		subject = fmt.Sprintf("%d members are stopped together", len(members))
	case first.Locked:
		subject = fmt.Sprintf("the name of pod %s-%d is locked", w.Name, first.Ordinal)
	}
	until := "the volumes are replaced"
	if w.record.GrowsWhileStopped() {
		until = "the volumes have grown"
	}
	w.report(false, api.Quiescing, "%s (try %d of at most %d for each pod) and held by the finalizer %s until %s", subject, first.Stops,
		maxStops, api.HoldFinalizer, until)
}

// cutoverOpen reports whether the user allows stops now. If not, the record says why, and the resize gives its turn back: the user may take
// days. Afterwards it needs a turn again, because movers update the copies before the stop.
func (w *work) cutoverOpen() bool {
	condition := resize.CutoverObstacle(w.Observed, w.record)
	switch {
	case condition != "":
		w.blockStop("%s; the stop waits for %s", stopReadiness(w.record), condition)
		w.record.TurnReturned = w.record.TurnReturned ||
			w.record.Copies() && len(w.record.Members) > 0 && !slices.ContainsFunc(w.record.Members, isUnderWay)
	case w.record.TurnReturned:
		w.waitFor(false, "the resize needs free movers again")
	}
	return condition == "" && !w.record.TurnReturned
}

// isUnderWay reports whether the member has a mover, or is stopped.
func isUnderWay(member api.Member) bool {
	return !slices.Contains([]api.MemberPhase{api.MemberPending, api.MemberWaiting, api.MemberMoved, api.MemberKept}, member.Phase)
}

// replaceSet creates the set again with its new templates before the first member stops. From then on, every claim that the StatefulSet
// controller creates fits the new volumes. It reports true while the set lacks the new templates.
func (w *work) replaceSet() bool {
	if !w.needsReplacement(w.record) {
		return false
	}
	if w.TwoRevisions() {
		w.blockStop("a partition keeps pods of an older revision, which is lost when the StatefulSet is created again")
		return true
	}
	if finalizer := foreignFinalizer(w.Set); finalizer != "" {
		w.blockStop("finalizer %s would block the deletion of StatefulSet %s, which must be created again; remove the finalizer",
			finalizer, w.Name)
		return true
	}
	if why := resize.ObstacleToAddTemplate(w.Set, w.record.Fields); why != "" {
		w.blockStop("StatefulSet %s is not created again yet: %s", w.Name, why)
		return true
	}
	w.override = recreate(w.Input, w.record, w.record.NewShape())
	return true
}
