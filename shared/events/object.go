package events

import "slices"

// Kinds that the event source watches.
const (
	KindStatefulSet = "StatefulSet"
	KindClaim       = "PersistentVolumeClaim"
	KindJob         = "Job"
	KindPod         = "Pod"
	KindScaler      = "Scaler"
)

// Object names an object that events are about.
type Object struct{ Kind, Namespace, Name string }

// places say where in the API the kinds live: apiVersion, plural.
var places = map[string][2]string{
	KindStatefulSet: {"apps/v1", "statefulsets"},
	KindClaim:       {"v1", "persistentvolumeclaims"},
	KindJob:         {"batch/v1", "jobs"},
	KindPod:         {"v1", "pods"},
	KindScaler:      {"drydock.dev/v1alpha1", "scalers"},
}

// Watched reports whether the event source watches objects of this kind.
func (o Object) Watched() bool {
	_, known := places[o.Kind]
	return known
}

// Path is the object's API path as ApiServerSource writes it into an event's subject: below /apis also where the API
// server has it below /api (knative.dev/eventing pkg/adapter/apiserver/events).
func (o Object) Path() string {
	place := places[o.Kind]
	return "/apis/" + place[0] + "/namespaces/" + o.Namespace + "/" + place[1] + "/" + o.Name
}

// URLPath is where the API server has the object.
func (o Object) URLPath() string {
	if places[o.Kind][0] == "v1" {
		return "/api" + o.Path()[len("/apis"):]
	}
	return o.Path()
}

// Own are the types of our own events.
func Own() []string {
	return []string{ObjectChanged, ResizeRequested, ResizeDetected, OwnerPaused, OwnerResumed, BackupCompleted, MemberChanged,
		RestoreCompleted, OperationFailed, Retry, Activity, Wake, Sleep, SleepDecided, WakeDecided, Scaled, CleanupCompleted, ScaleCompleted,
		ScaleHookRequested, ScaleHookCompleted, ScaleHookFailed}
}

// IsOwn reports whether the type is one of our own.
func IsOwn(eventType string) bool { return slices.Contains(Own(), eventType) }

// Sources are the types of the event source's events about an object.
func Sources() []string { return []string{SourceAdd, SourceUpdate, SourceDelete} }

// IsSource reports whether the type is the event source's, about an object.
func IsSource(eventType string) bool { return slices.Contains(Sources(), eventType) }
