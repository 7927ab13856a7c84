package api

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Strategy says how many members are stopped at once while their claims get other volumes.
type Strategy string

const (
	// StrategyWhole stops all members together. It is the default, because Drydock cannot tell a replicated set from a sharded one.
	StrategyWhole Strategy = "whole"
	// StrategyRolling stops one member at a time, while the others keep serving.
	StrategyRolling Strategy = "rolling"
)

// Resize is the record of a resize or a rollback. It holds only state that the live objects do not show.
type Resize struct {
	Header
	Strategy Strategy `json:"strategy,omitempty"`
	// RollsBack is the operation whose old volumes a rollback restores.
	RollsBack string `json:"rollsBack,omitempty"`
	// AnsweredRollback is the latest order for a rollback that was begun or refused, if an operator makes the set. A copy of it does nothing.
	// Later records keep it.
	AnsweredRollback string `json:"answeredRollback,omitempty"`
	// Templates are the volumeClaimTemplates that change, with their new values.
	Templates []TemplateTarget `json:"templates,omitempty"`
	// ReplaceSet is true when the StatefulSet must be created again, because its own templates or fields change.
	ReplaceSet bool `json:"replaceSet,omitempty"`
	// Former is the UID of the set that this one has replaced. A resize that is undone replaces a set twice, and other records may belong to
	// the first or the second one.
	Former types.UID `json:"former,omitempty"`
	// Before has the former templates of the set if ReplaceSet is true.
	Before []TemplateTarget `json:"before,omitempty"`
	// Fields are the other immutable fields that change, FieldsBefore their former values.
	Fields       []Field `json:"fields,omitempty"`
	FieldsBefore []Field `json:"fieldsBefore,omitempty"`
	// Admitted has the user, group and SELinux options that admission gave to the set's pods before the operation. Movers get the same.
	Admitted *corev1.PodSecurityContext `json:"admitted,omitempty"`
	// Expansions are the claims that grow, or get another VolumeAttributesClass, on their present volumes.
	Expansions []Expansion `json:"expansions,omitempty"`
	// Members are the members whose claims get other volumes, by ordinal.
	Members []Member `json:"members,omitempty"`
	// TurnReturned is true since the resize gave its turn to others, to wait for an approval or a window, until it has a turn again.
	// Meanwhile no mover runs and no member stops.
	TurnReturned bool `json:"turnReturned,omitempty"`
	// StartsLater is true if no owner was asked within the time limit of the phase Planned, which then began once more.
	StartsLater bool `json:"startsLater,omitempty"`
}

// Expansion is a claim that grows, or gets another VolumeAttributesClass, on its present volume.
type Expansion struct {
	Claim    string            `json:"claim"`
	UID      types.UID         `json:"uid"`
	Template string            `json:"template"`
	Volume   string            `json:"volume"`
	From     resource.Quantity `json:"from"`
	To       resource.Quantity `json:"to"`
	// Attributes is the new VolumeAttributesClass of the volume, or nil if it stays the same.
	Attributes *string `json:"attributes,omitempty"`
	// Done is true when the volume and its file system have the size, and the volume has the VolumeAttributesClass.
	Done bool `json:"done,omitempty"`
}

// GrowsWhileStopped reports whether the claims grow in place while their members are stopped.
func (r *Resize) GrowsWhileStopped() bool {
	return slices.ContainsFunc(r.Moves(), func(m *Move) bool { return m.InPlace })
}

// Copies reports whether data is copied to new volumes.
func (r *Resize) Copies() bool { return !r.IsRollback() && !r.GrowsWhileStopped() }

// AfterStop returns the phase of a member after MemberStopping. Only an operation that copies data has final passes, and members grow only
// in an operation that grows their claims.
func (r *Resize) AfterStop() MemberPhase {
	switch {
	case r.IsRollback():
		return MemberSwapping
	case r.GrowsWhileStopped():
		return MemberGrowing
	}
	return MemberFinalPass
}

// Moves returns the moves of all members.
func (r *Resize) Moves() []*Move {
	var all []*Move
	for i := range r.Members {
		for j := range r.Members[i].Claims {
			all = append(all, &r.Members[i].Claims[j])
		}
	}
	return all
}

// Move returns the move of the claim, or nil.
func (r *Resize) Move(claim string) *Move {
	for _, m := range r.Moves() {
		if m.Claim == claim {
			return m
		}
	}
	return nil
}

// Member returns the member with the ordinal, or nil.
func (r *Resize) Member(ordinal int) *Member {
	for i := range r.Members {
		if r.Members[i].Ordinal == ordinal {
			return &r.Members[i]
		}
	}
	return nil
}

