package build

import (
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
)

// Set builds an opted-in StatefulSet with one ready replica. It runs as user 1000 and has generation 5.
func Set(name string, options ...Option) *appsv1.StatefulSet {
	labels := map[string]string{"app": name}
	set := &appsv1.StatefulSet{
		ObjectMeta: meta(Namespace, name),
		Spec: appsv1.StatefulSetSpec{
			ServiceName: name,
			Selector:    &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					SecurityContext: &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](1000), FSGroup: ptr.To[int64](1000)},
					Containers:      []corev1.Container{{Name: "db", Image: "registry.example/db:1"}},
				},
			},
		},
	}
	set.Labels = map[string]string{api.ManagedLabel: "true"}
	set.Generation = 5
	Replicas(1)(set)
	With(set, options...)
	set.Status.ObservedGeneration += set.Generation
	return set
}

// Replicas sets the replica count. All replicas are ready.
func Replicas(n int32) Option {
	return Edit(func(s *appsv1.StatefulSet) {
		s.Spec.Replicas = &n
		s.Status.Replicas, s.Status.ReadyReplicas = n, n
	})
}

// ReplicaCounts sets the replicas and the ready replicas in the status.
func ReplicaCounts(n, ready int32) Option {
	return Edit(func(s *appsv1.StatefulSet) { s.Status.Replicas, s.Status.ReadyReplicas = n, ready })
}

// NotObserved makes the observed generation lag behind the spec.
func NotObserved() Option {
	return Edit(func(s *appsv1.StatefulSet) { s.Status.ObservedGeneration = -1 })
}

// Template adds a volumeClaimTemplate.
func Template(name, size, class string) Option {
	return Edit(func(s *appsv1.StatefulSet) {
		claim := Claim(name, size, OfClass(class))
		s.Spec.VolumeClaimTemplates = append(s.Spec.VolumeClaimTemplates,
			corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: claim.Spec.AccessModes, StorageClassName: claim.Spec.StorageClassName, Resources: claim.Spec.Resources}})
	})
}

// WhenScaled sets the retention policy for the claims of replicas that a scale-down removes.
func WhenScaled(policy appsv1.PersistentVolumeClaimRetentionPolicyType) Option {
	return Edit(func(s *appsv1.StatefulSet) {
		s.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenScaled: policy}
	})
}

// Status stores the record of a resize on the set.
func Status(status *api.Resize) Option {
	return Annotation(api.StatusAnnotation, status.Encode())
}

// GrowTo has grow-volumes raise the floors an hour ago, for example to "data=15Gi". over is the user's request at that time. Changes edit
// the stored document.
func GrowTo(floors, over string, changes ...func(*api.Growth)) Option {
	return func(o metav1.Object) {
		growth := &api.Growth{Version: api.GrowthVersion, Set: o.GetNamespace() + "/" + o.GetName(), Latest: map[string]api.RequestedGrowth{}}
		sizes := map[string]string{}
		for part := range strings.SplitSeq(over, ",") {
			template, size, _ := strings.Cut(part, "=")
			sizes[template] = size
		}
		for part := range strings.SplitSeq(floors, ",") {
			template, size, _ := strings.Cut(part, "=")
			before := sizes[template]
			growth.Latest[template] = api.RequestedGrowth{At: metav1.NewTime(Now.Add(-time.Hour)), Size: size, Cause: "it was full", Over: &before}
		}
		for _, change := range changes {
			change(growth)
		}
		Annotation(api.GrowToAnnotation, floors)(o)
		Annotation(api.GrowthAnnotation, growth.Encode())(o)
	}
}

// Resize requests a resize.
func Resize(request string) Option { return Annotation(api.ResizeAnnotation, request) }

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

// AsleepFor sets how long the set has been asleep.
func AsleepFor(long time.Duration) func(*api.Sleep) {
	return func(s *api.Sleep) { s.PodsGoneAt = operation.Moment(Now.Add(-long)) }
}

// Stop builds the stop of web for its sleep a minute ago. It had 3 replicas.
func Stop(options ...func(*api.Stop)) *api.Stop {
	stop := &api.Stop{Set: api.SetRef{Name: "web", UID: "uid-web"}, Operation: SleepID, Kind: api.KindSleep, Replicas: 3,
		StoppedAt: operation.Moment(Now.Add(-time.Minute))}
	for _, option := range options {
		option(stop)
	}
	return stop
}

// WithStop stores the stop on the set, under the set's name and UID, and for the sleep of WithSleep.
func WithStop(stop *api.Stop) Option {
	return func(o metav1.Object) {
		own := stop.Clone()
		own.Set = api.SetRef{Name: o.GetName(), UID: types.UID("uid-" + o.GetName())}
		if o.GetName() != stop.Set.Name {
			own.Operation = api.OperationID(own.Set.UID, stop.Operation, 1)
		}
		Annotation(api.StopAnnotation, own.Encode())(o)
		if own.WhenScaled != "" {
			RetainedBy(api.FieldManager)(o)
		}
	}
}

// RetainedBy makes the clients the managers of the set's whenScaled.
func RetainedBy(managers ...string) Option {
	return func(o metav1.Object) {
		var entries []metav1.ManagedFieldsEntry
		for _, manager := range managers {
			entries = append(entries, metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate,
				FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:persistentVolumeClaimRetentionPolicy":{"f:whenScaled":{}}}}`)}})
		}
		o.SetManagedFields(entries)
	}
}

// StoppedFor sets how long ago scale scaled the set to zero.
func StoppedFor(long time.Duration) func(*api.Stop) {
	return func(s *api.Stop) { s.StoppedAt = operation.Moment(Now.Add(-long)) }
}

// NotStopped is for a set that scale has not scaled to zero.
func NotStopped() func(*api.Stop) { return func(s *api.Stop) { s.StoppedAt = nil } }

// StartedFor sets how long ago scale asked the pods back.
func StartedFor(long time.Duration) func(*api.Stop) {
	return func(s *api.Stop) { s.StartedAt = operation.Moment(Now.Add(-long)) }
}

// FormerWhenScaled sets the user's retention policy, which is Retain during the stop.
func FormerWhenScaled(policy appsv1.PersistentVolumeClaimRetentionPolicyType) func(*api.Stop) {
	return func(s *api.Stop) { s.WhenScaled = policy }
}

// RefusedBy sets why the API server rejected the count, a minute ago.
func RefusedBy(why string) func(*api.Stop) {
	return func(s *api.Stop) { s.Refused, s.RefusedAt = why, operation.Moment(Now.Add(-time.Minute)) }
}

// StoppedByScaler is the stop of a paused Scaler.
func StoppedByScaler(scaling string) func(*api.Stop) {
	return func(s *api.Stop) { s.Kind, s.Operation = api.KindScale, scaling }
}

// OwnerStops leaves the scaling to the owner's operator.
func OwnerStops() func(*api.Sleep) { return func(s *api.Sleep) { s.OwnerStops = true } }

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
	api.DependencyFirst: api.AwaitsDependency, api.OwnerAway: api.StartedForOwner,
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
