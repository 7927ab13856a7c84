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

// Strategy says how many members of a set are stopped at once while their claims get other volumes.
type Strategy string

const (
	// StrategyWhole stops all members together. The default: nothing tells a replicated set from a sharded one.
	StrategyWhole Strategy = "whole"
	// StrategyRolling stops one member at a time, while the others serve.
	StrategyRolling Strategy = "rolling"
)

// MemberPhase is where one member of a set stands while its claims get other volumes.
type MemberPhase string

const (
	// MemberPending: nothing has been done for the member yet. backup begins with it when its turn comes.
	MemberPending MemberPhase = "Pending"
	// MemberCopying: backup provisions the new volumes, and a mover makes first passes beside the running pod.
	MemberCopying MemberPhase = "Copying"
	// MemberWaiting: the copies have converged and the mover waits. restore stops the member as soon as the gate is open.
	MemberWaiting MemberPhase = "Waiting"
	// MemberStopping: restore holds the pod, and waits for the proof that it has stopped.
	MemberStopping MemberPhase = "Stopping"
	// MemberFinalPass: the pod has stopped. backup has the mover copy what is left, and verify.
	MemberFinalPass MemberPhase = "FinalPass"
	// MemberGrowing: the pod has stopped. restore has the claims ask for more as soon as their volumes are detached, and waits until they have
	// grown.
	MemberGrowing MemberPhase = "Growing"
	// MemberSwapping: the copies are verified. restore puts them behind the names of the claims.
	MemberSwapping MemberPhase = "Swapping"
	// MemberStarting: restore has released the pod, and waits until its replacement is ready.
	MemberStarting MemberPhase = "Starting"
	// MemberMoved: the member runs on its new volumes.
	MemberMoved MemberPhase = "Moved"
	// MemberKept: the operation was given up, and the member is on the volumes that it had.
	MemberKept MemberPhase = "Kept"
)

// Resize is the record of a resize, or of a rollback of one. It holds what cannot be seen in the live objects.
type Resize struct {
	Header
	Strategy Strategy `json:"strategy,omitempty"`
	// RollsBack is, in a rollback, the operation whose old volumes come back.
	RollsBack string `json:"rollsBack,omitempty"`
	// Templates are the volumeClaimTemplates that the operation concerns and what they are to ask for.
	Templates []TemplateTarget `json:"templates,omitempty"`
	// ReplaceSet is true when the StatefulSet's own templates have to change, so that it has to be created again.
	ReplaceSet bool `json:"replaceSet,omitempty"`
	// Before are the templates that the set had, where ReplaceSet is true.
	Before []TemplateTarget `json:"before,omitempty"`
	// Fields are what else the set gets when it is created again, and FieldsBefore what it had.
	Fields       []Field `json:"fields,omitempty"`
	FieldsBefore []Field `json:"fieldsBefore,omitempty"`
	// Admitted is the user, group and SELinux options that admission had given to the set's pods when the operation was planned. Movers
	// get the same.
	Admitted *corev1.PodSecurityContext `json:"admitted,omitempty"`
	// Expansions are the claims that grow, or get another VolumeAttributesClass, on their volumes.
	Expansions []Expansion `json:"expansions,omitempty"`
	// Members are those whose claims get other volumes, by ordinal.
	Members []Member `json:"members,omitempty"`
	// Judged is, of a refusal, a digest of what on the set it rests on: the request is judged anew when the set has another one.
	Judged string `json:"judged,omitempty"`
}

// Expansion is a claim that grows, or gets another VolumeAttributesClass, on its volume.
type Expansion struct {
	Claim    string            `json:"claim"`
	UID      types.UID         `json:"uid"`
	Template string            `json:"template"`
	Volume   string            `json:"volume"`
	From     resource.Quantity `json:"from"`
	To       resource.Quantity `json:"to"`
	// Attributes is the VolumeAttributesClass that the volume gets, if it is to differ.
	Attributes *string `json:"attributes,omitempty"`
	// Done: the volume, and the file system on it, have the size, and the volume has the VolumeAttributesClass.
	Done bool `json:"done,omitempty"`
}

