package growvolumes

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/bounded"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/statefulset"
)

// Decide requests a resize of templates whose volumes are nearly full. The request is "at least this size" (12Gi+), and detect-resize
// carries it out. Decide requests it only if every claim of the template can grow in place, so that no member stops. It records one Warning
// for each obstacle. It is pure.
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
	case reason == api.NoGrowth && (growth == nil || len(growth.Warnings) == 0):
		return plan.Noop(reason), nil
	case reason == api.NoGrowth: // the reported warnings no longer apply
		return in.report(growth, reason, nil)
	}
	if err != nil {
		return plan.Do(api.GrowInvalid, in.event(true, api.GrowInvalid, err.Error())), nil
	}
	if growth == nil {
		growth = api.NewGrowth(in.Set)
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
	return in.requestGrowth(growth, needs, warnings)
}

// requestGrowth writes a request for the templates that need to grow. It keeps sizes of the other templates; see keptTargets.
func (in Input) requestGrowth(growth *api.Growth, needs []need, warnings []api.GrowthWarning) (plan.Plan, []api.GrowthWarning) {
	current, state, why := in.currentRequest(growth)
	switch state {
	case requestOpen:
		return in.report(growth, api.GrowthPaused, append(warnings, in.stalledRequest(growth, needs)...))
	case requestBlocks:
		for _, n := range needs {
			warnings = append(warnings, n.blockedWarning(why))
		}
		return in.report(growth, api.GrowthBlocked, warnings)
	}
	due := slices.DeleteFunc(slices.Clone(needs), func(n need) bool {
		return in.mustPause(growth, n, state, in.isUnmet(n.template, current))
	})
	if state == requestRefused {
		due = in.afterRefusal(growth, due, current)
	}
	if len(due) == 0 {
		return in.report(growth, api.GrowthPaused, warnings)
	}
	next, text := growth.Clone(), renderRequest(in.keptTargets(current, state), due)
	if state == requestRefused && text == growth.Request {
		for _, n := range due {
			warnings = append(warnings, n.blockedWarning(why))
		}
		return in.report(growth, api.GrowthBlocked, warnings)
	}
	if next.Latest == nil {
		next.Latest = map[string]api.RequestedGrowth{}
	}
	var notes []plan.Action
	for _, n := range due {
		next.Latest[n.template] = api.RequestedGrowth{At: metav1.NewTime(in.Now), Size: n.target.String(), Cause: n.shortage}
		notes = append(notes, in.event(false, api.VolumesGrow, n.announcement()))
	}
	next.Request = text
	patch := plan.PatchOf(plan.StatefulSets, in.Set).Annotate(api.ResizeAnnotation, text)
	if patch.Empty() { // the same request has failed before, so only a retry starts it again
		patch.Annotate(api.RetryAnnotation, retryByGrowth)
	}
	notes = append(notes, in.eventsForNew(next, warnings)...)
	patch.Annotate(api.GrowthAnnotation, next.Encode())
	return plan.Do(api.VolumesGrow, append(patch.Actions(), notes...)...), warnings
}

// turnAfterRefusal is how long a refused request for one template stays before another template gets its turn.
const turnAfterRefusal = 15 * time.Minute

