package api

import (
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/bounded"
)

// RecordVersion is the version of the documents that this code writes and reads.
const RecordVersion = 2

// Kind is what an operation does. The record of each kind has a type of its own; Resize serves two kinds.
type Kind string

const (
	KindResize   Kind = "Resize"
	KindRollback Kind = "Rollback"
	KindSleep    Kind = "Sleep"
	KindCleanup  Kind = "Cleanup"
	KindScale    Kind = "Scale"
)

// Phase is where an operation stands. shared/operation says what each phase means, which function moves it on, and what may follow.
type Phase string

const (
	Planned   Phase = "Planned"
	Expanding Phase = "Expanding"
	Moving    Phase = "Moving"
	Finishing Phase = "Finishing"
	Reverting Phase = "Reverting"
	Stopping  Phase = "Stopping"
	Asleep    Phase = "Asleep"
	Waking    Phase = "Waking"
	Cleaning  Phase = "Cleaning"
	// PreScaling, Scaling, PostScaling and Failing are those of a scaling.
	PreScaling  Phase = "PreScaling"
	Scaling     Phase = "Scaling"
	PostScaling Phase = "PostScaling"
	Failing     Phase = "Failing"
	// Succeeded, Failed and Refused are terminal.
	Succeeded Phase = "Succeeded"
	Failed    Phase = "Failed"
	Refused   Phase = "Refused"
)

// Phases are the phases that each kind of operation has.
var Phases = map[Kind][]Phase{
	KindResize:   {Expanding, Planned, Moving, Finishing, Reverting, Succeeded, Failed, Refused},
	KindRollback: {Planned, Moving, Finishing, Reverting, Succeeded, Failed, Refused},
	KindSleep:    {Planned, Stopping, Asleep, Waking, Succeeded, Failed, Refused},
	KindCleanup:  {Cleaning, Succeeded, Failed, Refused},
	KindScale:    {PreScaling, Scaling, PostScaling, Failing, Succeeded, Failed},
}

// Terminal reports whether no function has work left in this phase.
func (p Phase) Terminal() bool { return p == Succeeded || p == Failed || p == Refused }

// SetRef is the identity of a StatefulSet. An empty UID marks a set that Drydock has just created again and whose
// new identity is still to be recorded.
type SetRef struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid,omitempty"`
}

// Header is what the records of all kinds of operations have in common. Times are RFC 3339 and change only when the phase does.
type Header struct {
	Version   int    `json:"version"`
	Operation string `json:"operation"`
	Kind      Kind   `json:"kind"`
	Phase     Phase  `json:"phase"`
	// Request is what the operation answers; another one needs another operation. A resize has the text of the resize annotation, a
	// sleep why the set sleeps, a cleanup the digest of what a cleanup of the set does, a scaling the count.
	Request string `json:"request"`
	// Attempt counts the operations of the record's annotation on the set, from 1, so that each has an id of its own.
	Attempt  int          `json:"attempt"`
	Set      SetRef       `json:"set"`
	Started  metav1.Time  `json:"started"`
	Finished *metav1.Time `json:"finished,omitempty"`
	// Deadline is when the present phase is given up.
	Deadline *metav1.Time `json:"deadline,omitempty"`
	Reason   Reason       `json:"reason,omitempty"`
	// Message says in a sentence what happened and what to do.
	Message string `json:"message,omitempty"`
	// FailedAt is the phase in which the operation was given up.
	FailedAt Phase `json:"failedAt,omitempty"`
	// OwnerProblem says why the owner stays paused although the operation does not need that any more. pause-owner writes and removes it.
	OwnerProblem string `json:"ownerProblem,omitempty"`
	// Trace is the W3C traceparent of the span in which the operation began. Each function that works on the operation continues that
	// trace. It is empty when tracing was off. Nothing is decided by it.
	Trace string `json:"trace,omitempty"`
}

// Head returns the header of any record.
func (h *Header) Head() *Header { return h }

func (h *Header) active() bool { return !h.Phase.Terminal() }

func (h *Header) validate() error {
	switch {
	case h.Version > RecordVersion:
		return fmt.Errorf("version is %d, this Drydock reads version %d; update Drydock", h.Version, RecordVersion)
	case h.Version != RecordVersion:
		return fmt.Errorf("version is %d, this Drydock reads version %d; remove the annotation if no operation runs", h.Version, RecordVersion)
	case h.Operation == "" || h.Phase == "" || h.Set.Name == "":
		return fmt.Errorf("operation, phase or set is missing; remove the annotation if no operation runs")
	}
	return nil
}

// isOf reports whether the record belongs to this very set. A record with another UID came along with a copied manifest and says
// nothing about the set that carries it.
func (h *Header) isOf(set *appsv1.StatefulSet) bool {
	return h.Set.Name == set.Name && h.Set.UID == set.UID
}

// load reads the record of one of the kinds from the annotation into the record. It returns false if there is none. Unreadable text,
// another version and a record without operation are errors, never "no operation": nothing may act on a state that it cannot read.
func load(set *appsv1.StatefulSet, annotation string, into interface{ Head() *Header }, kinds ...Kind) (bool, error) {
	text, ok := set.Annotations[annotation]
	if !ok {
		return false, nil
	}
	if err := bounded.Document([]byte(text), into); err != nil {
		return false, fmt.Errorf("reading annotation %s of StatefulSet %s/%s: %w; remove the annotation if no operation runs",
			annotation, set.Namespace, set.Name, err)
	}
	header := into.Head()
	if err := header.validate(); err != nil {
		return false, fmt.Errorf("annotation %s of StatefulSet %s/%s: %w", annotation, set.Namespace, set.Name, err)
	}
	if !slices.Contains(kinds, header.Kind) || !IsOperationID(header.Operation) { // names of objects derive from the id
		return false, fmt.Errorf("annotation %s of StatefulSet %s/%s is about %q operation %q, which does not belong there; remove it if no operation runs",
			annotation, set.Namespace, set.Name, header.Kind, header.Operation)
	}
	if !slices.Contains(Phases[header.Kind], header.Phase) {
		return false, fmt.Errorf("annotation %s of StatefulSet %s/%s: a %s has no phase %q; remove the annotation if no operation runs",
			annotation, set.Namespace, set.Name, header.Kind, header.Phase)
	}
	return true, nil
}

func mustJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("marshalling %T: %v", v, err)) // unreachable: plain structs
	}
	return string(b)
}
