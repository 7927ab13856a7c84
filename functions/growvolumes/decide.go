package growvolumes

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
)

// Decide is pure. It requests a resize "at least", which detect-resize carries out, and only where every claim of the template can grow in
// place, so that no member stops. It makes one Warning of each obstacle.
func Decide(in Input) plan.Plan {
	p, _ := decide(in)
	return p
}

// decide also returns the warnings that hold.
func decide(in Input) (plan.Plan, []api.GrowthWarning) {
	reason := in.rests()
	if reason != "" && reason != api.NoGrowth {
		return plan.Noop(reason), nil
	}
	memory, err := api.LoadGrowth(in.Set)
	switch {
	case reason == api.NoGrowth && (memory == nil || len(memory.Told) == 0):
		return plan.Noop(reason), nil
	case reason == api.NoGrowth: // what was told does not hold any more
		return in.tell(memory, reason, nil)
	}
	if err != nil {
		return plan.Do(api.GrowInvalid, in.note(true, api.GrowInvalid, err.Error())), nil
	}
	if memory == nil {
		memory = api.NewGrowth(in.Set)
	}
	if in.Invalid != "" {
		return in.tell(memory, api.GrowInvalid, []api.GrowthWarning{{Reason: api.GrowInvalid, Message: in.Invalid}})
	}
	needs, warnings := in.needs()
	if len(needs) == 0 {
		return in.tell(memory, api.EnoughFree, warnings)
	}
	needs, blocked := in.possible(needs)
	if warnings = append(warnings, blocked...); len(needs) == 0 {
		return in.tell(memory, api.GrowthBlocked, warnings)
	}
	return in.ask(memory, needs, warnings)
}

// rests returns why the set does not grow whatever the usage of its volumes is; "" if it may.
func (in Input) rests() api.Reason {
	if reason, _ := in.busy(); reason != "" {
		return reason
	}
	if !in.Asks {
		return api.NoGrowth
	}
	return ""
}

// ask writes the request for the templates that need to grow. A request that stands is kept for the other templates.
func (in Input) ask(memory *api.Growth, needs []need, warnings []api.GrowthWarning) (plan.Plan, []api.GrowthWarning) {
	standing, state, why := in.standing(memory)
	switch state {
	case open:
		return in.tell(memory, api.GrowthPaused, append(warnings, in.waiting(memory, needs)...))
	case blocks:
		for _, n := range needs {
			warnings = append(warnings, n.blocked(why))
		}
		return in.tell(memory, api.GrowthBlocked, warnings)
	}
	due := slices.DeleteFunc(slices.Clone(needs), func(n need) bool { return in.pauses(memory, n, state) })
	if len(due) == 0 {
		return in.tell(memory, api.GrowthPaused, warnings)
	}
	next, text := memory.Clone(), render(in.kept(standing, state), due)
	if state == refused && text == memory.Request {
		for _, n := range due {
			warnings = append(warnings, n.blocked(why))
		}
		return in.tell(memory, api.GrowthBlocked, warnings)
	}
	if next.Asked == nil {
		next.Asked = map[string]api.AskedGrowth{}
	}
	var notes []plan.Action
	for _, n := range due {
		next.Asked[n.template] = api.AskedGrowth{At: metav1.NewTime(in.Now), Size: n.target.String(), Saw: n.saw}
		notes = append(notes, in.note(false, api.VolumesGrow, n.announcement()))
	}
	next.Request = text
	patch := plan.PatchOf(plan.StatefulSets, in.Set).Annotate(api.ResizeAnnotation, text)
	if patch.Empty() { // the same request has failed
		patch.Annotate(api.RetryAnnotation, retryByGrowth)
	}
	notes = append(notes, in.news(next, warnings)...)
	patch.Annotate(api.GrowthAnnotation, next.Encode())
	return plan.Do(api.VolumesGrow, append(patch.Actions(), notes...)...), warnings
}

