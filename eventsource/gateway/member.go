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
)

// State is what a set does, in words for people.
type State string

const (
	Asleep  State = "asleep"
	Waking  State = "waking"
	Ready   State = "ready"
	Failed  State = "failed"
	Paused  State = "paused"
	Stopped State = "stopped" // at zero replicas, and Drydock did not put it to sleep: no visit wakes it
	Missing State = "missing" // an optional set that does not exist, or is not opted in
)

// wakes reports whether a visit wakes a set in the state, or it is awake.
func (s State) wakes() bool { return s != Paused && s != Stopped && s != Missing }

// Standing is how a set stands.
type Standing struct {
	State State
	// Ready of Want replicas are ready. Replicas is what the set asks for, which is 0 while it sleeps.
	Ready, Want, Replicas int32
	// Message says why, where the state alone does not.
	Message string
}

// describe returns what the set does, in words.
func (s Standing) describe() string {
	words := string(s.State)
	if s.State == Waking {
		words = fmt.Sprintf("waking, %d of %d ready", s.Ready, s.Want)
	}
	if s.Message != "" {
		words += ": " + s.Message
	}
	return words
}

// Member is what the gateway knows of one StatefulSet. It is small, because strangers decide how many are remembered.
type Member struct {
	Ref
	Standing
	Group string
	// OptedIn reports whether a clock puts the set to sleep, Timeout is the one that is understood.
	OptedIn bool
	Timeout time.Duration
	// Keeps reports whether a deadline on the set keeps its group awake: it is not paused, and what is written on it can be
	// understood. A set that cannot be understood is awake anyway, and the gateway does not write on it.
	Keeps      bool
	AwakeUntil time.Time
	// Alone reports whether the set wakes for its own deadline only: it is at zero, and no sleep that its group ends holds it there.
	Alone bool
	// Object is what a patch of the set needs to know of it.
	Object metav1.ObjectMeta
}

// memberOf reads a set.
func memberOf(set *appsv1.StatefulSet) Member {
	m := idle.MemberOf(set)
	_, optedIn := set.Annotations[api.IdleTimeoutAnnotation]
	member := Member{
		Ref: Ref{set.Namespace, set.Name}, Standing: standing(m), Group: set.Labels[api.GroupLabel], OptedIn: optedIn,
		Keeps: m.Err == nil && m.SleepErr == nil && !m.Rules.Paused, AwakeUntil: m.Rules.AwakeUntil,
		Alone:  statefulset.Replicas(set) == 0 && !m.Sleep.Active() && m.Revives() > 0,
		Object: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name, UID: set.UID, ResourceVersion: set.ResourceVersion},
	}
	if m.Err == nil {
		member.Timeout = m.Rules.Timeout
	}
	if set.Annotations != nil { // a patch has to know that the map exists, and not what else is in it
		member.Object.Annotations = map[string]string{}
		if until, ok := set.Annotations[api.AwakeUntilAnnotation]; ok {
			member.Object.Annotations[api.AwakeUntilAnnotation] = until
		}
	}
	return member
}

// standing judges a set by itself. One that is about to sleep is asleep, however many of its pods are still there.
func standing(m idle.Member) Standing {
	s := Standing{Ready: m.Set.Status.ReadyReplicas, Want: statefulset.Replicas(m.Set), Replicas: statefulset.Replicas(m.Set)}
	sleeps := m.Sleep.Active() && m.Sleep.Phase != api.Waking
	if m.Sleep != nil && s.Want == 0 {
		s.Want = m.Sleep.Replicas
	}
	switch {
	case m.Err == nil && m.Rules.Paused:
		s.State = Paused
	case sleeps:
		s.State = Asleep
	case idle.EnoughReady(m.Set, m.Sleep.Active()):
		s.State = Ready
	case failed(m):
		s.State, s.Message = Failed, clip(m.Sleep.Message, longestMessage)
	case s.Replicas == 0 && heldByResize(m.Set):
		s.State, s.Message = Asleep, "its volumes are being resized"
	case !m.Wakes():
		s.State, s.Message = Stopped, whyStopped(m)
	case s.Replicas == 0 && !m.Sleep.Active():
		s.State = Asleep
	default:
		s.State = Waking
	}
	return s
}

// failed reports whether the set's wake-up was given up, or its sleep with the set left at zero.
func failed(m idle.Member) bool {
	if m.Sleep == nil || m.Sleep.Phase != api.Failed {
		return false
	}
	if statefulset.Replicas(m.Set) == 0 {
		return m.Wakes()
	}
	return m.Sleep.FailedAt == api.Waking
}

// heldByResize reports whether an operation holds the set at zero and gives its replicas back. A record that cannot be read may be
// one of an operation.
func heldByResize(set *appsv1.StatefulSet) bool {
	return operation.Of(set).Resizing()
}

// whyStopped says why no visit wakes a set that has 0 replicas.
func whyStopped(m idle.Member) string {
	owner := statefulset.Controller(m.Set)
	switch {
	case m.Err != nil || m.SleepErr != nil:
		return "its annotations cannot be read"
	case owner != nil:
		return fmt.Sprintf("its %s %s has scaled it to zero", clip(owner.Kind, 63), clip(owner.Name, 253))
	}
	return "it has 0 replicas, and Drydock did not put it to sleep"
}
