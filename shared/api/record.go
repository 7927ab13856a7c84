package api

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/bounded"
)

// RecordVersion is the version of the records that this code writes and reads.
const RecordVersion = 2

// Kind says whether an operation is a resize, a rollback, a sleep, a cleanup or a scaling. Resize and rollback share one record type.
type Kind string

const (
	KindResize   Kind = "Resize"
	KindRollback Kind = "Rollback"
	KindSleep    Kind = "Sleep"
	KindCleanup  Kind = "Cleanup"
	KindScale    Kind = "Scale"
)

// Phase is the state of an operation. Package operation has the meaning of each phase, the function that works in it, and its successors.
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

// Phases maps each kind of operation to its phases.
var Phases = map[Kind][]Phase{
	KindResize:   {Expanding, Planned, Moving, Finishing, Reverting, Succeeded, Failed, Refused},
	KindRollback: {Planned, Moving, Finishing, Reverting, Succeeded, Failed, Refused},
	KindSleep:    {Planned, Stopping, Asleep, Waking, Succeeded, Failed, Refused},
	KindCleanup:  {Cleaning, Succeeded, Failed, Refused},
	KindScale:    {PreScaling, Scaling, PostScaling, Failing, Succeeded, Failed},
}

// Terminal reports whether no function has work left in this phase.
func (p Phase) Terminal() bool { return p == Succeeded || p == Failed || p == Refused }

// SetRef is the identity of a StatefulSet. An empty UID marks a set that Drydock has just created again: its new UID is not recorded yet.
type SetRef struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid,omitempty"`
}

// Header is the common part of all records. Times are RFC 3339 and change only when the phase does.
type Header struct {
	Version   int    `json:"version"`
	Operation string `json:"operation"`
	Kind      Kind   `json:"kind"`
	Phase     Phase  `json:"phase"`
	// Request is the text of the resize annotation, the cause of a sleep, a digest of a cleanup's template and settings, or the count of a
	// scaling. Another request needs another operation.
	Request string `json:"request"`
	// GrowTo has the floors of a growth by usage. It is empty if the operation was begun for the request. A growth begins only while the set
	// fulfils the request.
	GrowTo string `json:"growTo,omitempty"`
	// Attempt counts the operations in this annotation of the set, from 1. It gives each operation its own id.
	Attempt  int          `json:"attempt"`
	Set      SetRef       `json:"set"`
	Started  metav1.Time  `json:"started"`
	Finished *metav1.Time `json:"finished,omitempty"`
	// Deadline is the end of the time for the present phase.
	Deadline *metav1.Time `json:"deadline,omitempty"`
	Reason   Reason       `json:"reason,omitempty"`
	// Message says what happened and what to do.
	Message string `json:"message,omitempty"`
	// FailedAt is the phase that failed.
	FailedAt Phase `json:"failedAt,omitempty"`
	// RefusalDigest is a digest of what users and owners decided about the set when the request was refused. The request is checked again
	// when the digest changes.
	RefusalDigest string `json:"judged,omitempty"`
	// OwnerProblem says why the owner stays paused although the operation no longer needs it. pause-owner writes and removes it.
	OwnerProblem string `json:"ownerProblem,omitempty"`
	// Trace is the W3C traceparent of the first span of the operation. Every function that works on the operation continues that
	// trace. It is empty if tracing was off. No decision depends on it.
	Trace string `json:"trace,omitempty"`
}

// Head returns the header of any record.
func (h *Header) Head() *Header { return h }

// Purpose returns the request or the floors that the operation was begun for.
func (h *Header) Purpose() string { return cmp.Or(h.GrowTo, h.Request) }

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

// beginning returns the text of the fields that the policy drydock-fence-sets reads. It takes them from the beginning of a record, so a
// repeated key further down must not count.
func (h *Header) beginning() string {
	return fmt.Sprintf(`{"version":%d,"operation":"%s","kind":"%s","phase":"%s",`, h.Version, h.Operation, h.Kind, h.Phase)
}

// isOf reports whether the record belongs to this set. A record with another UID came from a copied manifest and says nothing about this
// set.
func (h *Header) isOf(set *appsv1.StatefulSet) bool {
	return h.Set.Name == set.Name && h.Set.UID == set.UID
}

// longestRecord is the limit for a record in an annotation, in bytes. The API server accepts no longer one, but the object of an event may
// come from any client. A lower limit could make the record of a large resize unreadable while it runs.
const longestRecord = 256 << 10

// load reads a record of one of the kinds from the annotation into the given record. It returns false if there is no annotation. Unreadable
// text, another version and a record without operation are errors, never "no operation": nothing may act on a state that it cannot read.
//
// It reads the header first. A user may have written any text, and the lists of a record take much more memory than the header. It decodes
// the rest only if the header is valid and names a set of this name.
func load(set *appsv1.StatefulSet, annotation string, into interface{ Head() *Header }, kinds ...Kind) (bool, error) {
	text, ok := set.Annotations[annotation]
	if !ok {
		return false, nil
	}
	unreadable := func(err error) error {
		return fmt.Errorf("reading annotation %s of StatefulSet %s/%s: %w; remove the annotation if no operation runs",
			annotation, set.Namespace, set.Name, err)
	}
	if len(text) > longestRecord {
		return false, unreadable(fmt.Errorf("it has %d bytes, at most %d are read", len(text), longestRecord))
	}
	header := &Header{}
	if err := bounded.Document([]byte(text), header); err != nil {
		return false, unreadable(err)
	}
	if err := header.validate(); err != nil {
		return false, fmt.Errorf("annotation %s of StatefulSet %s/%s: %w", annotation, set.Namespace, set.Name, err)
	}
	if !slices.Contains(kinds, header.Kind) || !IsOperationID(header.Operation) { // object names derive from the id
		return false, fmt.Errorf("annotation %s of StatefulSet %s/%s has operation %q of kind %q, which does not belong there; remove the "+
			"annotation if no operation runs", annotation, set.Namespace, set.Name, header.Operation, header.Kind)
	}
	if !strings.HasPrefix(text, header.beginning()) {
		return false, fmt.Errorf("annotation %s of StatefulSet %s/%s does not begin as Drydock writes it, with %s; remove the annotation if no "+
			"operation runs", annotation, set.Namespace, set.Name, header.beginning())
	}
	if !slices.Contains(Phases[header.Kind], header.Phase) {
		return false, fmt.Errorf("annotation %s of StatefulSet %s/%s: a %s has no phase %q; remove the annotation if no operation runs",
			annotation, set.Namespace, set.Name, header.Kind, header.Phase)
	}
	if header.Set.Name != set.Name {
		*into.Head() = *header // the caller sees that it belongs to another set
		return true, nil
	}
	if err := bounded.Document([]byte(text), into); err != nil {
		return false, unreadable(err)
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