// afterRefusal returns the needs for the request after a refused one. A quota may have room for one template but not for all, so the next
// request names one. If that is refused, too, the templates take turns. The others follow when one has grown.
func (in Input) afterRefusal(growth *api.Growth, due []need, refused map[string]api.Target) []need {
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

// retryByGrowth is the value of the retry annotation that grow-volumes writes.
const retryByGrowth = "growth"

// mustPause reports whether the template must wait before it grows again: after a growth for the rule's interval, and after a failure for
// the rule's pause. Unmet is true if the current request is for more of this template than its claims have.
func (in Input) mustPause(growth *api.Growth, n need, state requestState, unmet bool) bool {
	if state == requestRefused { // no volume has grown
		return false
	}
	last, grown := growth.Latest[n.template]
	pause, failed := n.rule.Every, state == requestFailed && unmet
	if failed || grown && in.hasFailedToGrow(n.template, last) {
		pause = n.rule.Pause()
	}
	record := operation.Of(in.Set).Resize
	if failed && record != nil && record.Finished != nil && operation.Within(in.Now, record.Finished.Time, pause) {
		return true
	}
	return grown && operation.Within(in.Now, last.At.Time, pause)
}

// hasFailedToGrow reports whether the template's latest growth has failed. The present request may not name the template any more. After a
// resize of the template has succeeded, smaller claims are no failure: for example, the user has shrunk them.
func (in Input) hasFailedToGrow(template string, latest api.RequestedGrowth) bool {
	record := operation.Of(in.Set).Resize
	if record != nil && record.Phase == api.Succeeded && record.Finished != nil && !record.Finished.Before(&latest.At) &&
		slices.ContainsFunc(record.Templates, func(t api.TemplateTarget) bool { return t.Name == template }) {
		return false
	}
	size, err := bounded.Quantity(latest.Size)
	return err == nil && in.isUnmet(template, map[string]api.Target{template: {Size: size}})
}

// renderRequest returns the request with the current targets and the due growth, for example "data=12Gi+,logs=2Gi+".
func renderRequest(current map[string]api.Target, due []need) string {
	sizes := map[string]string{}
	for template, target := range current {
		sizes[template] = sizeText(target.Size)
	}
	for _, n := range due {
		if target, requested := current[n.template]; !requested || target.Size.Cmp(n.target) < 0 {
			sizes[n.template] = sizeText(n.target)
		}
	}
	var parts []string
	for template, size := range sizes {
		parts = append(parts, fmt.Sprintf("%s=%s%s", template, size, api.AtLeast))
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

// sizeText renders a size as a number with a binary suffix. The admission policy for Drydock's account accepts no exponent such as 1e12
// (config/policy/fence-sets.yaml).
func sizeText(size resource.Quantity) string {
	return resource.NewQuantity(size.Value(), resource.BinarySI).String()
}

// keptTargets returns the targets of the current request that stay in the next request. After a failure or a refusal, a target that the
// claims have not reached does not stay: it would end the next request in the same way. The template requests it again when it is due.
func (in Input) keptTargets(current map[string]api.Target, state requestState) map[string]api.Target {
	if state == requestMet {
		return current
	}
	kept := maps.Clone(current)
	maps.DeleteFunc(kept, func(template string, _ api.Target) bool { return in.isUnmet(template, current) })
	return kept
}

// isUnmet reports whether a claim of the template is smaller than the target.
func (in Input) isUnmet(template string, targets map[string]api.Target) bool {
	target, requested := targets[template]
	return requested && slices.ContainsFunc(in.memberClaims(template), func(c statefulset.Claim) bool {
		size := volumeSize(c)
		return size.Cmp(target.Size) < 0
	})
}

// maxWaitForBegin is how long a request of grow-volumes may wait to begin before a warning reports it.
const maxWaitForBegin = 15 * time.Minute

// stalledRequest returns warnings if a request of grow-volumes has not begun for maxWaitForBegin, for example because a claim has lost its
// volume.
func (in Input) stalledRequest(growth *api.Growth, needs []need) (warnings []api.GrowthWarning) {
	reason, _ := resize.ReasonNotToStart(resize.Input{Observed: in.Observed})
	text := in.Set.Annotations[api.ResizeAnnotation]
	for _, n := range needs {
		last, asked := growth.Latest[n.template]
		if reason == "" && text == growth.Request && asked && !operation.Within(in.Now, last.At.Time, maxWaitForBegin) {
			warnings = append(warnings, n.blockedWarning(fmt.Sprintf("the request %s=%s has not begun yet. Find the cause: "+
				"kubectl describe -n %s sts/%s", api.ResizeAnnotation, text, in.Set.Namespace, in.Set.Name)))
		}
	}
	return warnings
}
