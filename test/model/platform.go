package model

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// parts is everything that moves by itself.
var parts = []func(*World) []Step{
	invocations,
	removals,
	statefulSetController,
	volumeBinder,
	claimProtection,
	jobController,
	garbageCollector,
	scheduler,
	kubelet,
	applications,
	nodeReturns,
}

// steps are what can happen next without a fault.
func (w *World) steps() []Step {
	var steps []Step
	for _, part := range parts {
		steps = append(steps, part(w)...)
	}
	if len(steps) == 0 {
		return w.patience()
	}
	if i := slices.IndexFunc(steps, Step.prompt); w.promptly && i >= 0 {
		return steps[i : i+1]
	}
	return steps
}

// prompt reports whether the step is the bookkeeping of a controller. Where the platform is prompt, it takes place before anything else.
func (s Step) prompt() bool {
	switch s.Who {
	case apiServer, jobs, collector, schedulerName, binder, protector:
		return true
	case setController:
		return strings.HasPrefix(s.What, "reports")
	}
	return false
}

// patience is what happens where nothing else can: a function has waited for a while within its event, or the next deadline is over.
func (w *World) patience() []Step {
	if !w.turn(functionNames[restoreRole]) {
		return nil
	}
	if writes := writesOf(w.decide(w.observe(), restoreRole, 10*time.Second)); len(writes) > 0 {
		return []Step{{Who: "restore", What: "has waited", do: func(w *World) { w.functions[restoreRole].pending = writes }}}
	}
	next, found := w.deadline()
	if !found {
		return nil
	}
	return []Step{{Who: "clock", What: fmt.Sprintf("it is %s later", next.Sub(w.now)), do: func(w *World) { w.now = next }}}
}

// deadline is the next time at which something is given up.
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
