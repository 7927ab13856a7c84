package growvolumes

import (
	"fmt"
	"maps"
	"slices"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/grow"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
)

// Input is everything that Decide depends on.
type Input struct {
	// Observed contains only the set and its claims.
	*world.Observed
	// Enabled reports whether growth is enabled for the set, by its own annotation or by the default of its namespace.
	Enabled bool
	Rules   grow.Rules
	// RulesError is why the rules cannot be read; empty if they can.
	RulesError string
	// Consent is the consent of the namespace to a change of the custom resource that controls the set. It is read only if a volume is nearly
	// full, and Drydock is to change that resource.
	Consent api.OwnerConsent
	// Usage is the measured usage, by claim.
	Usage map[string]grow.Usage
	// Classes are the StorageClasses of the claims, by name. They are read only if a volume is nearly full. A class that does not exist is
	// nil.
	Classes map[string]*storagev1.StorageClass
}

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

// inactiveReason returns why the set does not grow, whatever the usage of its volumes. It returns "" if the set may grow.
func (in Input) inactiveReason() api.Reason {
	if reason, _ := resize.Busy(resize.Input{Observed: in.Observed}); reason != "" {
		return reason
	}
	if !in.Enabled || statefulset.Replicas(in.Set) == 0 {
		return api.NoGrowth
	}
	return ""
}

// resizeState is the state of what the set requests: of the user's request first, then of the floors of growth.
type resizeState int

const (
	// nothingOpen means that the set fulfils the request and the floors.
	nothingOpen resizeState = iota
	// resizeOpen means that detect-resize has yet to judge the request or the floors, or to carry them out.
	resizeOpen
	// growthFailed means that the storage has not carried out the latest growth.
	growthFailed
	// growthRefused means that detect-resize refuses the latest growth at present.
	growthRefused
	// requestBlocks means that the user's request was refused or has failed. Growth waits until the user resolves it.
	requestBlocks
)

// resizeState returns the state. If growth is open, refused or blocked, the text says why, with an instruction for the user.
func (in Input) resizeState() (resizeState, string) {
	request, _ := api.RequestOf(in.Set)
	record := operation.Of(in.Set).Resize
	pending, reason, err := resize.NeededChanges(resize.Input{Observed: in.Observed})
	switch {
	case err != nil: // detect-resize reports it
		return resizeOpen, ""
	case pending == nil && reason == api.AlreadyRefused:
		return requestBlocks, fmt.Sprintf("the requested change to %s has failed or was rolled back. Retry it with %s, or change "+
			"what is requested", request, operation.RetryCommand(in.Set))
	case pending != nil && pending.GrowTo == "" && resize.IsRefusalOf(record, in.Set) && !record.IsGrowth():
		return requestBlocks, fmt.Sprintf("the requested change to %s was refused (%s). Remove its cause, or change what is requested",
			request, record.Reason)
	case pending != nil && pending.GrowTo == "":
		return resizeOpen, ""
	case pending != nil && resize.IsRefusalOf(record, in.Set): // detect-resize judges it again at each tick
		return growthRefused, fmt.Sprintf("the growth to %s was refused (%s). It begins by itself when the cause is gone", pending.GrowTo,
			record.Reason)
	case pending != nil:
		return resizeOpen, fmt.Sprintf("the growth to %s has not begun yet. Find the cause: kubectl describe -n %s sts/%s", pending.GrowTo,
			in.Set.Namespace, in.Set.Name)
	case world.GrowthFailed(in.Set, record):
		return growthFailed, ""
	}
	return nothingOpen, ""
}

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
