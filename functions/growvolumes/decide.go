package growvolumes

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
)

// Decide raises the floors of templates whose volumes are nearly full. detect-resize then makes the claims grow to them. Decide raises a
// floor only if every claim of the template can grow in place, so that no member stops. It records one Warning for each obstacle. It is
// pure.
func Decide(in Input) plan.Plan {
	p, _ := decideWithWarnings(in)
	return p
}

// decideWithWarnings returns the decision of Decide, and all current warnings, also the ones reported before.
func decideWithWarnings(in Input) (plan.Plan, []api.GrowthWarning) {
	reason := in.inactiveReason()
	if reason != "" && reason != api.NoGrowth {
		return plan.Noop(reason), nil
	}
	growth, err := api.LoadGrowth(in.Set)
	switch {
	case err != nil && reason == "":
		return plan.Do(api.GrowInvalid, in.event(true, api.GrowInvalid, err.Error())), nil
	case err != nil:
		return plan.Noop(reason), nil
	case growth == nil:
		growth = api.NewGrowth(in.Set)
	}
	if reason == api.NoGrowth { // the reported warnings no longer apply
		return in.report(growth, reason, nil)
	}
	if in.RulesError != "" {
		return in.report(growth, api.GrowInvalid, []api.GrowthWarning{{Reason: api.GrowInvalid, Message: in.RulesError}})
	}
	needs, warnings := in.findNeeds()
	if len(needs) == 0 {
		return in.report(growth, api.EnoughFree, warnings)
	}
	needs, blocked := in.withoutObstacle(needs)
	if warnings = append(warnings, blocked...); len(needs) == 0 {
		return in.report(growth, api.GrowthBlocked, warnings)
	}
	return in.raiseFloors(growth, needs, warnings)
}

// raiseFloors raises the floors of the templates that need to grow.
func (in Input) raiseFloors(growth *api.Growth, needs []need, warnings []api.GrowthWarning) (plan.Plan, []api.GrowthWarning) {
	state, why := in.resizeState()
	switch state {
	case resizeOpen:
		return in.report(growth, api.GrowthPaused, append(warnings, in.stalledGrowth(growth, needs, why)...))
	case requestBlocks:
		return in.report(growth, api.GrowthBlocked, append(warnings, blockedWarnings(needs, why)...))
	}
	floors := in.floors()
	due := slices.DeleteFunc(slices.Clone(needs), func(n need) bool { return in.mustPause(growth, n, state) })
	if state == growthRefused {
		due = in.afterRefusal(growth, due, floors)
	}
	if len(due) == 0 {
		return in.report(growth, api.GrowthPaused, warnings)
	}
	if state != nothingOpen { // a floor that was not reached would end the next growth in the same way
		maps.DeleteFunc(floors, func(template string, floor resource.Quantity) bool { return in.isUnmet(template, floor) })
	}
	next := in.withoutReplacedGrowths(growth)
	if next.Latest == nil {
		next.Latest = map[string]api.RequestedGrowth{}
	}
	next.After = ""
	if record := operation.Of(in.Set).Resize; record != nil {
		next.After = record.Operation
	}
	var notes []plan.Action
	requested := world.RequestedSizes(in.Set)
	for _, n := range due {
		floors[n.template] = n.target
		next.Latest[n.template] = api.RequestedGrowth{At: metav1.NewTime(in.Now), Size: n.target.String(), Cause: n.shortage,
			Over: ptr.To(requested[n.template])}
		notes = append(notes, in.event(false, api.VolumesGrow, n.announcement()))
	}
	text := api.FormatGrowTo(floors)
	if state == growthRefused && text == in.Set.Annotations[api.GrowToAnnotation] {
		return in.report(growth, api.GrowthBlocked, append(warnings, blockedWarnings(due, why)...))
	}
	notes = append(notes, in.eventsForNew(next, warnings)...)
	patch := plan.PatchOf(plan.StatefulSets, in.Set).Annotate(api.GrowToAnnotation, text).Annotate(api.GrowthAnnotation, next.Encode())
	return plan.Do(api.VolumesGrow, append(patch.Actions(), notes...)...), warnings
}

