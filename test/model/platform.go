package model

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// parts lists the parts of the platform that act without a fault.
var parts = []func(*World) []Step{
	invocations, removals, statefulSetController, volumeBinder, claimProtection, jobController, garbageCollector, scheduler, kubelet,
	applications, nodeReturns,
}

// steps returns the possible next steps without faults.
func (w *World) steps() []Step {
	var steps []Step
	for _, part := range parts {
		steps = append(steps, part(w)...)
	}
	if len(steps) == 0 {
		return w.lastResort()
	}
	if i := slices.IndexFunc(steps, Step.prompt); w.prompt && i >= 0 {
		return steps[i : i+1]
	}
	return steps
}

// prompt reports whether the step is the bookkeeping of a controller. On a prompt platform it precedes all other steps.
func (s Step) prompt() bool {
	switch s.Who {
	case apiServer, jobs, collector, schedulerName, binder, protector:
		return true
	case setController:
		return strings.HasPrefix(s.What, "reports")
	}
	return false
}

// lastResort returns the step for a state without other steps: a function's wait within its event ends, or the next deadline passes.
func (w *World) lastResort() []Step {
	if !w.hasWork(functionNames[restoreRole]) {
		return nil
	}
	if writes := writesOf(w.decide(w.observe(), restoreRole, 10*time.Second)); len(writes) > 0 {
		return []Step{{Who: "restore", What: "ends its wait", do: func(w *World) { w.functions[restoreRole].pending = writes }}}
	}
	next, found := w.deadline()
	if !found {
		return nil
	}
	return []Step{{Who: "clock", What: fmt.Sprintf("%s pass", next.Sub(w.now)), do: func(w *World) { w.now = next }}}
}

// deadline returns the next time at which a deadline of the operation expires.
func (w *World) deadline() (time.Time, bool) {
	record := w.record()
	if record == nil || !record.Active() {
		return time.Time{}, false
	}
	next := time.Time{}
	soonest := func(at time.Time) {
		if at = at.Add(time.Second); at.After(w.now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	if record.Deadline != nil {
		soonest(record.Deadline.Time)
	}
	for _, m := range record.Members {
		if m.Deadline != nil {
			soonest(m.Deadline.Time)
		}
	}
	return next, !next.IsZero()
}
