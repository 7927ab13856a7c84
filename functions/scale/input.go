package scale

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/events"
	"drydock.dev/shared/members"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/podend"
)

// Input is everything that Decide depends on.
type Input struct {
	Now             time.Time
	Namespace, Name string
	Set             *appsv1.StatefulSet // nil if it does not exist
	// Members has what the ledger needs besides the set.
	Members members.Facts
	// Scalers are the Scalers whose target is the set.
	Scalers []*v1alpha1.Scaler
	// Jobs are the hook Jobs of the set's scalings.
	Jobs []*batchv1.Job
	// Namesake is the Job of another client with the name of the Job that the current hook needs; nil if the name is free.
	Namesake *batchv1.Job
	// Autoscalers are the HorizontalPodAutoscalers named after the Scaler that scales the set, and after Scalers with the condition
	// Autoscaled.
	Autoscalers []*autoscalingv2.HorizontalPodAutoscaler
	// AutoscalerError is why a write of an autoscaler failed during this event; empty if none did.
	AutoscalerError string
	// HookPods are the pods of the hook Job that has ended in the current phase.
	HookPods []*corev1.Pod
	// Kills has the Events about the ends of HookPods whose success they decide, and says why HookPods may be incomplete.
	Kills podend.Kills
	// Records are the records of stops of sets with this name. They are read if the set may have one, or is gone.
	Records []*appsv1.ControllerRevision
	// RecordsKept is true if the API server rejected the deletion of one of them during this event.
	RecordsKept bool
	// Rejected is why the API server permanently rejected a write during this event; empty if it did not.
	Rejected string
	// RejectedPlan is the reason of the plan with that write.
	RejectedPlan api.Reason
	// Forbidden is true if the rejection is a 403 from a quota, an admission webhook or a policy, which may pass later.
	Forbidden bool
	// RefusedStatusOf is the name of the Scaler whose status the API server rejected during this event; empty if it did not.
	RefusedStatusOf string
	// RetryNotRemovable is true if the API server rejected the removal of a retry annotation during this event.
	RetryNotRemovable bool
	// Answer is the answer of a user's function to a hook request; nil if the event carries none.
	Answer *events.HookAnswer
	// Key is a random string, new for each event. A hook request that Decide sends carries it, and a valid answer repeats it.
	Key string
	// Retry is true if the event asks for a retry of a failed scaling.
	Retry    bool
	Settings api.Settings
	// Trace is the traceparent for an operation that begins with this event; empty if tracing is off.
	Trace string
}

// mayBeginScaling reports whether this event may begin a scaling.
func (in Input) mayBeginScaling() bool {
	return in.Set != nil && len(in.Scalers) > 0 && !operation.Of(in.Set).Scaling()
}
