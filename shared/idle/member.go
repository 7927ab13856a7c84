package idle

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/members"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/text"
	"drydock.dev/shared/window"
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
	// Stop says that scale has stopped the set's pods, or is nil.
	Stop *api.Stop
	// LostSleep is true if scale has stopped the set for a sleep that its annotations no longer have. Such a set wakes up.
	LostSleep bool
	// HasScaler is true if a Scaler scales the set. Its count is the user's request, also if it is zero.
	HasScaler bool
	// Busy is true if another operation runs on the set, or may run.
	Busy bool
	// RefusalOutdated is true if the set has changed since its latest sleep was refused.
	RefusalOutdated bool
	// RetryRequested is true if an annotation requests another try of the sleep.
	RetryRequested bool
}

// MemberOf returns the member of a set.
func MemberOf(set *appsv1.StatefulSet) Member {
	return NewMember(set, operation.Of(set))
}

// NewMember returns the member of a set with these records.
func NewMember(set *appsv1.StatefulSet, records operation.Records) Member {
	m := Member{Set: set, Sleep: records.Sleep, SleepErr: records.SleepErr, Stop: api.LoadStop(set), LostSleep: members.LostSleep(set),
		Busy: records.Busy(api.KindSleep), HasScaler: records.Scale != nil && records.Scale.Scaler.UID != "",
		RetryRequested: records.SleepRetried(set)}
	m.Rules, m.Err = ParseRules(set)
	m.RefusalOutdated = m.Sleep != nil && m.Sleep.Phase == api.Refused && m.Sleep.RefusalDigest != "" && // older versions stored none
		operation.RefusalOutdated(set, &m.Sleep.Header)
	return m
}

// longestWakeReady limits the text of wake-ready in a reduced set, in bytes. A valid text is shorter.
const longestWakeReady = 16

// Reduced returns the member without the fields of its set that do not decide about its sleep group. A tenant can make a set as large as
// 1.5 MiB, and a process that remembers all sets of the cluster must not depend on that.
func (m Member) Reduced() Member {
	m.Set = reducedSet(m.Set)
	return m
}

func reducedSet(set *appsv1.StatefulSet) *appsv1.StatefulSet {
	reduced := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: set.Namespace, Name: set.Name, UID: set.UID, ResourceVersion: set.ResourceVersion, Generation: set.Generation,
		CreationTimestamp: set.CreationTimestamp, DeletionTimestamp: set.DeletionTimestamp,
		Labels: map[string]string{}, Annotations: map[string]string{},
	}}
	for _, key := range []string{api.ManagedLabel, api.GroupLabel} {
		if value, ok := set.Labels[key]; ok {
			reduced.Labels[key] = value
		}
	}
	if operation.Aborted(set) {
		reduced.Annotations[api.AbortAnnotation] = "" // only its presence counts
	}
	if value, ok := set.Annotations[api.WakeReadyAnnotation]; ok {
		reduced.Annotations[api.WakeReadyAnnotation] = text.Clip(value, longestWakeReady)
	}
	if controller := statefulset.Controller(set); controller != nil {
		reduced.OwnerReferences = []metav1.OwnerReference{*controller}
	}
	reduced.Spec.Replicas = set.Spec.Replicas
	reduced.Status = set.Status
	reduced.Status.Conditions = nil
	return reduced
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

// reasonToStayAwake returns why the member keeps its group awake, or "". The text follows the member's name. A paused member keeps no other
// member awake.
func (m Member) reasonToStayAwake(now, asked time.Time, timeout time.Duration, stops ownerStops) string {
	r := m.Rules
	switch {
	case m.Err != nil || m.SleepErr != nil:
		return "has invalid annotations"
	case r.Paused:
		return ""
	case now.Before(r.AwakeUntil):
		return "is awake until " + FormatTime(r.AwakeUntil)
	case slices.ContainsFunc(r.KeepWarm, func(w window.Window) bool { return w.Open(now) }):
		return "is kept warm at this hour"
	case m.Sleep.Active():
		return m.reasonToWake()
	case timeout == 0 || statefulset.Replicas(m.Set) == 0 && !stops.reach(m): // only its users start it
		return ""
	case statefulset.Replicas(m.Set) > 0 && m.startsLate() && !asked.After(m.Sleep.Finished.Time):
		return "has not become ready after its latest wake-up"
	case r.LastActivity.IsZero() && !asked.After(m.readySince()): // a request from before the set existed does not mean it
		return "has no known last activity"
	case now.Before(m.readySince().Add(r.MinUptime)):
		return "has not been up for " + r.MinUptime.String()
	case now.Before(m.lastUsed().Add(timeout+Throttle(timeout))) && !asked.After(m.lastUsed()):
		return "was active at " + FormatTime(m.lastUsed())
	}
	return ""
}

