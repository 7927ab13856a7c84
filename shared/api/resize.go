package api

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
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