// floors returns the floors that stay: those that the user has not replaced, of templates with a rule. Rules that cannot be read change
// none.
func (in Input) floors() map[string]resource.Quantity {
	floors := map[string]resource.Quantity{}
	for template, target := range world.FloorTargets(world.GrowTo(in.Set, operation.Of(in.Set).Resize, true)) {
		if _, hasRule := in.Rules.For(template); in.Enabled && (hasRule || in.RulesError != "") {
			floors[template] = target.Size
		}
	}
	return floors
}

// withoutReplacedGrowths returns a copy of growth that says which growths the user has replaced by another size.
func (in Input) withoutReplacedGrowths(growth *api.Growth) *api.Growth {
	next, standing := growth.Clone(), world.StandingGrowths(in.Set, operation.Of(in.Set).Resize)
	for template, latest := range next.Latest {
		if _, stands := standing[template]; !stands {
			latest.Over = nil
			next.Latest[template] = latest
		}
	}
	return next
}

// turnAfterRefusal is how long a refused floor for one template stays before another template gets its turn.
const turnAfterRefusal = 15 * time.Minute

// afterRefusal returns the needs for the growth after a refused one. A quota may have room for one template but not for all, so the next
// growth is of one. If that is refused, too, the templates take turns. The others follow when one has grown.
func (in Input) afterRefusal(growth *api.Growth, due []need, refused map[string]resource.Quantity) []need {
	named := slices.DeleteFunc(slices.Clone(due), func(n need) bool { _, ok := refused[n.template]; return !ok })
	switch {
	case len(named) == 0:
		return due
	case len(named) == 1 && len(due) > 1 && !operation.Within(in.Now, growth.Latest[named[0].template].At.Time, turnAfterRefusal):
		requestedAt := func(n need) time.Time { return growth.Latest[n.template].At.Time }
		longest := slices.MinFunc(due, func(a, b need) int { return requestedAt(a).Compare(requestedAt(b)) })
		return []need{longest}
	}
	return named[:1]
}

// mustPause reports whether the template must wait before it grows again: after a growth for the rule's interval, and after a failure for
// the rule's pause.
func (in Input) mustPause(growth *api.Growth, n need, state resizeState) bool {
	if state == growthRefused { // no volume has grown
		return false
	}
	last, grown := growth.Latest[n.template]
	pause, failed := n.rule.Every, grown && in.hasFailedToGrow(n.template)
	if failed {
		pause = n.rule.Pause()
	}
	record := operation.Of(in.Set).Resize
	if failed && state == growthFailed && record.Finished != nil && operation.Within(in.Now, record.Finished.Time, pause) {
		return true
	}
	return grown && operation.Within(in.Now, last.At.Time, pause)
}

// hasFailedToGrow reports whether the template's latest growth has failed. Its floor may be gone, so that other templates can grow. If the
// user has decided about the size since, smaller claims are no failure.
func (in Input) hasFailedToGrow(template string) bool {
	latest, stands := world.StandingGrowths(in.Set, operation.Of(in.Set).Resize)[template]
	return stands && slices.ContainsFunc(in.memberClaims(template), func(c statefulset.Claim) bool { return latest.Exceeds(volumeSize(c)) })
}

// isUnmet reports whether a claim of the template is smaller than the size.
func (in Input) isUnmet(template string, size resource.Quantity) bool {
	return slices.ContainsFunc(in.memberClaims(template), func(c statefulset.Claim) bool {
		present := volumeSize(c)
		return present.Cmp(size) < 0
	})
}

// maxWaitForBegin is how long a growth may wait to begin before a warning reports it.
const maxWaitForBegin = 15 * time.Minute

// stalledGrowth returns warnings if a growth has not begun for maxWaitForBegin, for example because a claim has lost its volume. why is
// empty if no growth is open.
func (in Input) stalledGrowth(growth *api.Growth, needs []need, why string) []api.GrowthWarning {
	stalled := slices.DeleteFunc(slices.Clone(needs), func(n need) bool {
		last, grown := growth.Latest[n.template]
		return why == "" || !grown || operation.Within(in.Now, last.At.Time, maxWaitForBegin)
	})
	return blockedWarnings(stalled, why)
}
