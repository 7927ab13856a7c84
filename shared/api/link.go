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

// Role is what an object is to an operation.
type Role string

const (
	RoleSource    Role = "source"    // the claim and volume that the pods use
	RoleTarget    Role = "target"    // the temporary claim and the new volume
	RoleSuccessor Role = "successor" // the claim that replaced a source
	RoleMover     Role = "mover"     // the Job that copies, and its Pod
	RoleHook      Role = "hook"      // the Job that runs before or after a member
	RoleScaleHook Role = "scalehook" // the Job that runs before or after a scaling
	RoleJournal   Role = "journal"   // the ControllerRevision that records the operation
	RoleHeld      Role = "held"      // a pod of the set that is held, or the pod that locks the name of one
	RoleRetired   Role = "retired"   // an old volume in its window
	RoleReturning Role = "returning" // an old volume that a rollback puts back: never one to be thrown away
	RoleForeign   Role = "foreign"   // a volume that was provisioned for a copy and holds data of others: never deleted
	RoleSleep     Role = "sleep"     // the ControllerRevision that records how many replicas a sleeping set had
	RoleCleaner   Role = "cleaner"   // the Pod that cleans up an ordinal
	RoleOwner     Role = "owner"     // the ControllerRevision that records which custom resource is paused
)

// Link ties an object to an operation and to the StatefulSet it is for.
type Link struct {
	Operation string `json:"operation"`
	Role      Role   `json:"role"`
	Namespace string `json:"namespace"`
	Set       SetRef `json:"set"`
	// Claim is the name of the StatefulSet's claim that the object serves.
	Claim string `json:"claim,omitempty"`
	// Member is the ordinal of the member that the object serves: of a mover, of a hook, and of a pod that is held.
	Member *int `json:"member,omitempty"`
	// Before is the operation that has left a returning volume behind. It is its again if the rollback does not take place.
	Before string `json:"before,omitempty"`
	// Claims are those that a cleanup pod is run on, by name, and no other: its success says nothing about a claim that has
	// taken the place of one.
	Claims map[string]types.UID `json:"claims,omitempty"`
}

// Encode renders the document.
func (l Link) Encode() string { return mustJSON(l) }

// LoadLink reads the object's link. An object without one yields nil; unreadable text, or one that disagrees with
// the operation label, is an error.
func LoadLink(obj metav1.Object) (*Link, error) {
	text, ok := obj.GetAnnotations()[OperationAnnotation]
	if !ok {
		return nil, nil
	}
	link := &Link{}
	if err := json.Unmarshal([]byte(text), link); err != nil {
		return nil, fmt.Errorf("reading annotation %s of %s/%s: %w", OperationAnnotation, obj.GetNamespace(), obj.GetName(), err)
	}
	if link.Operation == "" || link.Set.Name == "" || link.Operation != obj.GetLabels()[OperationLabel] {
		return nil, fmt.Errorf("annotation %s of %s/%s names operation %q, its label %q; remove both if no operation runs",
			OperationAnnotation, obj.GetNamespace(), obj.GetName(), link.Operation, obj.GetLabels()[OperationLabel])
	}
	return link, nil
}

// Linked reports whether the object belongs to the operation in the role. An unreadable link is no link.
func Linked(obj metav1.Object, operation string, role Role) bool {
	link, err := LoadLink(obj)
	return err == nil && link != nil && link.Operation == operation && link.Role == role
}

// LoadRecord reads the link of a ControllerRevision in which Drydock records an operation. It returns nil for every other one: the
// StatefulSet controller copies labels and annotations of a set onto the revisions that it creates, so a link alone proves nothing.
// A record has the name that derives from its operation and role, which no controller gives a revision, and no controller of its own.
func LoadRecord(revision *appsv1.ControllerRevision) *Link {
	link, err := LoadLink(revision)
	if err != nil || link == nil || !IsOperationID(link.Operation) || metav1.GetControllerOf(revision) != nil {
		return nil
	}
	named := false
	switch link.Role {
	case RoleJournal:
		named = revision.Name == JournalName(link.Operation)
	case RoleSleep:
		named = revision.Name == SleepRecordName(link.Operation)
	case RoleOwner:
		named = isOwnerRecordName(link.Operation, revision.Name)
	}
	if !named {
		return nil
	}
	return link
}

