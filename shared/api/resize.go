package api

import (
	"fmt"
	"slices"

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

// MemberPhase is the state of one member of a set while its claims get other volumes.
type MemberPhase string

const (
	// MemberPending: nothing has been done for the member yet. backup begins with it when its turn comes.
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

// Resize is the record of a resize or a rollback. It holds only state that the live objects do not show.
type Resize struct {
	Header
	Strategy Strategy `json:"strategy,omitempty"`
	// RollsBack is the operation whose old volumes a rollback restores.
	RollsBack string `json:"rollsBack,omitempty"`
	// Templates are the volumeClaimTemplates that change, with their new values.
	Templates []TemplateTarget `json:"templates,omitempty"`
	// ReplaceSet is true when the StatefulSet must be created again, because its own templates or fields change.
	ReplaceSet bool `json:"replaceSet,omitempty"`
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
	// RefusalDigest is a digest of the set's properties that led to a refusal. The request is checked again when the digest changes.
	RefusalDigest string `json:"judged,omitempty"`
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

// Member is one ordinal of the set: its pod and those of its claims that get other volumes.
type Member struct {
	Ordinal int         `json:"ordinal"`
	Phase   MemberPhase `json:"phase"`
	Claims  []Move      `json:"claims"`
	// Stops counts how often the member was told to stop.
	Stops int `json:"stops,omitempty"`
	// Attempt counts the movers created for the member, from 1. It makes their names unique.
	Attempt int `json:"attempt,omitempty"`
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
	// BytesDone and BytesTotal count the data bytes of regular files. BytesTrusted were verified in first passes and are unchanged since.
	BytesDone    int64 `json:"bytesDone,omitempty"`
	BytesTotal   int64 `json:"bytesTotal,omitempty"`
	BytesTrusted int64 `json:"bytesTrusted,omitempty"`
	Files        int64 `json:"files,omitempty"`
	// Digest is the SHA-256 of the verified tree, as the mover defines it. It is empty until the copy is verified in the present hold.
	Digest string `json:"digest,omitempty"`
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
func (m *Move) ForgetProgress() { m.BytesDone, m.BytesTotal, m.BytesTrusted, m.Files = 0, 0, 0, 0 }

// GrowsWhileStopped reports whether the claims grow in place while their members are stopped.
func (r *Resize) GrowsWhileStopped() bool {
	return slices.ContainsFunc(r.Moves(), func(m *Move) bool { return m.InPlace })
}

// Copies reports whether data is copied to new volumes.
func (r *Resize) Copies() bool { return !r.IsRollback() && !r.GrowsWhileStopped() }

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
	if r.Kind == KindRollback {
		request = RollbackRequest(r.RollsBack)
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
	return record, nil
}

// IsRollback reports whether the operation gives claims their former volumes back.
func (r *Resize) IsRollback() bool { return r.Kind == KindRollback }

// Active reports whether the operation still has work to do. A nil operation has none.
func (r *Resize) Active() bool { return r != nil && r.active() }

// TemplateTarget has the requested values of a volumeClaimTemplate.
type TemplateTarget struct {
	Name string            `json:"name"`
	Size resource.Quantity `json:"size"`
	// Class is a StorageClass. Empty keeps the template's class.
	Class string `json:"class,omitempty"`
	// Modes are access modes. None keeps the template's modes.
	Modes []corev1.PersistentVolumeAccessMode `json:"modes,omitempty"`
	// Attributes is a VolumeAttributesClass. Empty means none, nil keeps the template's class.
	Attributes *string `json:"attributes,omitempty"`
}

// String returns the template in the syntax of a request.
func (t *TemplateTarget) String() string {
	text := t.Name + "=" + t.Size.String()
	if t.Class != "" {
		text += "@" + t.Class
	}
	if t.Attributes != nil && *t.Attributes != "" {
		text += "%" + *t.Attributes
	}
	for i, mode := range t.Modes {
		text += string(":+"[min(i, 1)]) + ShortMode(mode)
	}
	return text
}

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

// Target returns the requested values for claims of the template.
func (t *TemplateTarget) Target() Target {
	return Target{Size: t.Size, Class: t.Class, Modes: t.Modes, Attributes: t.Attributes}
}

// TargetOf returns the name of the temporary claim that receives the copy.
func (r *Resize) TargetOf(move *Move) string { return TargetName(r.Operation, move.Claim, move.Copies) }

// Annotation returns the key under which the record is stored.
func (r *Resize) Annotation() string { return StatusAnnotation }
