package growvolumes

import (
	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
)

// report stores the current warnings, records an Event for each new one, and removes floors that no longer count. If nothing has changed,
// the plan writes nothing.
func (in Input) report(growth *api.Growth, reason api.Reason, warnings []api.GrowthWarning) (plan.Plan, []api.GrowthWarning) {
	next := in.withoutReplacedGrowths(growth)
	notes := in.eventsForNew(next, warnings)
	patch := plan.PatchOf(plan.StatefulSets, in.Set)
	if floors := in.floors(); len(floors) == 0 {
		patch.Unannotate(api.GrowToAnnotation)
	} else {
		patch.Annotate(api.GrowToAnnotation, api.FormatGrowTo(floors))
	}
	if _, known := in.Set.Annotations[api.GrowthAnnotation]; known || !next.Empty() {
		patch.Annotate(api.GrowthAnnotation, next.Encode())
	}
	for _, w := range warnings {
		if reason == api.EnoughFree {
			reason = w.Reason
		}
	}
	return plan.Do(reason, append(patch.Actions(), notes...)...), warnings
}

// eventsForNew stores the warnings in next, and returns an Event for each warning that was not stored before.
func (in Input) eventsForNew(next *api.Growth, warnings []api.GrowthWarning) []plan.Action {
	var notes []plan.Action
	for _, w := range next.UpdateWarnings(warnings) {
		notes = append(notes, in.event(true, w.Reason, w.Message))
	}
	return notes
}

func (in Input) event(warning bool, reason api.Reason, message string) plan.Action {
	return plan.Event(in.Set.Namespace, in.Set.Name, plan.Note{Warning: warning, Reason: reason, Message: message, UID: in.Set.UID})
}

// countStuck returns the number of templates with a volume that is nearly full and cannot grow.
func countStuck(warnings []api.GrowthWarning) int {
	n := 0
	for _, w := range warnings {
		if w.Reason == api.GrowthLimit || w.Reason == api.GrowthBlocked {
			n++
		}
	}
	return n
}
