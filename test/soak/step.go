package soak

import (
	"fmt"
	"strings"
	"time"

	"drydock.dev/shared/api"
)

// Action is the kind of a step.
type Action string

// Actions on a set.
const (
	Wake    Action = "wake"    // also a resize that was requested while the set slept
	Sleep   Action = "sleep"   //
	Resize  Action = "resize"  // by copy or in place; also a scaling that waits for it
	Abort   Action = "abort"   // a resize that is aborted, then retried
	Refuse  Action = "refuse"  // a request that Drydock refuses
	Scale   Action = "scale"   // by the Scaler, or a scale-up without one
	CleanUp Action = "cleanup" // a scale-down, whose claims are cleaned up
)

// Faults, which have no set.
const (
	Crash              Action = "crash drydock"
	RestartKubelet     Action = "restart kubelet"
	RestartContainerd  Action = "restart containerd"
	RestartControllers Action = "restart kube-controller-manager"
	RestartAPIServer   Action = "restart kube-apiserver"
)

// Actions are all of them.
var Actions = []Action{Wake, Sleep, Resize, Abort, Refuse, Scale, CleanUp, Crash, RestartKubelet, RestartContainerd, RestartControllers,
	RestartAPIServer}

// IsFault reports whether the action is a fault of the machine or of a process.
func (a Action) IsFault() bool {
	return a == Crash || strings.HasPrefix(string(a), "restart ")
}

// Step is one element of a sequence.
type Step struct {
	Number int
	Action Action
	// Before and After are the states of the set. A fault has none.
	Before, After Set
	// Request is the value of the resize annotation, or empty.
	Request string
	// Method is the value of the annotation for the method.
	Method api.Method
	// Reason is the reason of an expected refusal.
	Reason api.Reason
	// Delay is the time before a fault, or before an abort.
	Delay time.Duration
}

// String returns the step in one line. It identifies the step: two sequences are equal if their lines are.
func (s Step) String() string {
	if s.Action.IsFault() {
		return fmt.Sprintf("#%d %s after %s", s.Number, s.Action, s.Delay)
	}
	parts := []string{fmt.Sprintf("#%d %s %s (%s)", s.Number, s.Before.Name, s.Action, s.Before.Kind)}
	if s.Request != "" {
		parts = append(parts, s.Request)
	}
	if s.Before.Running() != s.After.Running() {
		parts = append(parts, fmt.Sprintf("%d to %d members", s.Before.Running(), s.After.Running()))
	}
	if s.Reason != "" {
		parts = append(parts, "expects "+string(s.Reason))
	}
	if s.Delay > 0 {
		parts = append(parts, "after "+s.Delay.String())
	}
	return strings.Join(parts, ", ")
}
