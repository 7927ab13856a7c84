package idle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/statefulset"
)

// Values of a sleep's Request: the reasons for a sleep.
const (
	RequestPaused = "paused" // the user set the annotation drydock.dev/paused
	RequestIdle   = "idle"   // there was no activity for the timeout
	RequestAsked  = "asked"  // an event or an annotation requested it
)

// Member is a StatefulSet of a group, or a StatefulSet without a group.
type Member struct {
	Set   *appsv1.StatefulSet
	Rules Rules
	// Err lists the invalid annotations, or is nil.
	Err error
	// Sleep is the set's latest sleep, or nil if it never slept.
	Sleep *api.Sleep
	// SleepErr says why the record of the latest sleep cannot be read, or is nil.
	SleepErr error
	// Busy is true if another operation runs on the set, or may run.
	Busy bool
	// RetryRequested is true if an annotation requests another try of the sleep.
	RetryRequested bool
}

// MemberOf returns the member of a set.
func MemberOf(set *appsv1.StatefulSet) Member {
	return NewMember(set, operation.Of(set))
}

// NewMember returns the member of a set with these records.
func NewMember(set *appsv1.StatefulSet, records operation.Records) Member {
	_, resize := set.Annotations[api.ResizeAnnotation] // then a retry belongs to the resize
	m := Member{Set: set, Sleep: records.Sleep, SleepErr: records.SleepErr, Busy: records.Busy(api.KindSleep),
		RetryRequested: records.Retried(set) && !resize}
	m.Rules, m.Err = ParseRules(set)
	return m
}

// Verdict says whether a set has to be awake.
type Verdict struct {
	Awake bool
	// Why is the reason in words, for example "web was active at 2026-03-01T12:00:00Z".
	Why string
	// Request is the reason for a sleep, or empty if the set has to be awake.
	Request string
}

// Group holds the members of a group, or one set without a group.
type Group []Member

// Timeout returns the longest idle timeout of the group. It applies to members without a timeout, too. If it is 0, the group does not
// fall asleep.
func (g Group) Timeout() time.Duration {
	var longest time.Duration
	for _, m := range g {
		if m.Err == nil {
			longest = max(longest, m.Rules.Timeout)
		}
	}
	return longest
}

// Verdicts returns the verdict on each member at the time. asked is when an event requested the group's sleep, or zero. An activity
// before a request does not keep the group awake. Anything unknown keeps it awake.
func (g Group) Verdicts(now, asked time.Time) []Verdict {
	for _, m := range g {
		if m.Sleep.Active() && m.Sleep.Request == RequestAsked && m.Sleep.Started.After(asked) {
			asked = m.Sleep.Started.Time
		}
		if at := m.Rules.SleepRequested; at.After(asked) && !at.After(now) {
			asked = at
		}
	}
	asked = asked.Truncate(time.Second) // activities have whole seconds; an activity in the same second wins
	timeout, kept := g.Timeout(), ""
	for _, m := range g {
		if why := m.reasonToStayAwake(now, asked, timeout); why != "" {
			kept = m.Set.Name + " " + why
			break
		}
	}
	verdicts := make([]Verdict, len(g))
	for i, m := range g {
		verdicts[i] = m.verdict(timeout, kept, asked)
	}
	return verdicts
}

// VerdictAlone returns the verdict without the rest of the group. A sleeping member without a timeout stays asleep, because only
// the other members know the timeout.
func (m Member) VerdictAlone(now time.Time) Verdict {
	grouped := m.Set.Labels[api.GroupLabel] != "" && m.Rules.Timeout == 0
	if grouped && m.Sleep.Active() && m.Sleep.Phase != api.Waking && m.reasonToStayAwake(now, time.Time{}, 0) == "" {
		return Verdict{Request: RequestIdle, Why: "the state of its group is unknown"}
	}
	return Group{m}.Verdicts(now, time.Time{})[0]
}

// verdict returns the verdict on the member. kept says why a member keeps the group awake, or is empty.
func (m Member) verdict(timeout time.Duration, kept string, asked time.Time) Verdict {
	switch {
	case m.Err != nil:
		return Verdict{Awake: true, Why: "the set has invalid annotations"}
	case m.Rules.Paused:
		return Verdict{Request: RequestPaused, Why: api.PausedAnnotation + " is set"}
	case kept != "":
		return Verdict{Awake: true, Why: kept}
	case timeout == 0:
		return Verdict{Awake: true, Why: "the set has no " + api.IdleTimeoutAnnotation}
	case !asked.IsZero():
		return Verdict{Request: RequestAsked, Why: "a sleep was requested"}
	}
	return Verdict{Request: RequestIdle, Why: fmt.Sprintf("nothing was active for %s", timeout)}
}

