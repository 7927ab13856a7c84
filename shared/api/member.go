package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// MemberPhase is the state of one member of a set while its claims get other volumes.
type MemberPhase string

const (
	// MemberPending: nothing has been done for the member yet. In a rolling resize, backup begins with it when the former member has moved.
	MemberPending MemberPhase = "Pending"
	// MemberCopying: backup provisions the new volumes, and a mover makes first passes beside the running pod.
	MemberCopying MemberPhase = "Copying"
	// MemberWaiting: the copies have converged, and the mover waits. restore stops the member when the gate allows it.
	MemberWaiting MemberPhase = "Waiting"
	// MemberStopping: restore holds the pod and waits for the proof that it has stopped.
	MemberStopping MemberPhase = "Stopping"
	// MemberFinalPass: the pod has stopped. backup lets the mover copy the remaining changes and verify.
	MemberFinalPass MemberPhase = "FinalPass"
	// MemberGrowing: the pod has stopped. When the volumes are detached, restore requests larger claims and waits until they have grown.
	MemberGrowing MemberPhase = "Growing"
	// MemberSwapping: the copies are verified. restore swaps the claims onto their new volumes.
	MemberSwapping MemberPhase = "Swapping"
	// MemberStarting: restore has released the pod and waits until its replacement is ready.
	MemberStarting MemberPhase = "Starting"
	// MemberMoved: the member runs on its new volumes.
	MemberMoved MemberPhase = "Moved"
	// MemberKept: the operation failed, and the member runs on its former volumes.
	MemberKept MemberPhase = "Kept"
)

// occurs reports whether a member can be in the phase in an operation with this phase after MemberStopping.
func (p MemberPhase) occurs(afterStop MemberPhase) bool {
	switch p {
	case MemberFinalPass, MemberGrowing:
		return p == afterStop
	case MemberPending, MemberCopying, MemberWaiting, MemberStopping, MemberSwapping, MemberStarting, MemberMoved, MemberKept:
		return true
	}
	return false
}

// Member is one ordinal of the set: its pod and those of its claims that get other volumes.
type Member struct {
	Ordinal int         `json:"ordinal"`
	Phase   MemberPhase `json:"phase"`
	Claims  []Move      `json:"claims"`
	// Stops counts how often the member was told to stop.
	Stops int `json:"stops,omitempty"`
	// Attempt counts the tries to copy and stop the member, from 1. The names of its movers and hooks contain it, so that none of them
	// counts for another try.
	Attempt int `json:"attempt,omitempty"`
	// WritableSources is true if the mover beside the pod mounts the volumes writable in its pod, and read-only in its containers. Its node
	// has refused a read-only mount.
	WritableSources bool `json:"writableSources,omitempty"`
	// RefusingNode is the node that could not attach or mount the volumes of a mover beside the pod. While the pod is there, the member is
	// copied only after its stop, and its mover may run on another node.
	RefusingNode string `json:"refusingNode,omitempty"`
	// FinalTries counts the movers that ended before the final pass of the present stop.
	FinalTries int `json:"finalTries,omitempty"`
	// Pod is the pod beside which the first passes run, later the held pod.
	Pod types.UID `json:"pod,omitempty"`
	// Locked is true when the member has no pod. Pod is then a pod of Drydock that locks the name, so that no member starts.
	Locked bool `json:"locked,omitempty"`
	// Node is the node of the pod. The mover must run there.
	Node string `json:"node,omitempty"`
	// HeldAt is when the pod was told to stop, and Stopped when the stop was proven. Released is when the hold was removed, and Ready when the
	// replacement was ready. The swap resets Stopped if another pod may have written to the old volume since.
	HeldAt     *metav1.Time `json:"held,omitempty"`
	StoppedAt  *metav1.Time `json:"stopped,omitempty"`
	ReleasedAt *metav1.Time `json:"released,omitempty"`
	ReadyAt    *metav1.Time `json:"ready,omitempty"`
	// Hook is the name of the Job of the latest hook that has succeeded. Its pod may be gone before the step ends.
	Hook string `json:"hook,omitempty"`
	// CheckedAt is when the member checks of all other members began to succeed without interruption. It is set while this member waits.
	CheckedAt *metav1.Time `json:"checked,omitempty"`
	// Deadline is when the operation gives up the present phase of the member.
	Deadline *metav1.Time `json:"deadline,omitempty"`
	// Forecast is the expected duration of the final pass in seconds, as the mover last measured.
	Forecast float64 `json:"forecast,omitempty"`
	// Stalled says why the mover cannot continue, for example "ImagePullBackOff: …", and StalledSince since when. Both are empty otherwise.
	Stalled      string       `json:"stalled,omitempty"`
	StalledSince *metav1.Time `json:"stalledSince,omitempty"`
	// ProgressAt is the last write of progress. It limits how often progress is written.
	ProgressAt *metav1.Time `json:"progressAt,omitempty"`
}
