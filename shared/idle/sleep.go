package idle

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/statefulset"
)

// NewSleep makes the document of a sleep that begins now. Its times are whole seconds, as those of activities are.
func NewSleep(set *appsv1.StatefulSet, phase api.Phase, request string, attempt int, now time.Time, trace string) *api.Sleep {
	return &api.Sleep{
		Header: api.Header{
			Version: api.RecordVersion, Kind: api.KindSleep, Phase: phase, Request: request, Attempt: attempt,
			Operation: api.OperationID(set.UID, string(api.KindSleep), attempt),
			Set:       api.SetRef{Name: set.Name, UID: set.UID}, Started: *operation.Moment(now), Trace: trace,
		},
		Replicas: statefulset.Replicas(set), Round: 1,
	}
}

// LeftAtZero reports whether the set's latest sleep failed with the set at zero, and no process wrote its replicas since. Released
// versions gave a wake-up up like this.
func (m Member) LeftAtZero() bool {
	sleep := m.Sleep
	if sleep == nil || sleep.Phase != api.Failed || sleep.FailedAt == "" || sleep.Ready != nil || sleep.Finished == nil || sleep.Replicas < 1 {
		return false
	}
	_, written := statefulset.ReplicasWriter(m.Set)
	return statefulset.Replicas(m.Set) == 0 && !written.After(sleep.Finished.Time)
}

// Revives returns how many replicas a set at zero gets when it is needed and no sleep of Drydock's holds it there: 0 if it stays.
func (m Member) Revives() int32 {
	switch {
	case m.Err != nil || m.SleepErr != nil || m.Rules.Paused:
		return 0
	case m.LeftAtZero():
		return m.Sleep.Replicas
	case statefulset.Controller(m.Set) != nil:
		return 0
	}
	return m.Rules.WakeReplicas
}

// Wakes reports whether Drydock brings the set's replicas back when the set is needed, or the set has them. Nothing waits for a
// member that does not wake: it is paused, or another process has scaled it to zero.
func (m Member) Wakes() bool {
	switch {
	case statefulset.Replicas(m.Set) > 0:
		return true
	case m.Sleep.Active():
		return m.Sleep.Phase == api.Waking || !m.Rules.Paused
	}
	return m.Revives() > 0
}

// Complaint says what is wrong with what people wrote on the set.
func (m Member) Complaint() string {
	return fmt.Sprintf("%s; the set stays awake until that is corrected", clip(strings.ReplaceAll(m.Err.Error(), "\n", "; "), longestComplaint))
}

// longestComplaint bounds what is quoted of people's mistakes, in bytes: a Kubernetes Event takes 1024.
const longestComplaint = 900

func clip(text string, length int) string {
	if len(text) <= length {
		return text
	}
	return strings.ToValidUTF8(text[:length], "") + "…"
}

// Complained reports whether the set's document says so already.
func (m Member) Complained() bool {
	return m.Sleep != nil && m.Sleep.Phase == api.Refused && m.Sleep.Message == m.Complaint()
}

// Rests reports whether a sleep that failed, or that somebody ended while the set was to be paused, is left alone for the
// time of a retry. Who asks for one does not want to wait.
func (m Member) Rests(v Verdict, now time.Time, retry time.Duration) bool {
	sleep := m.Sleep
	if m.Retried || sleep == nil || sleep.Finished == nil || !now.Before(sleep.Finished.Add(Rest(sleep, retry))) {
		return false
	}
	failed := sleep.Phase == api.Failed || sleep.Phase == api.Refused && sleep.Reason != api.RequestInvalid
	if v.Request == ForPause && sleep.Request != ForPause {
		failed = false // a person's pause does not wait for what a clock could not do
	}
	return failed || sleep.Reason == api.StartedByOthers && v.Request == ForPause
}

// longestRest bounds the time for which a set is left alone.
const longestRest = 24 * time.Hour

// Rest returns for how long a set is left alone after the sleep. It doubles with each sleep that the same field manager ends by
// starting the set.
func Rest(sleep *api.Sleep, retry time.Duration) time.Duration {
	rest := retry
	for starts := sleep.Starts; sleep.Reason == api.StartedByOthers && starts > 1 && rest < longestRest; starts-- {
		rest *= 2
	}
	return max(retry, min(rest, longestRest))
}
