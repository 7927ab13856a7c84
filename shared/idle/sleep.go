package idle

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/text"
)

// NewSleep returns the record of a sleep that starts now. Its times have whole seconds, like the times of activities. The time is a part of
// the id, because a user may remove the record, and attempts then count from 1 again.
func NewSleep(set *appsv1.StatefulSet, phase api.Phase, request string, attempt int, now time.Time, trace string) *api.Sleep {
	return &api.Sleep{
		Header: api.Header{
			Version: api.RecordVersion, Kind: api.KindSleep, Phase: phase, Request: request, Attempt: attempt,
			Operation: api.OperationID(set.UID, fmt.Sprintf("%s at %d", api.KindSleep, now.Unix()), attempt),
			Set:       api.SetRef{Name: set.Name, UID: set.UID}, Started: *operation.Moment(now), Trace: trace,
		},
		Replicas: statefulset.Replicas(set),
	}
}

// ReplicasAtWake returns the replica count that a set at zero without an active sleep gets when it is needed, or 0 if it stays at zero.
func (m Member) ReplicasAtWake() int32 {
	switch {
	case m.Err != nil || m.SleepErr != nil || m.Rules.Paused:
		return 0
	case m.HasScaler:
		return 0
	case m.Stop.Pending() && m.Stop.Kind == api.KindSleep: // its wake-up failed before its pods were asked back
		return m.Stop.Replicas
	case statefulset.Controller(m.Set) != nil:
		return 0
	}
	return m.Rules.WakeReplicas
}

// CanWake reports whether the set has replicas, or Drydock restores them when the set is needed. It does not wake if it is paused, or
// another client scaled it to zero, or if it is being deleted. No other set waits for such a member.
func (m Member) CanWake() bool {
	switch {
	case m.Set.DeletionTimestamp != nil:
		return false
	case statefulset.Replicas(m.Set) > 0:
		return true
	case m.Sleep.Active():
		return m.Sleep.Phase == api.Waking || !m.Rules.Paused
	}
	return m.ReplicasAtWake() > 0
}

// InvalidMessage returns the message about the set's invalid annotations.
func (m Member) InvalidMessage() string {
	return fmt.Sprintf("%s; the set stays awake until that is corrected",
		text.Clip(strings.ReplaceAll(m.Err.Error(), "\n", "; "), maxComplaintBytes))
}

// maxComplaintBytes limits the quoted annotations, in bytes, because the message of a Kubernetes Event has at most 1024.
const maxComplaintBytes = 900

// InvalidReported reports whether the set's record holds this message already.
func (m Member) InvalidReported() bool {
	return m.Sleep != nil && m.Sleep.Phase == api.Refused && m.Sleep.Message == m.InvalidMessage()
}

// RefusedByOwner reports whether pause-owner refused the sleep because of an owner. The refusal stands until pause-owner stores that its
// cause is gone.
func RefusedByOwner(sleep *api.Sleep) bool {
	return sleep != nil && sleep.Phase == api.Refused && (sleep.Step == api.AwaitsOwner || sleep.Step == api.AwaitsAdmission)
}

// IsBackingOff reports whether the set backs off after a failed sleep, or after another client scaled the sleeping set up. It does not back
// off if the user requests a retry, or has changed the set since a refusal.
func (m Member) IsBackingOff(v Verdict, now time.Time, retry time.Duration) bool {
	sleep := m.Sleep
	if m.RetryRequested || m.RefusalOutdated || sleep == nil || sleep.Finished == nil ||
		!RefusedByOwner(sleep) && !operation.Within(now, sleep.Finished.Time, Backoff(sleep, retry)) {
		return false
	}
	failed := sleep.Phase == api.Failed || sleep.Phase == api.Refused && sleep.Step != api.AwaitsCorrection && sleep.Step != api.CauseRemoved
	if v.Request == RequestPaused && sleep.Request != RequestPaused {
		failed = false // the user's pause does not wait because an automatic sleep failed
	}
	return failed || wasStarted(sleep)
}

const (
	// maxRest limits the back-off.
	maxRest = 24 * time.Hour
	// shortSleep is the time in which a deployment tool restores replicas. A user who starts the set the next morning is no such tool.
	shortSleep = 2 * time.Hour
)

// Backoff returns how long a set backs off after the sleep. The time doubles with each short sleep in a row that another client ended by
// scaling the set up, so that Drydock and that client do not stop and start the set for ever.
func Backoff(sleep *api.Sleep, retry time.Duration) time.Duration {
	if !wasStarted(sleep) {
		return retry
	}
	return operation.Backoff(retry, maxRest, sleep.Starts)
}

// wasStarted reports whether another client ended the sleep by scaling the set up. A refused sleep only remembers those before it.
func wasStarted(sleep *api.Sleep) bool { return sleep.Starts > 0 && sleep.Phase != api.Refused }

// StartsWith returns the count of starts after another client has ended the sleep by scaling the set up. A sleep that lasted begins a new
// count.
func StartsWith(sleep *api.Sleep, now time.Time) int {
	if sleep.PodsGoneAt != nil && now.Sub(sleep.PodsGoneAt.Time) >= shortSleep {
		return 1
	}
	return sleep.Starts + 1
}