// retryByGrowth is the value of the retry annotation that grow-volumes writes.
const retryByGrowth = "growth"

// pauses reports whether it is too early for the template to grow again.
func (in Input) pauses(memory *api.Growth, n need, state state) bool {
	pause := n.rule.Every
	switch state {
	case failed:
		pause = n.rule.Pause()
	case refused: // nothing has grown
		return false
	}
	last, grown := memory.Asked[n.template]
	record := operation.Of(in.Set).Resize
	if state == failed && record != nil && record.Finished != nil && in.Now.Sub(record.Finished.Time) < pause {
		return true
	}
	return grown && in.Now.Sub(last.At.Time) < pause
}

// tell stores the warnings that hold, and makes Events of the new ones. Nothing new writes nothing.
func (in Input) tell(memory *api.Growth, reason api.Reason, warnings []api.GrowthWarning) (plan.Plan, []api.GrowthWarning) {
	next := memory.Clone()
	notes := in.news(next, warnings)
	patch := plan.PatchOf(plan.StatefulSets, in.Set)
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

func (in Input) news(next *api.Growth, warnings []api.GrowthWarning) []plan.Action {
	var notes []plan.Action
	for _, w := range next.Tell(warnings) {
		notes = append(notes, in.note(true, w.Reason, w.Message))
	}
	return notes
}

func (in Input) note(warning bool, reason api.Reason, message string) plan.Action {
	return plan.Record(in.Set.Namespace, in.Set.Name, plan.Note{Warning: warning, Reason: reason, Message: message, UID: in.Set.UID})
}

// render writes the request: what stands, and what is due, as "data=12Gi+,logs=2Gi+".
func render(standing map[string]api.Target, due []need) string {
	sizes := map[string]string{}
	for template, target := range standing {
		sizes[template] = sizeText(target.Size)
	}
	for _, n := range due {
		if has, stands := standing[n.template]; !stands || has.Size.Cmp(n.target) < 0 {
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

// sizeText writes a size as a number with a binary suffix. The fence of the account takes no exponent, as in 1e12 (config/policy/fence-sets.yaml).
func sizeText(size resource.Quantity) string {
	return resource.NewQuantity(size.Value(), resource.BinarySI).String()
}

// kept returns the sizes of growth's own request that stay in the next one. What the claims do not have yet, the rules of now have to allow.
func (in Input) kept(standing map[string]api.Target, state state) map[string]api.Target {
	if state == met {
		return standing
	}
	kept := map[string]api.Target{}
	for template, target := range standing {
		rule, asked := in.Rules.For(template)
		if target.Size.Cmp(rule.Max) > 0 {
			target.Size = rule.Max
		}
		if asked {
			kept[template] = target
		}
	}
	return kept
}

// longestWait is how long growth's own request may wait to begin before that is told.
const longestWait = 15 * time.Minute

// waiting returns warnings about growth's own request if it has not begun for long, as while a claim has lost its volume.
func (in Input) waiting(memory *api.Growth, needs []need) (warnings []api.GrowthWarning) {
	reason, _ := resize.Rests(resize.Input{Observed: in.Observed})
	text := in.Set.Annotations[api.ResizeAnnotation]
	for _, n := range needs {
		last, asked := memory.Asked[n.template]
		if reason == "" && text == memory.Request && asked && in.Now.Sub(last.At.Time) > longestWait {
			warnings = append(warnings, n.blocked(fmt.Sprintf("the request %s=%s has not begun yet. See what it waits for: kubectl describe -n %s sts/%s",
				api.ResizeAnnotation, text, in.Set.Namespace, in.Set.Name)))
		}
	}
	return warnings
}

// stuck returns how many templates have a volume that is nearly full and does not grow.
func stuck(warnings []api.GrowthWarning) int {
	n := 0
	for _, w := range warnings {
		if w.Reason == api.GrowthLimit || w.Reason == api.GrowthBlocked {
			n++
		}
	}
	return n
}