// Clone returns a copy. Changing it does not change r.
func (r *Resize) Clone() *Resize {
	c := *r
	c.Expansions = append([]Expansion(nil), r.Expansions...)
	c.Members = append([]Member(nil), r.Members...)
	for i := range c.Members {
		c.Members[i].Claims = append([]Move(nil), r.Members[i].Claims...)
	}
	return &c
}

// Encode returns the record as JSON. It cannot fail, because every field can be marshalled.
func (r *Resize) Encode() string { return mustJSON(r) }

// HasIDOf reports whether the operation has the id that Drydock derives for it on the StatefulSet with the UID. Drydock did not write a
// record with another id for this set.
func (r *Resize) HasIDOf(uid types.UID) bool {
	request := r.Request
	switch {
	case r.Kind == KindRollback:
		request = RollbackRequest(r.RollsBack)
	case r.IsGrowth():
		request = GrowthRequest(r.GrowTo)
	}
	return r.Operation == OperationID(uid, request, r.Attempt)
}

// LoadResize returns the record of the set's latest resize or rollback, or nil. A record of another set counts as absent. Unreadable text,
// another version and a record without operation are errors: nothing may act on a state that it cannot read. A record without UID belongs
// to a set that Drydock has just created again.
func LoadResize(set *appsv1.StatefulSet) (*Resize, error) {
	record := &Resize{}
	if found, err := load(set, StatusAnnotation, record, KindResize, KindRollback); !found {
		return nil, err
	}
	if slices.ContainsFunc(slices.Concat(record.Fields, record.FieldsBefore), func(s Field) bool { return !s.complete() }) {
		return nil, fmt.Errorf("annotation %s of StatefulSet %s/%s has an incomplete field; remove the annotation if no operation runs",
			StatusAnnotation, set.Namespace, set.Name)
	}
	created := record.Set.UID == "" && record.Set.Name == set.Name && record.Active() && record.ReplaceSet
	if !created && !record.isOf(set) {
		return nil, nil
	}
	afterStop := record.AfterStop()
	for _, m := range record.Members {
		if !m.Phase.occurs(afterStop) {
			return nil, fmt.Errorf("annotation %s of StatefulSet %s/%s: member %d of this %s cannot be in phase %q; remove the annotation if no "+
				"operation runs", StatusAnnotation, set.Namespace, set.Name, m.Ordinal, record.Kind, m.Phase)
		}
	}
	return record, nil
}

// IsRollback reports whether the operation gives claims their former volumes back.
func (r *Resize) IsRollback() bool { return r.Kind == KindRollback }

// IsGrowth reports whether the operation is a growth by usage. Such a resize stops no member and restarts no pod.
func (r *Resize) IsGrowth() bool { return r != nil && r.GrowTo != "" }

// WaitsForTurn reports whether the resize waits until enough movers are free. Only such a resize has no deadline.
func (r *Resize) WaitsForTurn() bool { return r.Active() && r.Deadline == nil }

// Active reports whether the operation still has work to do. A nil operation has none.
func (r *Resize) Active() bool { return r != nil && r.active() }

// Shape has the changed templates and fields of a set that is created again.
type Shape struct {
	Templates []TemplateTarget
	Fields    []Field
}

// Empty reports whether the shape changes nothing.
func (s Shape) Empty() bool { return len(s.Templates) == 0 && len(s.Fields) == 0 }

// NewShape returns the shape after the operation.
func (r *Resize) NewShape() Shape { return Shape{r.Templates, r.Fields} }

// OldShape returns the shape before the operation.
func (r *Resize) OldShape() Shape { return Shape{r.Before, r.FieldsBefore} }

// TargetOf returns the name of the temporary claim that receives the copy.
func (r *Resize) TargetOf(move *Move) string { return TargetName(r.Operation, move.Claim, move.Copies) }

// Annotation returns the key under which the record is stored.
func (r *Resize) Annotation() string { return StatusAnnotation }

// isOfFormer reports whether the record belongs to a set that the set's latest resize has replaced by this one. The id of that resize comes
// from the UID of the first one.
func (h *Header) isOfFormer(set *appsv1.StatefulSet) bool {
	resize, err := LoadResize(set)
	return err == nil && resize != nil && resize.ReplaceSet && h.Set.Name == set.Name &&
		(resize.HasIDOf(h.Set.UID) || h.Set.UID != "" && h.Set.UID == resize.Former)
}

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

