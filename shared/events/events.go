// Package events is the wire contract. It has the types of the CloudEvents that Drydock's functions send and understand. It defines how an
// event names its object, and creates and reads events. An event is a hint to read an object. It never authorizes a change.
package events

import (
	"slices"
	"strings"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
)

// Types of Knative's events: its ApiServerSource in Resource mode, and its PingSource.
const (
	// SourceAdd says that an object was created, or that the source has just started and found it.
	SourceAdd = "dev.knative.apiserver.resource.add"
	// SourceUpdate says that an object was changed.
	SourceUpdate = "dev.knative.apiserver.resource.update"
	// SourceDelete says that an object was deleted.
	SourceDelete = "dev.knative.apiserver.resource.delete"
	// Tick asks sift to search for unfinished operations. On Knative it comes once a minute, in standalone every 30s (DRYDOCK_TICK).
	Tick = "dev.knative.sources.ping"
)

// Types of Drydock's events.
const (
	// ObjectChanged says that an object has changed or is due for a check. Its extension concerns names the functions.
	ObjectChanged = "dev.drydock.object.changed"
	// ResizeRequested asks detect-resize to look at a set. A user sends it by hand.
	ResizeRequested = "dev.drydock.resize.requested"
	// ResizeDetected says that a resize was accepted and has begun.
	ResizeDetected = "dev.drydock.resize.detected"
	// OwnerPaused says that the owner of a set is paused, or that the set has none. backup continues, or scale for a sleep.
	OwnerPaused = "dev.drydock.owner.paused"
	// OwnerResumed says that the owner of a set is no longer paused.
	OwnerResumed = "dev.drydock.owner.resumed"
	// BackupCompleted says that backup has finished a step of a member, which restore continues.
	BackupCompleted = "dev.drydock.backup.completed"
	// RestoreCompleted says that a resize has succeeded.
	RestoreCompleted = "dev.drydock.restore.completed"
	// MemberChanged says that restore has moved a member to a phase for backup.
	MemberChanged = "dev.drydock.member.changed"
	// OperationFailed says that an operation was refused or has failed.
	OperationFailed = "dev.drydock.operation.failed"
	// Retry orders that a failed or refused request is taken up again. An order needs the token of an account that may patch the set.
	Retry = "dev.drydock.retry"
	// Activity orders that a set or group counts as used now.
	Activity = "dev.drydock.activity"
	// Wake orders that a set or group wakes up.
	Wake = "dev.drydock.wake"
	// Sleep orders that a set or group sleeps.
	Sleep = "dev.drydock.sleep"
	// SleepDecided says that a set is to sleep. pause-owner continues.
	SleepDecided = "dev.drydock.sleep.decided"
	// WakeDecided says that a set is to wake up. pause-owner and scale continue.
	WakeDecided = "dev.drydock.wake.decided"
	// Scaled says that a set is asleep, or awake and ready.
	Scaled = "dev.drydock.scaled"
	// ScaleCompleted says that a set has the count of its Scaler, and that the hooks have run.
	ScaleCompleted = "dev.drydock.scale.completed"
	// ScaleHookRequested asks a user's function to run a hook of a scaling. It answers with scale.hook.completed or scale.hook.failed.
	ScaleHookRequested = "dev.drydock.scale.hook.requested"
	// ScaleHookCompleted answers that the hook has succeeded.
	ScaleHookCompleted = "dev.drydock.scale.hook.completed"
	// ScaleHookFailed answers that the hook has failed.
	ScaleHookFailed = "dev.drydock.scale.hook.failed"
	// CleanupCompleted says that a scale-down has left no claims.
	CleanupCompleted = "dev.drydock.cleanup.completed"
)

// Extension names. CloudEvents allows lower-case letters and digits.
const (
	extConcerns     = "concerns"
	extKind         = "kind"
	extNamespace    = "namespace"
	extName         = "name"
	extGroup        = "group"
	extOperation    = "operation"
	extPurpose      = "purpose"
	extPartitionKey = "partitionkey"
)

// IsOrder reports whether an event of the type can change a set even if the live objects do not request it. Its sender needs the right to
// patch the set.
func IsOrder(eventType string) bool {
	return OrderAnnotation(eventType) != ""
}

// OrderAnnotation returns the annotation of a StatefulSet with the same meaning as an order, or "" for any other event.
func OrderAnnotation(eventType string) string {
	switch eventType {
	case Activity:
		return api.LastActivityAnnotation
	case Wake:
		return api.AwakeUntilAnnotation
	case Sleep:
		return api.SleepRequestedAnnotation
	case Retry:
		return api.RetryAnnotation
	}
	return ""
}

// Ref names a StatefulSet. UID and ResourceVersion are those that the sender saw. They only identify duplicates and decide nothing.
type Ref struct {
	Namespace       string
	Name            string
	UID             types.UID
	ResourceVersion string
	// Operation is the id of the event's operation, or "".
	Operation string
	// Purpose is the kind of the operation, in lower case. It is empty if the event's type implies it.
	Purpose string
}

