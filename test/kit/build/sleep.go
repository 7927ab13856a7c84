package build

import (
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/operation"
)

// SleepID is the id of a sleep.
const SleepID = "ba9876543210"

// SleepSettings returns Settings with the settings of a sleep, which are different numbers, too.
func SleepSettings() api.Settings {
	settings := Settings()
	settings.SleepRetry, settings.ProbeTimeout = 13*time.Minute, 7*time.Second
	return settings
}

// Sleep builds the record of a sleep of set web. The set had 3 replicas, and the sleep began a minute ago because the
// set was idle.
func Sleep(phase api.Phase, options ...func(*api.Sleep)) *api.Sleep {
	sleep := &api.Sleep{
		Header: api.Header{
			Version: api.RecordVersion, Operation: SleepID, Kind: api.KindSleep, Phase: phase, Request: "idle", Attempt: 1,
			Set: api.SetRef{Name: "web", UID: "uid-web"}, Started: metav1.NewTime(Now.Add(-time.Minute)),
		},
		Replicas: 3,
	}
	for _, option := range options {
		option(sleep)
	}
	return sleep
}

// WithSleep stores the record of a sleep on the set, under the set's name and UID.
func WithSleep(sleep *api.Sleep) Option {
	return func(o metav1.Object) {
		own := sleep.Clone()
		own.Set = api.SetRef{Name: o.GetName(), UID: types.UID("uid-" + o.GetName())}
		if o.GetName() != sleep.Set.Name {
			own.Operation = api.OperationID(own.Set.UID, sleep.Operation, own.Attempt)
		}
		Annotation(api.SleepAnnotation, own.Encode())(o)
	}
}

// SleepCause sets the cause of a sleep: idle, paused or asked.
func SleepCause(request string) func(*api.Sleep) {
	return func(s *api.Sleep) { s.Request = request }
}

// SleepStarted sets how long ago the sleep began.
func SleepStarted(ago time.Duration) func(*api.Sleep) {
	return func(s *api.Sleep) { s.Started = *operation.Moment(Now.Add(-ago)) }
}

// ScaledDown sets how long ago Drydock scaled the set to zero.
func ScaledDown(ago time.Duration) func(*api.Sleep) {
	return func(s *api.Sleep) { s.ScaledToZeroAt = operation.Moment(Now.Add(-ago)) }
}

// AsleepFor sets how long the set has been asleep.
func AsleepFor(long time.Duration) func(*api.Sleep) {
	return func(s *api.Sleep) {
		ScaledDown(long)(s)
		s.PodsGoneAt = s.ScaledToZeroAt
	}
}

// OwnerStops leaves the scaling to the owner's operator.
func OwnerStops() func(*api.Sleep) { return func(s *api.Sleep) { s.OwnerStops = true } }

// OriginalWhenScaled sets the original retention policy, which the sleep has replaced by Retain.
func OriginalWhenScaled(policy appsv1.PersistentVolumeClaimRetentionPolicyType) func(*api.Sleep) {
	return func(s *api.Sleep) { s.WhenScaled = policy }
}

// SleepReason sets the reason and the message of the record, with the step that the functions write with that reason.
func SleepReason(reason api.Reason, message string) func(*api.Sleep) {
	return func(s *api.Sleep) { s.Reason, s.Step, s.Message = reason, steps[reason], message }
}

// SleepEnded sets the reason of the end, with its step, and how long ago it was.
func SleepEnded(reason api.Reason, ago time.Duration) func(*api.Sleep) {
	return func(s *api.Sleep) {
		s.Reason, s.Step, s.Finished = reason, steps[reason], operation.Moment(Now.Add(-ago))
	}
}

// steps has the step that the functions write with a reason.
var steps = map[api.Reason]api.SleepStep{
	api.DependencyFirst: api.AwaitsDependency, api.StartRefused: api.AwaitsRetry, api.OwnerAway: api.StartedForOwner,
	api.RequestInvalid: api.AwaitsCorrection, api.ProbeFailed: api.AwaitsProbe, api.CauseGone: api.CauseRemoved,
	api.OwnerNotPausable: api.AwaitsOwner, api.OwnerDeleting: api.AwaitsOwner, api.DeletesClaims: api.AwaitsOwner,
	api.ScalerActive: api.AwaitsOwner, api.Rejected: api.AwaitsAdmission,
}

// ReadyFor sets how long the set has been ready.
func ReadyFor(long time.Duration) func(*api.Sleep) {
	return func(s *api.Sleep) { s.ReadyAt = operation.Moment(Now.Add(-long)) }
}

// SleepDue sets the deadline of the phase from Now. A negative time has passed.
func SleepDue(in time.Duration) func(*api.Sleep) {
	return func(s *api.Sleep) { s.Deadline = operation.Moment(Now.Add(in)) }
}

// Step sets how far the phase of the sleep has come.
func Step(step api.SleepStep) func(*api.Sleep) { return func(s *api.Sleep) { s.Step = step } }

// Starts sets how many sleeps in a row other clients have ended by scaling the set up.
func Starts(n int) func(*api.Sleep) { return func(s *api.Sleep) { s.Starts = n } }

// IdleTimeout sets the time without activity after which the set falls asleep.
func IdleTimeout(timeout string) Option { return Annotation(api.IdleTimeoutAnnotation, timeout) }

// LastActivity sets the time since the last activity.
func LastActivity(ago time.Duration) Option { return at(api.LastActivityAnnotation, -ago) }

// AwakeFor keeps a set awake for the time from now.
func AwakeFor(long time.Duration) Option { return at(api.AwakeUntilAnnotation, long) }

func at(key string, from time.Duration) Option {
	return Annotation(key, Now.Add(from).Format(time.RFC3339))
}

// Paused puts a set to sleep until the annotation is removed.
func Paused() Option { return Annotation(api.PausedAnnotation, "true") }

// InGroup adds the set to a group, whose sets sleep and wake together.
func InGroup(name string) Option { return Label(api.GroupLabel, name) }

// DependsOn names the sets of the group that must be ready before this set starts.
func DependsOn(names ...string) Option {
	return Annotation(api.DependsOnAnnotation, strings.Join(names, ","))
}

// PausedByDrydock pauses a Scaler. Its managedFields name Drydock as the client that did so.
func PausedByDrydock() Option {
	return Edit(func(s *v1alpha1.Scaler) {
		s.Spec.Paused = true
		s.ManagedFields = append(s.ManagedFields, metav1.ManagedFieldsEntry{Manager: api.FieldManager,
			Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:paused":{}}}`)}})
	})
}
