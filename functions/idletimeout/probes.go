package idletimeout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// membersToProbe returns the members whose activity probe decides whether the group falls asleep.
func (in Input) membersToProbe() []idle.Member {
	group, verdicts := in.judge()
	var probes []idle.Member
	for i, m := range group {
		due := verdicts[i].Probes && !m.Sleep.Active() && !in.isBackingOff(m, verdicts[i])
		if due && m.Rules.Probe != nil && statefulset.Replicas(m.Set) > 0 && statefulset.Managed(m.Set) {
			probes = append(probes, m)
		}
	}
	return probes
}

// allProbed reports whether every running member with a probe was asked. A member whose probe failed recently is not asked, and
// keeps its group awake. A paused member is not asked, and keeps none awake.
func allProbed(probes map[string]ProbeResult, group idle.Group) bool {
	return !slices.ContainsFunc(group, func(m idle.Member) bool {
		_, asked := probes[m.Set.Name]
		return m.Rules.Probe != nil && !m.Rules.Paused && statefulset.Replicas(m.Set) > 0 && !m.Sleep.Active() && !asked
	})
}

// anyProbeKeepsAwake reports whether a probe of this event failed or found a member in use. If the API server rejects the write that
// stores this, nothing else keeps the group awake.
func (in Input) anyProbeKeepsAwake() bool {
	for _, found := range in.Probes {
		if found.Active || found.Err != nil {
			return true
		}
	}
	return false
}

// handleProbes acts on members that are in use or whose probe failed. The set that the event names comes last, because an
// announcement ends the work on the event.
func handleProbes(in Input, group idle.Group) plan.Plan {
	last := slices.Clone(group)
	slices.SortStableFunc(last, func(a, b idle.Member) int { return cmp.Compare(in.rank(a), in.rank(b)) })
	for _, m := range last {
		switch found, asked := in.Probes[m.Set.Name]; {
		case !asked || in.isSkipped(m):
		case found.Err != nil:
			p := refuseSleep(in, m, api.AwaitsProbe, api.ProbeFailed, fmt.Sprintf("activity probe %s failed: %v. The set stays awake; the next "+
				"try is in %s", m.Rules.Probe, found.Err, in.Settings.SleepRetry))
			if m.Set.Name != in.Name {
				p.Announce = ""
			}
			return p
		case found.Active:
			patch := plan.PatchOf(plan.StatefulSets, m.Set)
			if failed := m.Sleep; failed != nil && failed.Phase == api.Refused && failed.Step == api.AwaitsProbe {
				next := failed.Clone()
				next.Step, next.Reason, next.Message = api.CauseRemoved, api.CauseGone, "the activity probe answers again"
				patch = operation.Store(m.Set, next)
			}
			return plan.Do(api.ActivityNoted, setLastActivity(patch, m, in.Now).Actions()...)
		}
	}
	return plan.Noop(api.NotIdle)
}

// rank returns 1 for the set that the event names, and 0 for other sets.
func (in Input) rank(m idle.Member) int {
	if m.Set.Name == in.Name {
		return 1
	}
	return 0
}

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