// String returns the reference as namespace/name.
func (r Ref) String() string { return r.Namespace + "/" + r.Name }

// Object returns the set as an Object.
func (r Ref) Object() Object {
	return Object{Kind: KindStatefulSet, Namespace: r.Namespace, Name: r.Name}
}

// Kinds that the event source watches.
const (
	KindStatefulSet = "StatefulSet"
	KindClaim       = "PersistentVolumeClaim"
	KindJob         = "Job"
	KindPod         = "Pod"
	KindScaler      = "Scaler"
)

// Object names the object of an event.
type Object struct{ Kind, Namespace, Name string }

// places maps each kind to its apiVersion and plural in the API.
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

// Path returns the object's API path as ApiServerSource writes it into an event's subject. It begins with /apis even if the API server uses
// /api (knative.dev/eventing pkg/adapter/apiserver/events).
func (o Object) Path() string {
	place := places[o.Kind]
	return "/apis/" + place[0] + "/namespaces/" + o.Namespace + "/" + place[1] + "/" + o.Name
}

// URLPath returns the path of the object at the API server.
func (o Object) URLPath() string {
	if places[o.Kind][0] == "v1" {
		return "/api" + o.Path()[len("/apis"):]
	}
	return o.Path()
}

// OwnTypes returns the types of Drydock's events.
func OwnTypes() []string {
	return append([]string{ObjectChanged, ResizeRequested, ResizeDetected, OwnerPaused, OwnerResumed, BackupCompleted, MemberChanged,
		RestoreCompleted, OperationFailed, Retry, Activity, Wake, Sleep, SleepDecided, WakeDecided, Scaled, CleanupCompleted, ScaleCompleted},
		HookTypes()...)
}

// IsOwn reports whether the type belongs to Drydock.
func IsOwn(eventType string) bool { return slices.Contains(OwnTypes(), eventType) }

// HookTypes returns the types of the requests for hooks and of their answers. Their data has a key.
func HookTypes() []string { return []string{ScaleHookRequested, ScaleHookCompleted, ScaleHookFailed} }

// IsHook reports whether the event is a request for a hook, or an answer. A client that reads its data can answer the request.
func IsHook(eventType string) bool { return slices.Contains(HookTypes(), eventType) }

// SourceTypes returns the types of the event source's events about an object.
func SourceTypes() []string { return []string{SourceAdd, SourceUpdate, SourceDelete} }

// IsSource reports whether the type belongs to the event source.
func IsSource(eventType string) bool { return slices.Contains(SourceTypes(), eventType) }

// addressed is the value of the extensions that address an event.
const addressed = "true"

// addressOf returns the extension that addresses an event to the function: forpauseowner for pause-owner.
func addressOf(function api.Function) string {
	return "for" + strings.ReplaceAll(string(function), "-", "")
}

// address adds an extension for each function that the event is for. The Triggers in deploy/ compare it in spec.filter, for Brokers that
// evaluate no expressions. The function reads only the type, the purpose and the concerns of the event.
func address(e *cloudevents.Event) {
	for _, function := range recipients(*e) {
		e.SetExtension(addressOf(function), addressed)
	}
}

// recipients returns the functions that the event is for. The expressions of the Triggers in deploy/ say the same, and a test of
// eventsource/engine compares both.
func recipients(e cloudevents.Event) []api.Function {
	switch e.Type() {
	case ObjectChanged:
		known := []api.Function{api.Backup, api.CleanupPod, api.DetectResize, api.GrowVolumes, api.IdleTimeout, api.PauseOwner,
			api.Restore, api.ScaleFunction}
		return slices.DeleteFunc(known, func(f api.Function) bool { return !slices.Contains(Concerns(e), f) })
	case OwnerPaused:
		switch Purpose(e) {
		case "":
			return []api.Function{api.Backup, api.ScaleFunction}
		case "resize", "rollback":
			return []api.Function{api.Backup}
		case "sleep":
			return []api.Function{api.ScaleFunction}
		}
		return nil
	case ResizeRequested:
		return []api.Function{api.DetectResize}
	case MemberChanged:
		return []api.Function{api.Backup}
	case BackupCompleted:
		return []api.Function{api.Restore}
	case WakeDecided:
		return []api.Function{api.PauseOwner, api.ScaleFunction}
	case ResizeDetected, SleepDecided, Scaled, RestoreCompleted, OperationFailed:
		return []api.Function{api.PauseOwner}
	case Activity:
		return []api.Function{api.IdleTimeout}
	case Wake, Sleep: // scale starts while idle-timeout decides
		return []api.Function{api.IdleTimeout, api.ScaleFunction}
	case Retry:
		return []api.Function{api.CleanupPod, api.DetectResize, api.IdleTimeout, api.ScaleFunction}
	case ScaleHookRequested, ScaleHookCompleted, ScaleHookFailed:
		return []api.Function{api.ScaleFunction} // the user's function copies the extensions of the request into its answer
	}
	return nil
}
