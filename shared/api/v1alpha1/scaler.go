// Package v1alpha1 has Drydock's custom resources. config/crd and the deep copies are generated from it: make generate.
//
// +kubebuilder:object:generate=true
// +groupName=drydock.dev
package v1alpha1

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// GroupVersion is the API group of the package.
var GroupVersion = schema.GroupVersion{Group: "drydock.dev", Version: "v1alpha1"}

// Scaler scales a StatefulSet in stages: a hook of the user runs before members are added or removed, and another one after it. People
// and HorizontalPodAutoscalers scale the Scaler instead of the StatefulSet.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=drydock
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name=Target,type=string,JSONPath=`.spec.target`
// +kubebuilder:printcolumn:name=Desired,type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name=Replicas,type=integer,JSONPath=`.status.replicas`
// +kubebuilder:printcolumn:name=Stage,type=string,JSONPath=`.status.stage`
// +kubebuilder:printcolumn:name=Paused,type=boolean,priority=1,JSONPath=`.spec.paused`
// +kubebuilder:printcolumn:name=Healthy,type=string,JSONPath=`.status.conditions[?(@.type=="Healthy")].status`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type Scaler struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ScalerSpec   `json:"spec"`
	Status ScalerStatus `json:"status,omitempty"`
}

// ScalerList is a list of Scalers.
//
// +kubebuilder:object:root=true
type ScalerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Scaler `json:"items"`
}

// ScalerSpec says what the user wants.
type ScalerSpec struct {
	// Target is the name of a StatefulSet in the Scaler's namespace. It has the label drydock.dev/managed=true.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="target cannot be changed; delete the Scaler and create another one"
	Target string `json:"target"`

	// Replicas is how many members the StatefulSet is to have. If it is left out when the Scaler is created, it becomes the count that the
	// StatefulSet has then. Which clients change it later, the mode says.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// Mode says who decides about replicas. Without it, whoever writes replicas or the subresource scale does.
	//
	// +optional
	Mode *ScalerMode `json:"mode,omitempty"`

	// Paused scales the StatefulSet to zero, in stages as every other scaling. The count in replicas stays, and comes back without paused.
	//
	// +optional
	Paused bool `json:"paused,omitempty"`

	// Hooks run before and after a change of the count.
	//
	// +optional
	Hooks ScalerHooks `json:"hooks,omitempty"`

	// Deadlines say how long each stage may take.
	//
	// +kubebuilder:default={}
	// +optional
	Deadlines ScalerDeadlines `json:"deadlines,omitempty"`

	// ConflictPolicy says what happens when another client changes the count of the StatefulSet: revert puts it back, adopt takes it over as
	// spec.replicas.
	//
	// +kubebuilder:default=revert
	// +optional
	ConflictPolicy ConflictPolicy `json:"conflictPolicy,omitempty"`

	// HistoryLimit is how many ended scalings status.history keeps.
	//
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=50
	// +optional
	HistoryLimit *int32 `json:"historyLimit,omitempty"`
}

// ConflictPolicy says what to do when another client scales the StatefulSet.
//
// +kubebuilder:validation:Enum=revert;adopt
type ConflictPolicy string

const (
	// ConflictRevert puts the count back that the Scaler wants.
	ConflictRevert ConflictPolicy = "revert"
	// ConflictAdopt takes the new count over as the wish.
	ConflictAdopt ConflictPolicy = "adopt"
)

// ScalerHooks are what the user runs around a change of the count.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.pre) && has(self.pre.cleanup)) && !(has(self.onFailure) && has(self.onFailure.cleanup))",message="cleanup is a hook for post: before that, nothing was removed"
type ScalerHooks struct {
	// Pre runs before the count changes, for example to move data away from members that are to be removed.
	//
	// +optional
	Pre *Hook `json:"pre,omitempty"`
	// Post runs when the count has changed and all members are ready.
	//
	// +optional
	Post *Hook `json:"post,omitempty"`
	// OnFailure runs once when a scaling is given up.
	//
	// +optional
	OnFailure *Hook `json:"onFailure,omitempty"`
}

// ScalerMode is one of four ways to decide how many members there are.
//
// +kubebuilder:validation:XValidation:rule="(has(self.fixed) ? 1 : 0) + (has(self.hpa) ? 1 : 0) + (has(self.auto) ? 1 : 0) + (has(self.externallyScaled) ? 1 : 0) == 1",message="mode is one of fixed, hpa, auto and externallyScaled"
type ScalerMode struct {
	// Fixed is the count, whatever is written to the subresource scale. To stop all members, use spec.paused.
	//
	// +kubebuilder:validation:Minimum=1
	// +optional
	Fixed *int32 `json:"fixed,omitempty"`
	// HPA is the spec of a HorizontalPodAutoscaler without scaleTargetRef. scale-hooks makes one of it that scales the Scaler, and deletes
	// it with the mode.
	//
	// +optional
	HPA *Autoscaler `json:"hpa,omitempty"`
	// Auto is a HorizontalPodAutoscaler by CPU.
	//
	// +optional
	Auto *AutoMode `json:"auto,omitempty"`
	// ExternallyScaled leaves the count to whoever writes it: people, or an autoscaler of yours.
	//
	// +optional
	ExternallyScaled *ExternalMode `json:"externallyScaled,omitempty"`
}