// Move is a claim that gets another volume, or that grows while its member is stopped.
type Move struct {
	Claim    string            `json:"claim"`
	UID      types.UID         `json:"uid"`
	Template string            `json:"template"`
	From     resource.Quantity `json:"from"`
	To       resource.Quantity `json:"to"`
	// Class is the target's StorageClass if it differs from the source's.
	Class string `json:"class,omitempty"`
	// Modes are the target's access modes if they differ from the source's.
	Modes []corev1.PersistentVolumeAccessMode `json:"modes,omitempty"`
	// Attributes is the target's VolumeAttributesClass if it differs from the source's.
	Attributes *string `json:"attributes,omitempty"`
	// OldVolume and NewVolume are the PersistentVolumes before and after. In a rollback, NewVolume is the restored old volume.
	OldVolume string `json:"oldVolume"`
	NewVolume string `json:"newVolume,omitempty"`
	// InPlace is true if the claim keeps OldVolume, which grows while the member is stopped. There is no NewVolume then.
	InPlace bool `json:"inPlace,omitempty"`
	// Moved is true when the claim is bound to its new volume, or its volume has grown.
	Moved bool `json:"moved,omitempty"`
	// Copies counts the finished copies that became stale because the member started again. Each copy has its own volume.
	Copies int `json:"copies,omitempty"`
	// BytesDone and BytesTotal count the data bytes of regular files: of the whole copy, not of one pass. BytesTrusted were verified in
	// first passes and are unchanged since. BytesFinal were written in the final pass.
	BytesDone    int64 `json:"bytesDone,omitempty"`
	BytesTotal   int64 `json:"bytesTotal,omitempty"`
	BytesTrusted int64 `json:"bytesTrusted,omitempty"`
	BytesFinal   int64 `json:"bytesFinal,omitempty"`
	Files        int64 `json:"files,omitempty"`
	// Verified is true as soon as the copy is verified in the present hold.
	Verified bool `json:"verified,omitempty"`
	// Warnings are sentences from the movers of the claim. Each is a Kubernetes Event, too.
	Warnings []string `json:"warnings,omitempty"`
}

// Target returns the requested size, class, modes and attributes of the claim.
func (m *Move) Target() Target {
	return Target{Size: m.To, Class: m.Class, Modes: m.Modes, Attributes: m.Attributes}
}

// Volume returns the volume that the claim has after the operation.
func (m *Move) Volume() string {
	if m.InPlace {
		return m.OldVolume
	}
	return m.NewVolume
}

// DiscardCopy discards the copy, so that the claim is copied to another volume.
func (m *Move) DiscardCopy() {
	m.Copies++
	m.NewVolume = ""
	m.ForgetProgress()
}

// ForgetProgress resets the counters of the copy, because it has a new target.
func (m *Move) ForgetProgress() {
	m.BytesDone, m.BytesTotal, m.BytesTrusted, m.BytesFinal, m.Files = 0, 0, 0, 0, 0
}

// DefaultMaxStop is how long a member may be stopped in a rolling resize without MaxStopAnnotation.
const DefaultMaxStop = time.Minute

// Values of CutoverAnnotation other than windows.
const (
	CutoverAuto    = "auto"
	CutoverApprove = "approve"
)

// Values of FirstPassAnnotation.
const (
	FirstPassAuto = "auto"
	FirstPassOff  = "off"
)

// StrategyOf returns the requested strategy of the set. It returns false if the annotation has an unknown value.
func StrategyOf(set *appsv1.StatefulSet) (Strategy, bool) {
	switch s := Strategy(set.Annotations[StrategyAnnotation]); s {
	case "":
		return StrategyWhole, true
	case StrategyWhole, StrategyRolling:
		return s, true
	}
	return StrategyWhole, false
}

// MaxStop returns how long a member may be stopped for its final pass; 0 means no limit. It returns false if the annotation is not a
// positive duration.
func MaxStop(set *appsv1.StatefulSet, strategy Strategy) (time.Duration, bool) {
	text, otherwise := set.Annotations[MaxStopAnnotation], time.Duration(0)
	if strategy == StrategyRolling {
		otherwise = DefaultMaxStop
	}
	if text == "" {
		return otherwise, true
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return otherwise, false
	}
	return d, true
}

// PrimaryLabel returns the label that marks the primary of the set. It returns false if the set names none.
func PrimaryLabel(set *appsv1.StatefulSet) (key, value string, ok bool) {
	key, value, ok = strings.Cut(set.Annotations[PrimaryAnnotation], "=")
	return strings.TrimSpace(key), strings.TrimSpace(value), ok && strings.TrimSpace(key) != ""
}