// Journal is the durable record of a resize outside of the StatefulSet, the data of a ControllerRevision. It is
// written before anything is done that a lost StatefulSet would leave half done.
type Journal struct {
	Version int `json:"version"`
	// Record is the operation as it was when it began.
	Record Resize `json:"record"`
}

// Encode renders the document.
func (j Journal) Encode() []byte { return []byte(mustJSON(j)) }

// LoadJournal reads the journal out of its ControllerRevision.
func LoadJournal(revision *appsv1.ControllerRevision) (*Journal, error) {
	journal := &Journal{}
	if err := loadRevision(revision, journal, &journal.Version, &journal.Record.Header); err != nil {
		return nil, err
	}
	return journal, nil
}

// SleepRecord is the durable record of a sleep outside of the StatefulSet, as Journal is that of a resize.
type SleepRecord struct {
	Version int `json:"version"`
	// Sleep is the record as it was when the set was scaled to zero.
	Sleep Sleep `json:"sleep"`
}

// Encode renders the document.
func (r SleepRecord) Encode() []byte { return []byte(mustJSON(r)) }

// LoadSleepRecord reads the record of a sleep out of its ControllerRevision.
func LoadSleepRecord(revision *appsv1.ControllerRevision) (*SleepRecord, error) {
	record := &SleepRecord{}
	if err := loadRevision(revision, record, &record.Version, &record.Sleep.Header); err != nil {
		return nil, err
	}
	return record, nil
}

// loadRevision decodes the data of a ControllerRevision into a document with this version and header.
func loadRevision(revision *appsv1.ControllerRevision, into any, version *int, header *Header) error {
	if err := bounded.JSON(revision.Data.Raw, into); err != nil {
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

// Records reports whether the record, as a journal has it, is about the claim with the same volumes. What the annotation on the set says
// beyond that may be anyone's words.
func (r *Resize) Records(move *Move) bool {
	own := r.Move(move.Claim)
	return own != nil && own.OldVolume == move.OldVolume && own.InPlace == move.InPlace && (!r.IsRollback() || own.NewVolume == move.NewVolume)
}

// EncodeManifest renders a StatefulSet, with or without a Go type, for RecreateAnnotation.
func EncodeManifest(set metav1.Object) string { return mustJSON(set) }

// LoadManifest reads the StatefulSet that RecreateAnnotation on the journal says is to be created; nil when it says
// nothing.
func LoadManifest(revision *appsv1.ControllerRevision) (*appsv1.StatefulSet, error) {
	text, ok := revision.Annotations[RecreateAnnotation]
	if !ok {
		return nil, nil
	}
	set := &appsv1.StatefulSet{}
	if err := json.Unmarshal([]byte(text), set); err != nil {
		return nil, fmt.Errorf("reading annotation %s of journal %s/%s: %w", RecreateAnnotation, revision.Namespace, revision.Name, err)
	}
	if set.Name == "" || set.Namespace != revision.Namespace {
		return nil, fmt.Errorf("annotation %s of journal %s/%s names StatefulSet %q/%q", RecreateAnnotation,
			revision.Namespace, revision.Name, set.Namespace, set.Name)
	}
	return set, nil
}

// EncodeClaim renders a claim, with or without a Go type, for ClaimManifestAnnotation.
func EncodeClaim(claim metav1.Object) string { return mustJSON(claim) }

// LoadClaim reads the claim for which the volume is reserved; nil when it is reserved for none.
func LoadClaim(volume *corev1.PersistentVolume) (*corev1.PersistentVolumeClaim, error) {
	text, ok := volume.Annotations[ClaimManifestAnnotation]
	if !ok {
		return nil, nil
	}
	claim := &corev1.PersistentVolumeClaim{}
	if err := json.Unmarshal([]byte(text), claim); err != nil {
		return nil, fmt.Errorf("reading annotation %s of volume %s: %w", ClaimManifestAnnotation, volume.Name, err)
	}
	ref := volume.Spec.ClaimRef
	if ref == nil || ref.Namespace != claim.Namespace || ref.Name != claim.Name || claim.Spec.VolumeName != volume.Name {
		return nil, fmt.Errorf("annotation %s of volume %s does not name the claim that the volume is reserved for", ClaimManifestAnnotation, volume.Name)
	}
	return claim, nil
}
