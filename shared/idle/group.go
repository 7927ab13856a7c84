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

// Why a set sleeps: the Request of its sleep's document.
const (
	ForPause = "paused" // somebody set the annotation
	ForIdle  = "idle"   // nothing was active for the timeout
	ForAsk   = "asked"  // an event asked for it
)

// Member is a StatefulSet of a group, or one alone.
type Member struct {
	Set   *appsv1.StatefulSet
	Rules Rules
	// Err is what is wrong with what people wrote.
	Err error
	// Sleep is the set's latest sleep; nil if it never slept.
	Sleep *api.Sleep
	// SleepErr is why the record of its latest sleep cannot be read.
	SleepErr error
	// Busy: a resize or a cleanup has the set, or may have it.
	Busy bool
	// Retried: an annotation asks for another try of the sleep.
	Retried bool
}

// MemberOf reads what a set tells about itself.
func MemberOf(set *appsv1.StatefulSet) Member {
	return NewMember(set, operation.Of(set))
}

// NewMember makes the member of a set with these records.
func NewMember(set *appsv1.StatefulSet, records operation.Records) Member {
	_, resize := set.Annotations[api.ResizeAnnotation] // the retry is about the resize
	m := Member{Set: set, Sleep: records.Sleep, SleepErr: records.SleepErr, Busy: records.Busy(api.KindSleep), Retried: records.Retried(set) && !resize}
	m.Rules, m.Err = Read(set)
	return m
}

// Verdict says whether a set is to be awake.
type Verdict struct {
	Awake bool
	// Why is a sentence's end: "its last activity is younger than the idle timeout".
	Why string
	// Request is why it is to sleep.
	Request string
}

// Group is the members of one group, or a set alone.
type Group []Member

// Timeout is the longest idle timeout of the group; it holds for members without one of their own. 0: no clock puts the
// group to sleep.
func (g Group) Timeout() time.Duration {
	var longest time.Duration
	for _, m := range g {
		if m.Err == nil {
			longest = max(longest, m.Rules.Timeout)
		}
	}
	return longest
}

// Judge says for each member whether it is to be awake at the time. Asked is when somebody asked for the group's sleep, zero
// if nobody did: then an activity before it does not keep the group awake. Whatever is unknown keeps it awake.
func (g Group) Judge(now, asked time.Time) []Verdict {
	for _, m := range g {
		if m.Sleep.Active() && m.Sleep.Request == ForAsk && m.Sleep.Started.After(asked) {
			asked = m.Sleep.Started.Time
		}
		if at := m.Rules.SleepRequested; at.After(asked) && !at.After(now) {
			asked = at
		}
	}
	asked = asked.Truncate(time.Second) // as activities are: one in the same second wins
	timeout, kept := g.Timeout(), ""
	for _, m := range g {
		if why := m.keeps(now, asked, timeout); why != "" {
			kept = m.Set.Name + ": " + why
			break
		}
	}
	verdicts := make([]Verdict, len(g))
	for i, m := range g {
		verdicts[i] = m.judge(timeout, kept, asked)
	}
	return verdicts
}

// Alone is what the member by itself tells: of one that sleeps with a group whose timeout it does not have, the others say
// whether it is to wake.
func (m Member) Alone(now time.Time) Verdict {
	grouped := m.Set.Labels[api.GroupLabel] != "" && m.Rules.Timeout == 0
	if grouped && m.Sleep.Active() && m.Sleep.Phase != api.Waking && m.keeps(now, time.Time{}, 0) == "" {
		return Verdict{Request: ForIdle, Why: "nothing is known of its group"}
	}
	return Group{m}.Judge(now, time.Time{})[0]
}

func (m Member) judge(timeout time.Duration, kept string, asked time.Time) Verdict {
	switch {
	case m.Err != nil:
		return Verdict{Awake: true, Why: "what is written on it cannot be understood"}
	case m.Rules.Paused:
		return Verdict{Request: ForPause, Why: api.PausedAnnotation + " is set"}
	case kept != "":
		return Verdict{Awake: true, Why: kept}
	case timeout == 0:
		return Verdict{Awake: true, Why: "it has no " + api.IdleTimeoutAnnotation}
	case !asked.IsZero():
		return Verdict{Request: ForAsk, Why: "somebody asked for it"}
	}
	return Verdict{Request: ForIdle, Why: fmt.Sprintf("nothing was active for %s", timeout)}
}