// startsLate reports whether the set has not become ready after its latest wake-up, which has failed. Its idle time has not begun: a
// large database may need hours for its recovery.
func (m Member) startsLate() bool {
	return m.Sleep != nil && m.Sleep.StartsLate && m.Sleep.Finished != nil
}

// BeganInFuture reports whether a clock that was ahead has begun the set's active sleep. Each activity would be older than the sleep, and
// wake nothing.
func (m Member) BeganInFuture(now time.Time) bool {
	return m.Sleep.Active() && m.Sleep.Started.After(now.Add(maxClockSkew))
}

// maxClockSkew is the difference of clocks that is not corrected.
const maxClockSkew = time.Minute

// BecameReadyLate reports whether the set is ready, after a wake-up that failed because the set was not ready in time.
func (m Member) BecameReadyLate() bool { return m.startsLate() && EnoughReady(m.Set, true) }

// IsCorrected reports whether the set's latest sleep was refused for invalid annotations, which are valid now, or for a probe that it has
// no longer.
func (m Member) IsCorrected() bool {
	return m.Err == nil && m.Sleep != nil && m.Sleep.Phase == api.Refused &&
		(m.Sleep.Step == api.AwaitsCorrection || m.Sleep.Step == api.AwaitsProbe && m.Rules.Probe == nil)
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

// Values of a sleep's Request: the reasons for a sleep.
const (
	RequestPaused = "paused" // the user set the annotation drydock.dev/paused
	RequestIdle   = "idle"   // there was no activity for the timeout
	RequestAsked  = "asked"  // an event or an annotation requested it
)

// Verdict says whether a set has to be awake.
type Verdict struct {
	Awake bool
	// Why is the reason in words, for example "web was active at 2026-03-01T12:00:00Z".
	Why string
	// Request is the reason for a sleep, or empty if the set has to be awake.
	Request string
	// Probes is true if the set may sleep only if the activity probes of its group report no use. A user's request makes them unnecessary,
	// but not if visitors used the group after the request: they may still have connections.
	Probes bool
}

// EnoughReady reports whether the set serves because enough of its replicas are ready. An awake set needs one ready replica, so that it
// also serves during a rollout or a scale-up. A waking set needs the number in its annotation wake-ready, by default all.
func EnoughReady(set *appsv1.StatefulSet, waking bool) bool {
	replicas, ready := statefulset.Replicas(set), set.Status.ReadyReplicas
	if replicas == 0 || ready == 0 {
		return false
	}
	if !waking {
		return true
	}
	needed, err := ParseWakeReady(set.Annotations[api.WakeReadyAnnotation])
	if err != nil || needed >= replicas {
		return statefulset.Ready(set)
	}
	return set.Status.ObservedGeneration >= set.Generation && ready >= needed
}

// allReady means that every replica has to be ready. It is larger than any count of replicas.
const allReady = math.MaxInt32

// ParseWakeReady returns how many replicas of a waking set have to be ready. The text is a count, "first" for one, or "all". An empty
// text means "all".
func ParseWakeReady(text string) (int32, error) {
	switch text {
	case "", "all":
		return allReady, nil
	case "first":
		return 1, nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 || n > maxReplicas {
		return 0, errors.New(`write "all", "first", or a whole number from 1 to 1000`)
	}
	return int32(n), nil
}

// maxReplicas limits replica counts in annotations.
const maxReplicas = 1000

func parseReplicas(text string) (int32, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 || n > maxReplicas {
		return 0, fmt.Errorf("write a whole number from 1 to %d", maxReplicas)
	}
	return int32(n), nil
}
