// Package events is the wire contract. It has the types of the CloudEvents that Drydock's functions send and understand. It defines how an
// event names its object, and creates and reads events. An event is a hint to read an object. It never authorizes a change.
package events

import (
	"fmt"
	"strings"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

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
	// Tick asks sift to search for unfinished operations, once a minute.
	Tick = "dev.knative.sources.ping"
)

// Types of Drydock's events.
const (
	// ObjectChanged says that an object was changed or must be looked at. Its extension concerns names the functions that must look.
	ObjectChanged = "dev.drydock.object.changed"
	// ResizeRequested asks detect-resize to look at a set. A user sends it by hand.
	ResizeRequested = "dev.drydock.resize.requested"
	// ResizeDetected says that a resize was accepted and has begun.
	ResizeDetected = "dev.drydock.resize.detected"
	// OwnerPaused says that the owner of a set is paused, or that the set has none.
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
	// Retry orders that a failed or refused request is taken up again.
	Retry = "dev.drydock.retry"
	// Activity orders that a set or group counts as used now. See IsOrder for the right to send it.
	Activity = "dev.drydock.activity"
	// Wake orders that a set or group wakes up.
	Wake = "dev.drydock.wake"
	// Sleep orders that a set or group sleeps.
	Sleep = "dev.drydock.sleep"
	// SleepDecided says that a set is to sleep. pause-owner continues.
	SleepDecided = "dev.drydock.sleep.decided"
	// WakeDecided says that a set is to wake up. pause-owner continues.
	WakeDecided = "dev.drydock.wake.decided"
	// Scaled says that a set is asleep, or awake and ready.
	Scaled = "dev.drydock.scaled"
	// ScaleCompleted says that a set has the count of its Scaler, and that the hooks have run.
	ScaleCompleted = "dev.drydock.scale.completed"
	// ScaleHookRequested asks a user's function to run a hook of a scaling. The next two are its answers, see HookAnswerOf.
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

// changed is the data of ObjectChanged.
type changed struct {
	UID             types.UID `json:"uid,omitempty"`
	ResourceVersion string    `json:"resourceVersion,omitempty"`
}

// NewChanged returns the event that wakes the functions concerned by a StatefulSet. sift sends it. Its id derives from the observed state,
// so that the same change yields the same event.
func NewChanged(ref Ref, seen string, concerns ...api.Function) cloudevents.Event {
	words := join(concerns)
	e := newEvent(api.Sift, ObjectChanged, ref, seen+"/"+strings.ReplaceAll(words, " ", "+"))
	setChange(&e, ref, words)
	return e
}

func setChange(e *cloudevents.Event, ref Ref, concerns string) {
	e.SetExtension(extConcerns, concerns)
	_ = e.SetData(cloudevents.ApplicationJSON, changed{UID: ref.UID, ResourceVersion: ref.ResourceVersion})
}

func join(functions []api.Function) string {
	names := make([]string, len(functions))
	for i, f := range functions {
		names[i] = string(f)
	}
	return strings.Join(names, " ")
}

// NewStep returns the event that announces a step of an operation. A function sends it. The id derives from operation and step, so that
// duplicates can be identified.
func NewStep(from api.Function, eventType string, ref Ref) cloudevents.Event {
	return newEvent(from, eventType, ref, ref.Operation+"/"+strings.TrimPrefix(eventType, "dev.drydock."))
}

func newEvent(from api.Function, eventType string, ref Ref, id string) cloudevents.Event {
	e := cloudevents.New()
	e.SetType(eventType)
	e.SetSource("drydock.dev/" + string(from))
	e.SetID(id)
	e.SetSubject(ref.Object().Path())
	e.SetExtension(extKind, KindStatefulSet)
	e.SetExtension(extNamespace, ref.Namespace)
	e.SetExtension(extName, ref.Name)
	e.SetExtension(extPartitionKey, partitionKey(ref))
	if ref.Operation != "" {
		e.SetExtension(extOperation, ref.Operation)
	}
	if ref.Purpose != "" {
		e.SetExtension(extPurpose, ref.Purpose)
	}
	return e
}

// partitionKey returns the UID of the set, or its name without a known UID. By this key a broker can keep the events of one set in order.
func partitionKey(ref Ref) string {
	if ref.UID != "" {
		return string(ref.UID)
	}
	return ref.String()
}

// ObjectOf returns the object of an event. It checks only that the names are well-formed: the content of an event is hostile input.
func ObjectOf(e cloudevents.Event) (Object, error) {
	kind, _ := e.Extensions()[extKind].(string)
	namespace, _ := e.Extensions()[extNamespace].(string)
	name, _ := e.Extensions()[extName].(string)
	if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
		return Object{}, fmt.Errorf("event %q: extension namespace %q: %s", e.ID(), namespace, problems[0])
	}
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return Object{}, fmt.Errorf("event %q: extension name %q: %s", e.ID(), name, problems[0])
	}
	return Object{Kind: kind, Namespace: namespace, Name: name}, nil
}

// SetOf returns the StatefulSet of one of Drydock's events.
func SetOf(e cloudevents.Event) (Ref, error) {
	if kind, _ := e.Extensions()[extKind].(string); kind != KindStatefulSet {
		return Ref{}, fmt.Errorf("event %q of type %s names kind %q, not a StatefulSet", e.ID(), e.Type(), kind)
	}
	object, err := ObjectOf(e)
	if err != nil {
		return Ref{}, err
	}
	operation, _ := e.Extensions()[extOperation].(string)
	return Ref{Namespace: object.Namespace, Name: object.Name, Operation: operation}, nil
}

// Fresh is the greatest age of an event that still describes the present.
const Fresh = time.Minute

// IsOld reports whether the event is older than Fresh. An event without a time counts as sent now.
func IsOld(e cloudevents.Event, now time.Time) bool {
	return !e.Time().IsZero() && now.Sub(e.Time()) > Fresh
}

// GroupOf returns the group of an event that names no set. It returns false for all other events.
func GroupOf(e cloudevents.Event) (namespace, group string, ok bool) {
	namespace, _ = e.Extensions()[extNamespace].(string)
	group, _ = e.Extensions()[extGroup].(string)
	_, named := e.Extensions()[extName]
	ok = !named && group != "" && len(validation.IsValidLabelValue(group)) == 0 && len(validation.IsDNS1123Label(namespace)) == 0
	return namespace, group, ok
}

// WithSet returns a copy of the event with the StatefulSet as its object.
func WithSet(e cloudevents.Event, ref Ref) cloudevents.Event {
	e = e.Clone()
	e.SetSubject(ref.Object().Path())
	e.SetExtension(extKind, KindStatefulSet)
	e.SetExtension(extNamespace, ref.Namespace)
	e.SetExtension(extName, ref.Name)
	return e
}

// Purpose returns the kind of operation in an event, or "".
func Purpose(e cloudevents.Event) string {
	purpose, _ := e.Extensions()[extPurpose].(string)
	return purpose
}

// Concerns returns the functions that an ObjectChanged is for.
func Concerns(e cloudevents.Event) []api.Function {
	text, _ := e.Extensions()[extConcerns].(string)
	var functions []api.Function
	for _, name := range strings.Fields(text) {
		functions = append(functions, api.Function(name))
	}
	return functions
}