// keeps says why the member keeps its group awake, or is empty. A paused member sleeps by itself and keeps nobody.
func (m Member) keeps(now, asked time.Time, timeout time.Duration) string {
	r := m.Rules
	switch {
	case m.Err != nil || m.SleepErr != nil:
		return "what is written on it cannot be understood"
	case r.Paused:
		return ""
	case now.Before(r.AwakeUntil):
		return "awake until " + Stamp(r.AwakeUntil)
	case slices.ContainsFunc(r.KeepWarm, func(w Window) bool { return w.Open(now) }):
		return "it is kept warm at this hour"
	case m.Sleep.Active():
		return m.wakes()
	case timeout == 0 || statefulset.Replicas(m.Set) == 0:
		return ""
	case r.LastActivity.IsZero() && asked.IsZero():
		return "nobody knows when it was used last"
	case now.Before(m.up().Add(r.MinUptime)):
		return "it has not been up for " + r.MinUptime.String()
	case now.Before(m.used().Add(timeout+Throttle(timeout))) && !asked.After(m.used()):
		return "it was active at " + Stamp(m.used())
	}
	return ""
}

// used is the last activity, or when the set was ready after it: a set that starts slowly is not put to sleep as soon as it
// has started.
func (m Member) used() time.Time {
	if m.Sleep != nil && m.Sleep.Ready != nil && m.Sleep.Ready.After(m.Rules.LastActivity) {
		return m.Sleep.Ready.Time
	}
	return m.Rules.LastActivity
}

// wakes says why a member that sleeps, or is about to, wakes its group. An activity in the very second of the decision wins.
func (m Member) wakes() string {
	switch {
	case m.Sleep.Request == ForPause:
		return "it is not paused any more"
	case m.Sleep.Phase != api.Waking && !m.Rules.LastActivity.Before(m.Sleep.Started.Truncate(time.Second)):
		return "it was active at " + Stamp(m.Rules.LastActivity)
	case m.Sleep.Phase == api.Waking:
		return "it is waking up"
	}
	return ""
}

// up is since when the set has been ready, as far as Drydock knows.
func (m Member) up() time.Time {
	if m.Sleep != nil && m.Sleep.Ready != nil {
		return m.Sleep.Ready.Time
	}
	return m.Set.CreationTimestamp.Time
}

// Touch reports whether an activity at the time is worth writing down: the recorded one is older than the throttle, or the
// set sleeps or is about to.
func (g Group) Touch(m Member, at time.Time) bool {
	last := m.Rules.LastActivity
	for _, other := range g {
		decided := other.Sleep.Active() && (other.Set.Name == m.Set.Name || other.Sleep.Request == ForAsk)
		if decided && last.Before(other.Sleep.Started.Truncate(time.Second)) {
			return at.After(last)
		}
	}
	return at.Sub(last) >= max(Throttle(g.Timeout()), time.Second)
}

// Order sorts the group so that each member comes after all that it depends on. It errs if there is no such order, or if a
// member depends on one that the group does not have.
func (g Group) Order() (Group, error) {
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
			return append(sorted, left...), fmt.Errorf("%s of StatefulSet %s/%s leads in a circle", api.DependsOnAnnotation, left[0].Set.Namespace, left[0].Set.Name)
		}
		sorted, left = append(sorted, left[i]), slices.Delete(left, i, i+1)
	}
	return sorted, nil
}

// InOrder is the group as Order sorts it. Where there is no order, the members that depend on others are not understood.
func (g Group) InOrder() Group {
	sorted, err := g.Order()
	for i := range sorted {
		if err != nil && sorted[i].Err == nil && len(sorted[i].Rules.DependsOn) > 0 {
			sorted[i].Err = err
		}
	}
	return sorted
}

// Find returns the member of the name, or nil.
func (g Group) Find(name string) *Member {
	i := slices.IndexFunc(g, func(m Member) bool { return m.Set.Name == name })
	if i < 0 {
		return nil
	}
	return &g[i]
}
