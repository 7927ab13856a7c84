package api

import (
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/bounded"
)

// Role is the role of an object in an operation.
type Role string

const (
	RoleSource    Role = "source"     // the claim and volume that the pods use
	RoleTarget    Role = "target"     // the temporary claim and the new volume
	RoleNewClaim  Role = "new-claim"  // the claim that replaced a source
	RoleMover     Role = "mover"      // the Job that copies, and its Pod
	RoleHook      Role = "hook"       // the Job that runs before or after a member
	RoleScaleHook Role = "scalehook"  // the Job that runs before or after a scaling
	RoleJournal   Role = "journal"    // the ControllerRevision that records the operation
	RoleHeld      Role = "held"       // a held pod of the set, or the pod that locks the name of a member
	RoleOldVolume Role = "old-volume" // an old volume during its retention
	RoleReturning Role = "returning"  // an old volume that a rollback restores; it is never deleted
	RoleForeign   Role = "foreign"    // a volume with data of others that was provisioned for a copy; it is never deleted
	RoleStop      Role = "stop"       // the ControllerRevision that records the former count of a set that scale has stopped
	RoleCleaner   Role = "cleaner"    // the Pod that cleans up an ordinal
	RoleOwner     Role = "owner"      // the ControllerRevision that records which custom resource is paused
)

// Link connects an object with its operation and StatefulSet.
type Link struct {
	Operation string `json:"operation"`
	Role      Role   `json:"role"`
	Namespace string `json:"namespace"`
	Set       SetRef `json:"set"`
	// Claim is the name of the StatefulSet's claim that the object serves.
	Claim string `json:"claim,omitempty"`
	// Member is the ordinal that a mover, a hook or a held pod serves.
	Member *int `json:"member,omitempty"`
	// Before is the operation that retired a returning volume. If the rollback does not take place, the volume belongs to it again.
	Before string `json:"before,omitempty"`
	// Claims are the claims of a cleanup pod, or the temporary claims of a mover, by name. The success of the pod or mover
	// says nothing about a claim that replaced one of them.
	Claims map[string]types.UID `json:"claims,omitempty"`
}

// Link returns the link of an object with this role in the operation.
func (h *Header) Link(role Role, namespace string) Link {
	return Link{Operation: h.Operation, Role: role, Namespace: namespace, Set: h.Set}
}

// OfClaim returns the link for an object of the claim.
func (l Link) OfClaim(claim string) Link {
	l.Claim = claim
	return l
}

// OfMember returns the link for an object of the member.
func (l Link) OfMember(ordinal int) Link {
	l.Member = &ordinal
	return l
}

// Encode returns the link as JSON.
func (l Link) Encode() string { return mustJSON(l) }

// LoadLink returns the object's link, or nil without one. Unreadable text is an error, and so is a link that differs from the operation
// label.
func LoadLink(obj metav1.Object) (*Link, error) {
	text, ok := obj.GetAnnotations()[OperationAnnotation]
	if !ok {
		return nil, nil
	}
	link := &Link{}
	if err := bounded.Document([]byte(text), link); err != nil {
		return nil, fmt.Errorf("reading annotation %s of %s/%s: %w", OperationAnnotation, obj.GetNamespace(), obj.GetName(), err)
	}
	if link.Operation == "" || link.Set.Name == "" || link.Operation != obj.GetLabels()[OperationLabel] {
		return nil, fmt.Errorf("annotation %s of %s/%s names operation %q, its label %q; remove both if no operation runs",
			OperationAnnotation, obj.GetNamespace(), obj.GetName(), link.Operation, obj.GetLabels()[OperationLabel])
	}
	return link, nil
}

// HasLink reports whether the object belongs to the operation in the role. An unreadable link does not count.
func HasLink(obj metav1.Object, operation string, role Role) bool {
	link, err := LoadLink(obj)
	return err == nil && link != nil && link.Operation == operation && link.Role == role
}

// RevisionLink returns the link of a ControllerRevision that is Drydock's record of an operation, and nil for every other revision. A link
// alone proves nothing, because the StatefulSet controller copies the labels and annotations of a set onto its revisions. The name must
// derive from the operation and role, the revision must have no controller, and its data must not be a template. The StatefulSet
// controller's names end in hexadecimal digits, too, and kubectl delete --cascade=orphan removes the controller.
func RevisionLink(revision *appsv1.ControllerRevision) *Link {
	link, err := LoadLink(revision)
	if err != nil || link == nil || !IsOperationID(link.Operation) || metav1.GetControllerOf(revision) != nil ||
		isTemplate(revision.Data.Raw) {
		return nil
	}
	named := false
	switch link.Role {
	case RoleJournal:
		named = revision.Name == JournalName(link.Operation)
	case RoleStop:
		named = revision.Name == StopRecordName(link.Operation)
	case RoleOwner:
		named = isOwnerRecordName(link.Operation, revision.Name)
	}
	if !named {
		return nil
	}
	return link
}

