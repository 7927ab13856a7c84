package gateway

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/text"
)

// State is the state of a set, as shown to visitors.
type State string

const (
	Asleep  State = "asleep"
	Waking  State = "waking"
	Ready   State = "ready"
	Failed  State = "failed"
	Paused  State = "paused"
	Stopped State = "stopped" // at zero replicas without a sleep of Drydock: no visit wakes it
	Missing State = "missing" // an optional set that does not exist or is not opted in
)

// wakes reports whether a set in the state is awake, or a visit wakes it.
func (s State) wakes() bool { return s != Paused && s != Stopped && s != Missing }

// Status is the observed state of a set.
type Status struct {
	State State
	// Ready is the number of ready replicas, and Want the number that the set has when it is awake. Replicas is spec.replicas, which is
	// 0 during a sleep.
	Ready, Want, Replicas int32
	// Message explains the state; may be empty.
	Message string
}

// describe returns the status in words.
func (s Status) describe() string {
	words := string(s.State)
	if s.State == Waking {
		words = fmt.Sprintf("waking, %d of %d ready", s.Ready, s.Want)
	}
	if s.Message != "" {
		words += ": " + s.Message
	}
	return words
}

// Member is the gateway's view of one StatefulSet. It is small, because anonymous callers choose how many are cached.
type Member struct {
	Ref
	Status
	Group string
	// OptedIn is true if the set has an idle timeout. Timeout is its value, or 0 if the value is invalid.
	OptedIn bool
	Timeout time.Duration
	// KeepsAwake is true if awake-until on the set keeps its group awake: the set is not paused, and its annotations are valid. A set with
	// invalid annotations stays awake anyway, and the gateway does not write to it.
	KeepsAwake bool
	AwakeUntil time.Time
	// WakesAlone is true if only awake-until on the set itself wakes it: it is at zero without a sleep that its group could end.
	WakesAlone bool
	// Object holds the metadata that a patch of the set needs.
	Object metav1.ObjectMeta
}

// memberOf returns the member of a set.
func memberOf(set *appsv1.StatefulSet) Member {
	m := idle.MemberOf(set)
	_, optedIn := set.Annotations[api.IdleTimeoutAnnotation]
	member := Member{
		Ref: Ref{set.Namespace, set.Name}, Status: statusOf(m), Group: set.Labels[api.GroupLabel], OptedIn: optedIn,
		KeepsAwake: m.Err == nil && m.SleepErr == nil && !m.Rules.Paused, AwakeUntil: m.Rules.AwakeUntil,
		WakesAlone: statefulset.Replicas(set) == 0 && !m.Sleep.Active() && m.ReplicasAtWake() > 0,
		Object:     metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name, UID: set.UID, ResourceVersion: set.ResourceVersion},
	}
	if m.Err == nil {
		member.Timeout = m.Rules.Timeout
	}
	if set.Annotations != nil { // a patch depends on whether the map exists
		member.Object.Annotations = map[string]string{}
		if until, ok := set.Annotations[api.AwakeUntilAnnotation]; ok {
			member.Object.Annotations[api.AwakeUntilAnnotation] = until
		}
	}
	return member
}

// statusOf returns the status of a set, without regard to its group. A set that will sleep counts as asleep, however many pods
// it still has.
func statusOf(m idle.Member) Status {
	s := Status{Ready: m.Set.Status.ReadyReplicas, Want: statefulset.Replicas(m.Set), Replicas: statefulset.Replicas(m.Set)}
	sleeps := m.Sleep.Active() && m.Sleep.Phase != api.Waking
	if m.Sleep != nil && s.Want == 0 {
		s.Want = m.Sleep.Replicas
	}
	switch {
	case m.Set.DeletionTimestamp != nil && !idle.EnoughReady(m.Set, m.Sleep.Active()):
		s.State, s.Message = Stopped, "it is being deleted"
	case m.Err == nil && m.Rules.Paused:
		s.State = Paused
	case sleeps:
		s.State = Asleep
	case idle.EnoughReady(m.Set, m.Sleep.Active()):
		s.State = Ready
	case hasFailed(m):
		s.State, s.Message = Failed, text.Clip(m.Sleep.Message, maxMessage)
	case s.Replicas == 0 && isResizing(m.Set):
		s.State, s.Message = Asleep, "its volumes are being resized"
	case !m.CanWake():
		s.State, s.Message = Stopped, stoppedReason(m)
	case s.Replicas == 0 && !m.Sleep.Active():
		s.State = Asleep
	default:
		s.State = Waking
	}
	return s
}

// hasFailed reports whether the set's wake-up failed, or its sleep failed and left the set at zero.
func hasFailed(m idle.Member) bool {
	if m.Sleep == nil || m.Sleep.Phase != api.Failed {
		return false
	}
	if statefulset.Replicas(m.Set) == 0 {
		return m.CanWake()
	}
	return m.Sleep.StartsLate
}

// isResizing reports whether a resize keeps the set at zero and will restore its replicas. An unreadable record may belong to one.
func isResizing(set *appsv1.StatefulSet) bool {
	return operation.Of(set).Resizing()
}

// stoppedReason returns why no visit wakes a set with 0 replicas.
func stoppedReason(m idle.Member) string {
	owner := statefulset.Controller(m.Set)
	switch {
	case m.Err != nil || m.SleepErr != nil:
		return "its annotations cannot be read"
	case owner != nil:
		return fmt.Sprintf("its %s %s scaled it to zero", text.Clip(owner.Kind, 63), text.Clip(owner.Name, 253))
	}
	return "it has 0 replicas, and Drydock did not put it to sleep"
}

// maxMessage limits a message on the page, in bytes.
const maxMessage = 300
