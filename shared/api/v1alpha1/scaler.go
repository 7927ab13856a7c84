// Package v1alpha1 defines Drydock's custom resources. `make generate` creates config/crd and the deep copies from it.
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

// Scaler scales a StatefulSet in stages: one hook runs before members are added or removed, another one afterwards. Users and
// HorizontalPodAutoscalers scale the Scaler instead of the StatefulSet.
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

// ScalerSpec is the desired state.
type ScalerSpec struct {
	// Target is the name of a StatefulSet in the Scaler's namespace. The StatefulSet needs the label drydock.dev/managed=true.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="target cannot be changed; delete the Scaler and create another one"
	Target string `json:"target"`

	// Replicas is the desired number of members. If it is missing when the Scaler is created, the Scaler takes over the present count of the
	// StatefulSet. The mode says which clients change it later.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// Mode says which client decides the count. Without it, every client that writes replicas or the subresource scale does.
	//
	// +optional
	Mode *ScalerMode `json:"mode,omitempty"`

	// Paused scales the StatefulSet to zero, with all stages of a scaling. The count in replicas stays, and applies again when paused is
	// removed.
	//
	// +optional
	Paused bool `json:"paused,omitempty"`

	// Hooks run before and after a change of the count.
	//
	// +optional
	Hooks ScalerHooks `json:"hooks,omitempty"`

	// Deadlines are the time limits of the stages.
	//
	// +kubebuilder:default={}
	// +optional
	Deadlines ScalerDeadlines `json:"deadlines,omitempty"`

	// ConflictPolicy is the reaction when another client changes the count of the StatefulSet. Revert restores the Scaler's count, adopt
	// copies the new count to spec.replicas.
	//
	// +kubebuilder:default=revert
	// +optional
	ConflictPolicy ConflictPolicy `json:"conflictPolicy,omitempty"`

	// HistoryLimit is the number of finished scalings that status.history keeps.
	//
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=50
	// +optional
	HistoryLimit *int32 `json:"historyLimit,omitempty"`
}

// ConflictPolicy is the reaction when another client scales the StatefulSet.
//
// +kubebuilder:validation:Enum=revert;adopt
type ConflictPolicy string

const (
	// ConflictRevert restores the Scaler's count.
	ConflictRevert ConflictPolicy = "revert"
	// ConflictAdopt copies the new count to spec.replicas.
	ConflictAdopt ConflictPolicy = "adopt"
)

// ScalerHooks are the user's hooks around a change of the count.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.pre) && has(self.pre.cleanup)) && !(has(self.onFailure) && has(self.onFailure.cleanup))",message="cleanup is a hook for post: before that, nothing was removed"
type ScalerHooks struct {
	// Pre runs before the count changes, for example to move data away from members that will be removed.
	//
	// +optional
	Pre *Hook `json:"pre,omitempty"`
	// Post runs after the count has changed and all members are ready.
	//
	// +optional
	Post *Hook `json:"post,omitempty"`
	// OnFailure runs once when a scaling has failed.
	//
	// +optional
	OnFailure *Hook `json:"onFailure,omitempty"`
}

// ScalerMode is one of four ways to decide the count.
//
// +kubebuilder:validation:XValidation:rule="(has(self.fixed) ? 1 : 0) + (has(self.hpa) ? 1 : 0) + (has(self.auto) ? 1 : 0) + (has(self.externallyScaled) ? 1 : 0) == 1",message="mode is one of fixed, hpa, auto and externallyScaled"
type ScalerMode struct {
	// Fixed is a fixed count. The Scaler overrides other values of the subresource scale. To stop all members, use spec.paused.
	//
	// +kubebuilder:validation:Minimum=1
	// +optional
	Fixed *int32 `json:"fixed,omitempty"`
	// HPA is the spec of a HorizontalPodAutoscaler without scaleTargetRef. scale creates the autoscaler, which scales the Scaler, and
	// deletes it when the mode is removed.
	//
	// +optional
	HPA *Autoscaler `json:"hpa,omitempty"`
	// Auto creates a HorizontalPodAutoscaler by CPU.
	//
	// +optional
	Auto *AutoMode `json:"auto,omitempty"`
	// ExternallyScaled leaves the count to your own clients: users or an autoscaler.
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
	// CPUPercent is the target for the average CPU usage of the members, in percent of their requests.
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
	// Metrics decide the count. Without any, the target is 80 % of the requested CPU.
	//
	// +listType=atomic
	// +optional
	Metrics []autoscalingv2.MetricSpec `json:"metrics,omitempty"`
	// Behavior limits how fast the count changes.
	//
	// +optional
	Behavior *autoscalingv2.HorizontalPodAutoscalerBehavior `json:"behavior,omitempty"`
}