// isTemplate reports whether the data of a ControllerRevision is a pod template, as the StatefulSet controller stores it. All records of
// Drydock have a version. Unreadable data is no template: it may be a damaged record.
func isTemplate(data []byte) bool {
	var document struct {
		Version int             `json:"version"`
		Spec    json.RawMessage `json:"spec"`
	}
	return json.Unmarshal(data, &document) == nil && document.Version == 0 && document.Spec != nil
}

// Journal is the durable record of a resize outside of the StatefulSet, the data of a ControllerRevision. It is written before the first
// step that would stay incomplete if the StatefulSet were lost.
type Journal struct {
	Version int `json:"version"`
	// Record is the record when the operation began.
	Record Resize `json:"record"`
}

// Encode returns the journal as JSON.
func (j Journal) Encode() []byte { return []byte(mustJSON(j)) }

// LoadJournal returns the journal in the ControllerRevision.
func LoadJournal(revision *appsv1.ControllerRevision) (*Journal, error) {
	journal := &Journal{}
	if err := loadRevision(revision, journal, &journal.Version, &journal.Record.Header); err != nil {
		return nil, err
	}
	return journal, nil
}

// loadRevision decodes the data of a ControllerRevision into a document with this version and header.
func loadRevision(revision *appsv1.ControllerRevision, into any, version *int, header *Header) error {
	if err := bounded.Document(revision.Data.Raw, into); err != nil {
		return fmt.Errorf("reading journal %s/%s: %w", revision.Namespace, revision.Name, err)
	}
	if *version != RecordVersion {
		return fmt.Errorf("journal %s/%s: version is %d, this Drydock reads version %d; update Drydock",
			revision.Namespace, revision.Name, *version, RecordVersion)
	}
	if err := header.validate(); err != nil {
		return fmt.Errorf("journal %s/%s: %w", revision.Namespace, revision.Name, err)
	}
	return nil
}

// HasSameMove reports whether the journal has a move of the same claim with the same volumes. Only that can be trusted: any user may have
// written the annotation on the set.
func (r *Resize) HasSameMove(move *Move) bool {
	own := r.Move(move.Claim)
	return own != nil && own.OldVolume == move.OldVolume && own.InPlace == move.InPlace && (!r.IsRollback() || own.NewVolume == move.NewVolume)
}

// EncodeManifest returns the value of RecreateAnnotation for a StatefulSet, with or without a Go type.
func EncodeManifest(set metav1.Object) string { return mustJSON(set) }

// LoadManifest returns the StatefulSet in RecreateAnnotation of the journal, or nil without that annotation.
func LoadManifest(revision *appsv1.ControllerRevision) (*appsv1.StatefulSet, error) {
	text, ok := revision.Annotations[RecreateAnnotation]
	if !ok {
		return nil, nil
	}
	set := &appsv1.StatefulSet{}
	if err := bounded.JSON([]byte(text), set); err != nil {
		return nil, fmt.Errorf("reading annotation %s of journal %s/%s: %w", RecreateAnnotation, revision.Namespace, revision.Name, err)
	}
	if set.Name == "" || set.Namespace != revision.Namespace {
		return nil, fmt.Errorf("annotation %s of journal %s/%s names StatefulSet %q/%q", RecreateAnnotation,
			revision.Namespace, revision.Name, set.Namespace, set.Name)
	}
	return set, nil
}

// EncodeClaim returns the value of ClaimManifestAnnotation for a claim, with or without a Go type.
func EncodeClaim(claim metav1.Object) string { return mustJSON(claim) }

// LoadClaim returns the claim in ClaimManifestAnnotation of the volume, or nil. The volume must be reserved for that claim.
func LoadClaim(volume *corev1.PersistentVolume) (*corev1.PersistentVolumeClaim, error) {
	text, ok := volume.Annotations[ClaimManifestAnnotation]
	if !ok {
		return nil, nil
	}
	claim := &corev1.PersistentVolumeClaim{}
	if err := bounded.JSON([]byte(text), claim); err != nil {
		return nil, fmt.Errorf("reading annotation %s of volume %s: %w", ClaimManifestAnnotation, volume.Name, err)
	}
	ref := volume.Spec.ClaimRef
	if ref == nil || ref.Namespace != claim.Namespace || ref.Name != claim.Name || claim.Spec.VolumeName != volume.Name {
		return nil, fmt.Errorf("annotation %s of volume %s does not name the claim that the volume is reserved for",
			ClaimManifestAnnotation, volume.Name)
	}
	return claim, nil
}