// Member is one ordinal of the set: its pod, and those of its claims that get other volumes.
type Member struct {
	Ordinal int         `json:"ordinal"`
	Phase   MemberPhase `json:"phase"`
	Claims  []Move      `json:"claims"`
	// Stops counts how often the member was told to stop.
	Stops int `json:"stops,omitempty"`
	// Attempt counts the movers made for the member, from 1. Each has a name of its own.
	Attempt int `json:"attempt,omitempty"`
	// FinalTries counts the movers that have ended before the final pass of the present stop.
	FinalTries int `json:"finalTries,omitempty"`
	// Pod is the pod beside which the first passes were made, later the one that is held.
	Pod types.UID `json:"pod,omitempty"`
	// Locked: the member has no pod, and Pod is one of Drydock's own that keeps the name, so that none starts.
	Locked bool `json:"locked,omitempty"`
	// Node is where the pod runs, and so where the mover has to run.
	Node string `json:"node,omitempty"`
	// Held is when the pod was told to stop, Stopped when that was proven, Released when the hold was taken off, Ready when the
	// replacement was ready. Stopped is removed during the swap if another pod may have written to the old volume since.
	Held     *metav1.Time `json:"held,omitempty"`
	Stopped  *metav1.Time `json:"stopped,omitempty"`
	Released *metav1.Time `json:"released,omitempty"`
	Ready    *metav1.Time `json:"ready,omitempty"`
	// Checked is when the member check of all other members was good for the first time in a row, while this one waits to be stopped.
	Checked *metav1.Time `json:"checked,omitempty"`
	// Deadline is when the present phase of the member is given up.
	Deadline *metav1.Time `json:"deadline,omitempty"`
	// Forecast is how long the final pass will take, in seconds, as the mover last measured.
	Forecast float64 `json:"forecast,omitempty"`
	// Stalled is why the mover cannot go on, as "ImagePullBackOff: …", StalledSince since when. Empty when it can.
	Stalled      string       `json:"stalled,omitempty"`
	StalledSince *metav1.Time `json:"stalledSince,omitempty"`
	// ProgressAt limits how often progress is written.
	ProgressAt *metav1.Time `json:"progressAt,omitempty"`
}

// Move is a claim that gets another volume, or that grows while its member is stopped.
type Move struct {
	Claim    string            `json:"claim"`
	UID      types.UID         `json:"uid"`
	Template string            `json:"template"`
	From     resource.Quantity `json:"from"`
	To       resource.Quantity `json:"to"`
	// Class is the target's StorageClass when it is to differ from the source's.
	Class string `json:"class,omitempty"`
	// Modes are the target's access modes when they are to differ from the source's.
	Modes []corev1.PersistentVolumeAccessMode `json:"modes,omitempty"`
	// Attributes is the target's VolumeAttributesClass when it is to differ from the source's.
	Attributes *string `json:"attributes,omitempty"`
	// OldVolume and NewVolume are the names of the PersistentVolumes before and after. In a rollback, the new one is the one that comes back.
	OldVolume string `json:"oldVolume"`
	NewVolume string `json:"newVolume,omitempty"`
	// InPlace: the claim keeps OldVolume, which grows while the member is stopped. There is no new volume then.
	InPlace bool `json:"inPlace,omitempty"`
	// Moved: the claim is on its new volume, or its volume has grown.
	Moved bool `json:"moved,omitempty"`
	// Copies counts the copies that were finished and became stale, because the member was started again. Each has another volume.
	Copies int `json:"copies,omitempty"`
	// BytesDone and BytesTotal count the data bytes of regular files. BytesTrusted were verified in first passes and have not changed since.
	BytesDone    int64 `json:"bytesDone,omitempty"`
	BytesTotal   int64 `json:"bytesTotal,omitempty"`
	BytesTrusted int64 `json:"bytesTrusted,omitempty"`
	Files        int64 `json:"files,omitempty"`
	// Digest is the SHA-256 of the verified tree, as the mover defines it. Empty until the copy is verified for the hold under way.
	Digest string `json:"digest,omitempty"`
	// Warnings are what the movers of the claim warned of, in sentences. Each is a Kubernetes Event, too.
	Warnings []string `json:"warnings,omitempty"`
}

// Target is what the claim is to become.
func (m *Move) Target() Target {
	return Target{Size: m.To, Class: m.Class, Modes: m.Modes, Attributes: m.Attributes}
}

// Volume is the volume that the claim has in the end.
func (m *Move) Volume() string {
	if m.InPlace {
		return m.OldVolume
	}
	return m.NewVolume
}

// CopyAnew has the claim copied to another volume.
func (m *Move) CopyAnew() {
	m.Copies++
	m.NewVolume = ""
	m.ForgetProgress()
}

// ForgetProgress has nothing said of the copy: its target is another one now.
func (m *Move) ForgetProgress() { m.BytesDone, m.BytesTotal, m.BytesTrusted, m.Files = 0, 0, 0, 0 }