// Hook runs the user's own code in one of four ways.
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
	// Event asks a function of yours with a CloudEvent.
	//
	// +optional
	Event *HookEvent `json:"event,omitempty"`
	// Cleanup waits until cleanup-pod has cleaned up after the removed members. The set's own annotations request the cleanup. Only post
	// can have it.
	//
	// +optional
	Cleanup *HookCleanup `json:"cleanup,omitempty"`
}

// HookJob is a Job that runs as a hook. Its containers have the variables DRYDOCK_HOOK, DRYDOCK_DIRECTION (up or down), DRYDOCK_CURRENT,
// DRYDOCK_DESIRED, DRYDOCK_ADDED and DRYDOCK_REMOVED (ordinals, separated by commas), DRYDOCK_NAMESPACE, DRYDOCK_SET, DRYDOCK_SCALER and
// DRYDOCK_OPERATION. The file /etc/drydock/hook.json has the same values as JSON.
type HookJob struct {
	// Template is the PodTemplateSpec of the pod to run. Its restartPolicy is Never. The API server stores it without validation.
	// scale rejects unknown fields before a scaling begins.
	//
	// +kubebuilder:pruning:PreserveUnknownFields
	Template runtime.RawExtension `json:"template"`
	// BackoffLimit is the number of pods that may fail before the hook fails.
	//
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	// +optional
	BackoffLimit int32 `json:"backoffLimit,omitempty"`
}

// HookHTTP sends a POST with JSON to a URL. A pod in the Scaler's namespace sends it, so that the network policies of the namespace apply.
// Status 200 means done. Status 202 means not done yet: the request is repeated after the seconds in the header Retry-After. Without an
// answer, and after 429 or 500 and above, it is repeated until the deadline. Any other status from 400 to 499 means that the hook failed.
type HookHTTP struct {
	// URL begins with http:// or https://. It has a host and no user.
	//
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^https?://[^\s]+$`
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getHostname() != \"\"",message="url must be the URL of a server"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^https?://[^/?#]*@')",message="url must have no user and no password"
	URL string `json:"url"`
	// Timeout is the time limit of one request.
	//
	// +kubebuilder:default="10s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="a timeout is at least 1s"
	// +optional
	Timeout Deadline `json:"timeout,omitempty"`
}

// HookEvent sends the CloudEvent dev.drydock.scale.hook.requested. A Trigger delivers it to a function, which answers with
// dev.drydock.scale.hook.completed or dev.drydock.scale.hook.failed.
type HookEvent struct{}

// HookCleanup has no settings.
type HookCleanup struct{}

// ScalerDeadlines are the time limits of the stages.
type ScalerDeadlines struct {
	// Pre is the time limit of the stage preScaling.
	//
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="a deadline is at least 1s"
	// +optional
	Pre Deadline `json:"pre,omitempty"`
	// Scaling is the time limit of the stage scaling, until all members are ready.
	//
	// +kubebuilder:default="30m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="a deadline is at least 1s"
	// +optional
	Scaling Deadline `json:"scaling,omitempty"`
	// Post is the time limit of the stage postScaling.
	//
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="a deadline is at least 1s"
	// +optional
	Post Deadline `json:"post,omitempty"`
	// OnFailure is the time limit of the hook that runs when a scaling has failed.
	//
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="a deadline is at least 1s"
	// +optional
	OnFailure Deadline `json:"onFailure,omitempty"`
}