// ExternalMode has no settings.
type ExternalMode struct{}

// AutoMode are the bounds of an autoscaler by CPU.
//
// +kubebuilder:validation:XValidation:rule="self.min <= self.max",message="max is at least min"
type AutoMode struct {
	// Min is the lowest count.
	//
	// +kubebuilder:validation:Minimum=1
	Min int32 `json:"min"`
	// Max is the highest count.
	//
	// +kubebuilder:validation:Minimum=1
	Max int32 `json:"max"`
	// CPUPercent is how much of the CPU that they request the members are to use on average, in percent.
	//
	// +kubebuilder:default=80
	// +kubebuilder:validation:Minimum=1
	// +optional
	CPUPercent int32 `json:"cpuPercent,omitempty"`
}

// Autoscaler is the spec of a HorizontalPodAutoscaler (autoscaling/v2) without scaleTargetRef.
//
// +kubebuilder:validation:XValidation:rule="self.minReplicas <= self.maxReplicas",message="maxReplicas is at least minReplicas"
type Autoscaler struct {
	// MinReplicas is the lowest count.
	//
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +optional
	MinReplicas *int32 `json:"minReplicas,omitempty"`
	// MaxReplicas is the highest count.
	//
	// +kubebuilder:validation:Minimum=1
	MaxReplicas int32 `json:"maxReplicas"`
	// Metrics are those that decide; without any, 80 % of the CPU that is requested.
	//
	// +listType=atomic
	// +optional
	Metrics []autoscalingv2.MetricSpec `json:"metrics,omitempty"`
	// Behavior bounds how fast the count changes.
	//
	// +optional
	Behavior *autoscalingv2.HorizontalPodAutoscalerBehavior `json:"behavior,omitempty"`
}

// Hook is one way to run something of the user's.
//
// +kubebuilder:validation:XValidation:rule="(has(self.job) ? 1 : 0) + (has(self.http) ? 1 : 0) + (has(self.event) ? 1 : 0) + (has(self.cleanup) ? 1 : 0) == 1",message="a hook is one of job, http, event and cleanup"
type Hook struct {
	// Job runs a pod.
	//
	// +optional
	Job *HookJob `json:"job,omitempty"`
	// HTTP calls a URL.
	//
	// +optional
	HTTP *HookHTTP `json:"http,omitempty"`
	// Event asks a function of yours by a CloudEvent.
	//
	// +optional
	Event *HookEvent `json:"event,omitempty"`
	// Cleanup waits until cleanup-pod has cleaned up after the removed members, which the set's own annotations ask for. It is for post.
	//
	// +optional
	Cleanup *HookCleanup `json:"cleanup,omitempty"`
}

// HookJob is a Job that runs as a hook. Its containers have the variables DRYDOCK_HOOK, DRYDOCK_DIRECTION (up or down), DRYDOCK_CURRENT,
// DRYDOCK_DESIRED, DRYDOCK_ADDED and DRYDOCK_REMOVED (ordinals, separated by commas), DRYDOCK_NAMESPACE, DRYDOCK_SET, DRYDOCK_SCALER and
// DRYDOCK_OPERATION, and the same as JSON in the file /etc/drydock/hook.json.
type HookJob struct {
	// Template is a PodTemplateSpec, the pod to run. Its restartPolicy is Never. The API server stores it as it is, and scale-hooks reads
	// it strictly before a scaling begins.
	//
	// +kubebuilder:pruning:PreserveUnknownFields
	Template runtime.RawExtension `json:"template"`
	// BackoffLimit is how many pods may fail before the hook has failed.
	//
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	// +optional
	BackoffLimit int32 `json:"backoffLimit,omitempty"`
}

// HookHTTP is a POST of JSON that a pod in the Scaler's namespace sends, so that it reaches what pods there may reach. The answer 200 is done,
// 202 is not done yet: it is asked again after the seconds of its header Retry-After. Other answers of 400 to 499 have failed; without an
// answer, and after 429 or 500 and above, it is asked again until the deadline.
type HookHTTP struct {
	// URL begins with http:// or https://, and names a host without a user.
	//
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^https?://[^\s]+$`
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getHostname() != \"\"",message="url is not the URL of a server"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^https?://[^/?#]*@')",message="url has a user or a password, which is not sent"
	URL string `json:"url"`
	// Timeout is for one request.
	//
	// +kubebuilder:default="10s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="a timeout is at least 1s"
	// +optional
	Timeout Deadline `json:"timeout,omitempty"`
}