// GrowsHeld reports whether the claims of the members grow on their volumes, while each member is stopped.
func (r *Resize) GrowsHeld() bool {
	return slices.ContainsFunc(r.Moves(), func(m *Move) bool { return m.InPlace })
}

// Copies reports whether data is copied to new volumes.
func (r *Resize) Copies() bool { return !r.IsRollback() && !r.GrowsHeld() }

// Moves returns the claims of all members that get other volumes.
func (r *Resize) Moves() []*Move {
	var all []*Move
	for i := range r.Members {
		for j := range r.Members[i].Claims {
			all = append(all, &r.Members[i].Claims[j])
		}
	}
	return all
}

// Move returns the move of the claim with the name, or nil.
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

// Clone returns a copy that can be changed without changing r.
func (r *Resize) Clone() *Resize {
	c := *r
	c.Expansions = append([]Expansion(nil), r.Expansions...)
	c.Members = append([]Member(nil), r.Members...)
	for i := range c.Members {
		c.Members[i].Claims = append([]Move(nil), r.Members[i].Claims...)
	}
	return &c
}

// Encode renders the document. It does not fail: every field can be marshalled.
func (r *Resize) Encode() string { return mustJSON(r) }

// HasIDOf reports whether the operation has the id that Drydock derives for it on the StatefulSet with the UID. A document with any
// other id was not written by Drydock for this set.
func (r *Resize) HasIDOf(uid types.UID) bool {
	request := r.Request
	if r.Kind == KindRollback {
		request = RollbackRequest(r.RollsBack)
	}
	return r.Operation == OperationID(uid, request, r.Attempt)
}

// LoadResize returns the record of the set's latest resize or rollback, if it is this very set's; nil without one. Unreadable text,
// another version and a record without operation are errors: nothing may act on a state that it cannot read. A record without UID belongs
// to a set that Drydock has just created again.
func LoadResize(set *appsv1.StatefulSet) (*Resize, error) {
	record := &Resize{}
	if found, err := load(set, StatusAnnotation, record, KindResize, KindRollback); !found {
		return nil, err
	}
	if slices.ContainsFunc(slices.Concat(record.Fields, record.FieldsBefore), func(s Field) bool { return !s.complete() }) {
		return nil, fmt.Errorf("annotation %s of StatefulSet %s/%s has a field that is not complete; remove the annotation if no operation runs",
			StatusAnnotation, set.Namespace, set.Name)
	}
	created := record.Set.UID == "" && record.Set.Name == set.Name && record.Active() && record.ReplaceSet
	if !created && !record.isOf(set) {
		return nil, nil
	}
	return record, nil
}

// IsRollback reports whether the operation gives claims their old volumes back.
func (r *Resize) IsRollback() bool { return r.Kind == KindRollback }

// Active reports whether the operation still has work to do. No operation is not active.
func (r *Resize) Active() bool { return r != nil && r.active() }

// TemplateTarget is what a volumeClaimTemplate is to ask for.
type TemplateTarget struct {
	Name string            `json:"name"`
	Size resource.Quantity `json:"size"`
	// Class is a StorageClass; empty keeps the template's.
	Class string `json:"class,omitempty"`
	// Modes are access modes; none keeps the template's.
	Modes []corev1.PersistentVolumeAccessMode `json:"modes,omitempty"`
	// Attributes is a VolumeAttributesClass, empty for none; nil keeps the template's.
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

// Shape is what a set is created again with.
type Shape struct {
	Templates []TemplateTarget
	Fields    []Field
}

// Empty reports whether the shape changes nothing.
func (s Shape) Empty() bool { return len(s.Templates) == 0 && len(s.Fields) == 0 }

// Asked is the shape that the operation gives the set.
func (r *Resize) Asked() Shape { return Shape{r.Templates, r.Fields} }

// Former is the shape that the set had before the operation.
func (r *Resize) Former() Shape { return Shape{r.Before, r.FieldsBefore} }

// Target is what claims of the template are to become.
func (t *TemplateTarget) Target() Target {
	return Target{Size: t.Size, Class: t.Class, Modes: t.Modes, Attributes: t.Attributes}
}

// TargetOf returns the name of the temporary claim to which the move copies.
func (r *Resize) TargetOf(move *Move) string { return TargetName(r.Operation, move.Claim, move.Copies) }

// Annotation is where the record is stored.
func (r *Resize) Annotation() string { return StatusAnnotation }