// Deadline is a positive Go duration. The schema limits only its length in characters.
//
// +kubebuilder:validation:MaxLength=20
// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
type Deadline string

// Stage is the state of a scaling.
//
// +kubebuilder:validation:Enum=idle;preScaling;scaling;postScaling;failed
type Stage string

const (
	// StageIdle: there is nothing to do.
	StageIdle Stage = "idle"
	// StagePreScaling: the hook before the change runs. The count is unchanged.
	StagePreScaling Stage = "preScaling"
	// StageScaling: the StatefulSet has the new count, and its members start or stop.
	StageScaling Stage = "scaling"
	// StagePostScaling: the members are ready, and the hook after the change runs.
	StagePostScaling Stage = "postScaling"
	// StageFailed: the scaling has failed. The annotation drydock.dev/retry retries it.
	StageFailed Stage = "failed"
)

// ScalerStatus is the observed state.
type ScalerStatus struct {
	// ObservedGeneration is the generation of the Scaler that this status describes.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Replicas is the present number of members.
	//
	// +optional
	Replicas int32 `json:"replicas"`
	// Selector selects the StatefulSet's pods, for autoscalers.
	//
	// +optional
	Selector string `json:"selector,omitempty"`
	// Target is the identity of the StatefulSet.
	//
	// +optional
	Target *TargetReference `json:"target,omitempty"`
	// Stage is the present stage of the scaling.
	//
	// +optional
	Stage Stage `json:"stage,omitempty"`
	// Operation is the id of the latest scaling.
	//
	// +optional
	Operation string `json:"operation,omitempty"`
	// Previous is the count before the scaling. It does not change during the scaling, even if spec.replicas does.
	//
	// +optional
	Previous *int32 `json:"previous,omitempty"`
	// Desired is the count after the scaling. It does not change during the scaling, even if spec.replicas does.
	//
	// +optional
	Desired *int32 `json:"desired,omitempty"`
	// Failed has the stage and the reason of a failed scaling.
	//
	// +optional
	Failed *ScalerFailure `json:"failed,omitempty"`
	// LastTransitionTime is when the stage began.
	//
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
	// History has the finished scalings, the latest first.
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
	Name string `json:"name"`
	// UID distinguishes the StatefulSet from a later one of the same name.
	UID types.UID `json:"uid"`
}

// ScalerFailure describes a failed scaling.
type ScalerFailure struct {
	// FailedAt is the stage that failed. A retry begins there.
	FailedAt Stage `json:"failedAt"`
	// Reason is the reason of the condition Failed.
	Reason string `json:"reason"`
}

// ScalingResult describes a finished scaling.
type ScalingResult struct {
	// Operation is the id of the scaling.
	Operation string `json:"operation"`
	// From is the count before the scaling.
	From int32 `json:"from"`
	// To is the requested count.
	To int32 `json:"to"`
	// Result is Succeeded or Failed.
	Result string `json:"result"`
	// Finished is when the scaling ended.
	Finished metav1.Time `json:"finished"`
}

// Types of conditions of a Scaler.
const (
	// ConditionHealthy: the StatefulSet has the desired count, or is being scaled to it.
	ConditionHealthy = "Healthy"
	// ConditionProgressing: a scaling is running or about to start. It is false when a scaling has failed.
	ConditionProgressing = "Progressing"
	// ConditionFailed: a scaling has failed.
	ConditionFailed = "Failed"
	// ConditionAutoscaled: the HorizontalPodAutoscaler of the Scaler exists. Only the modes hpa and auto have this condition.
	ConditionAutoscaled = "Autoscaled"
)

// AddToScheme registers the types.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Scaler{}, &ScalerList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
