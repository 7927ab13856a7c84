package idletimeout

import (
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// recordActivity stores the activity that the event reports.
func recordActivity(in Input, m idle.Member) plan.Plan {
	if !in.Signal.reportsUse() || !statefulset.Managed(m.Set) || m.Err != nil || in.Group.Timeout() == 0 ||
		!in.Group.StoresActivity(m, in.Signal.At) {
		return plan.Noop(api.NotIdle)
	}
	return plan.Do(api.ActivityNoted, setLastActivity(plan.PatchOf(plan.StatefulSets, m.Set), m, in.Signal.At).Actions()...)
}

// setLastActivity moves the last activity of the member later, never earlier.
func setLastActivity(p *plan.Patch, m idle.Member, at time.Time) *plan.Patch {
	if at.Truncate(time.Second).After(m.Rules.LastActivity) {
		p.Annotate(api.LastActivityAnnotation, idle.FormatTime(at))
	}
	return p
}