// reasonToStayAwake returns why the member keeps its group awake, or "". The text follows the member's name. A paused member keeps no
// other member
// awake.
func (m Member) reasonToStayAwake(now, asked time.Time, timeout time.Duration) string {
	r := m.Rules
	switch {
	case m.Err != nil || m.SleepErr != nil:
		return "has invalid annotations"
	case r.Paused:
		return ""
	case now.Before(r.AwakeUntil):
		return "is awake until " + FormatTime(r.AwakeUntil)
	case slices.ContainsFunc(r.KeepWarm, func(w Window) bool { return w.Open(now) }):
		return "is kept warm at this hour"
	case m.Sleep.Active():
		return m.reasonToWake()
	case timeout == 0 || statefulset.Replicas(m.Set) == 0:
		return ""
	case r.LastActivity.IsZero() && asked.IsZero():
		return "has no known last activity"
	case now.Before(m.readySince().Add(r.MinUptime)):
		return "has not been up for " + r.MinUptime.String()
	case now.Before(m.lastUsed().Add(timeout+Throttle(timeout))) && !asked.After(m.lastUsed()):
		return "was active at " + FormatTime(m.lastUsed())
	}
	return ""
}

// lastUsed returns the last activity, or when the set became ready if that is later. So a slow start does not count as idle time.
func (m Member) lastUsed() time.Time {
	if m.Sleep != nil && m.Sleep.ReadyAt != nil && m.Sleep.ReadyAt.After(m.Rules.LastActivity) {
		return m.Sleep.ReadyAt.Time
	}
	return m.Rules.LastActivity
}

// reasonToWake returns why a member with an active sleep wakes its group, or "". An activity in the second of the decision wakes it.
func (m Member) reasonToWake() string {
	switch {
	case m.Sleep.Request == RequestPaused:
		return "is no longer paused"
	case m.Sleep.Phase != api.Waking && !m.Rules.LastActivity.Before(m.Sleep.Started.Truncate(time.Second)):
		return "was active at " + FormatTime(m.Rules.LastActivity)
	case m.Sleep.Phase == api.Waking:
		return "is waking up"
	}
	return ""
}

// readySince returns when the set became ready after its latest sleep, else when it was created.
func (m Member) readySince() time.Time {
	if m.Sleep != nil && m.Sleep.ReadyAt != nil {
		return m.Sleep.ReadyAt.Time
	}
	return m.Set.CreationTimestamp.Time
}

// StoresActivity reports whether an activity at the time has to be stored: the stored activity is older than the throttle, or the set has
// an
// active sleep.
func (g Group) StoresActivity(m Member, at time.Time) bool {
	last := m.Rules.LastActivity
	for _, other := range g {
		decided := other.Sleep.Active() && (other.Set.Name == m.Set.Name || other.Sleep.Request == RequestAsked)
		if decided && last.Before(other.Sleep.Started.Truncate(time.Second)) {
			return at.After(last)
		}
	}
	return at.Sub(last) >= max(Throttle(g.Timeout()), time.Second)
}

// WakeOrder sorts the group so that each member comes after its dependencies. It returns an error if the dependencies form a cycle, or
// name a set outside the group.
func (g Group) WakeOrder() (Group, error) {
	left := slices.Clone(g)
	slices.SortFunc(left, func(a, b Member) int { return strings.Compare(a.Set.Name, b.Set.Name) })
	for _, m := range left {
		for _, name := range m.Rules.DependsOn {
			if g.Find(name) == nil {
				return left, fmt.Errorf("%s of StatefulSet %s/%s names %s, which is no opted-in member of its group %q",
					api.DependsOnAnnotation, m.Set.Namespace, m.Set.Name, name, m.Set.Labels[api.GroupLabel])
			}
		}
	}
	sorted := Group{}
	for len(left) > 0 {
		i := slices.IndexFunc(left, func(m Member) bool {
			return !slices.ContainsFunc(m.Rules.DependsOn, func(name string) bool { return sorted.Find(name) == nil })
		})
		if i < 0 {
			return append(sorted, left...), fmt.Errorf("%s of StatefulSet %s/%s leads in a circle",
				api.DependsOnAnnotation, left[0].Set.Namespace, left[0].Set.Name)
		}
		sorted, left = append(sorted, left[i]), slices.Delete(left, i, i+1)
	}
	return sorted, nil
}

// InWakeOrder returns the group sorted by Order. If there is no order, the members with dependencies get the error.
func (g Group) InWakeOrder() Group {
	sorted, err := g.WakeOrder()
	for i := range sorted {
		if err != nil && sorted[i].Err == nil && len(sorted[i].Rules.DependsOn) > 0 {
			sorted[i].Err = err
		}
	}
	return sorted
}

// Find returns the member with the name, or nil.
func (g Group) Find(name string) *Member {
	i := slices.IndexFunc(g, func(m Member) bool { return m.Set.Name == name })
	if i < 0 {
		return nil
	}
	return &g[i]
}