// HookEvent is the CloudEvent dev.drydock.scale.hook.requested. A Trigger leads it to a function, and that answers with
// dev.drydock.scale.hook.completed or dev.drydock.scale.hook.failed.
type HookEvent struct{}

// HookCleanup has no settings.
type HookCleanup struct{}

// ScalerDeadlines are the longest times of the stages.
type ScalerDeadlines struct {
	// Pre is for the stage preScaling.
	//
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="a deadline is at least 1s"
	// +optional
	Pre Deadline `json:"pre,omitempty"`
	// Scaling is for the stage scaling, until all members are ready.
	//
	// +kubebuilder:default="30m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="a deadline is at least 1s"
	// +optional
	Scaling Deadline `json:"scaling,omitempty"`
	// Post is for the stage postScaling.
	//
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="a deadline is at least 1s"
	// +optional
	Post Deadline `json:"post,omitempty"`
	// OnFailure is for the hook that runs when a scaling is given up.
	//
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="a deadline is at least 1s"
	// +optional
	OnFailure Deadline `json:"onFailure,omitempty"`
}

// Deadline is a positive Go duration. The schema bounds its length in characters, and no more.
//
// +kubebuilder:validation:MaxLength=20
// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
type Deadline string

// Stage is where a scaling stands.
//
// +kubebuilder:validation:Enum=idle;preScaling;scaling;postScaling;failed
type Stage string

const (
	// StageIdle: nothing is to be done.
	StageIdle Stage = "idle"
	// StagePreScaling: the hook before the change runs. The count is as before.
	StagePreScaling Stage = "preScaling"
	// StageScaling: the StatefulSet has the new count, and its members start or stop.
	StageScaling Stage = "scaling"
	// StagePostScaling: the members are ready, and the hook after the change runs.
	StagePostScaling Stage = "postScaling"
	// StageFailed: the scaling was given up. The annotation drydock.dev/retry takes it up again.
	StageFailed Stage = "failed"
)

// ScalerStatus says what there is.
type ScalerStatus struct {
	// ObservedGeneration is the generation of the Scaler that this status describes.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Replicas is how many members the StatefulSet has.
	//
	// +optional
	Replicas int32 `json:"replicas"`
	// Selector selects the StatefulSet's pods, for autoscalers.
	//
	// +optional
	Selector string `json:"selector,omitempty"`
	// Target is the StatefulSet itself.
	//
	// +optional
	Target *TargetReference `json:"target,omitempty"`
	// Stage is where the scaling stands.
	//
	// +optional
	Stage Stage `json:"stage,omitempty"`
	// Operation is the id of the latest scaling.
	//
	// +optional
	Operation string `json:"operation,omitempty"`
	// Previous is the count before the scaling, Desired the one after it. Both stay as they are for the whole scaling, whatever
	// spec.replicas becomes.
	//
	// +optional
	Previous *int32 `json:"previous,omitempty"`
	// Desired is the count after the scaling.
	//
	// +optional
	Desired *int32 `json:"desired,omitempty"`
	// Failed says where the scaling was given up, and why.
	//
	// +optional
	Failed *ScalerFailure `json:"failed,omitempty"`
	// LastTransitionTime is when the stage began.
	//
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
	// History has the scalings that have ended, the latest first.
	//
	// +listType=atomic
	// +optional
	History []ScalingResult `json:"history,omitempty"`
	// Conditions are Healthy, Progressing and Failed, and Autoscaled in the modes hpa and auto.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// TargetReference is the identity of a StatefulSet.
type TargetReference struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
}

// ScalerFailure says where a scaling was given up.
type ScalerFailure struct {
	// FailedAt is the stage that failed. A retry begins there.
	FailedAt Stage `json:"failedAt"`
	// Reason is that of the condition Failed.
	Reason string `json:"reason"`
}

// ScalingResult is a scaling that has ended.
type ScalingResult struct {
	// Operation is the id of the scaling.
	Operation string `json:"operation"`
	// From is the count before the scaling.
	From int32 `json:"from"`
	// To is the count that was asked for.
	To int32 `json:"to"`
	// Result is Succeeded or Failed.
	Result string `json:"result"`
	// Finished is when the scaling ended.
	Finished metav1.Time `json:"finished"`
}

// Types of conditions of a Scaler.
const (
	// ConditionHealthy: the StatefulSet has the count that is wanted, or is on its way there.
	ConditionHealthy = "Healthy"
	// ConditionProgressing: a scaling is under way, or is to come. It is false when a scaling has failed.
	ConditionProgressing = "Progressing"
	// ConditionFailed: a scaling was given up.
	ConditionFailed = "Failed"
	// ConditionAutoscaled: the HorizontalPodAutoscaler of the Scaler is there. Without such a mode there is no such condition.
	ConditionAutoscaled = "Autoscaled"
)

// AddToScheme registers the types.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Scaler{}, &ScalerList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
