package api

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Resize is the record of a set's latest resize or rollback. A resize's request is the text of the resize annotation.
type Resize struct {
	Header
	// Method is how a resize comes by its sizes: copy if any claim gets a new volume, expand otherwise. A rollback has none.
	Method Method `json:"method,omitempty"`
	// RollsBack is the operation that a rollback undoes: its old volumes come back.
	RollsBack string `json:"rollsBack,omitempty"`
	// Replicas is the count found before the operation; it comes back however the operation ends.
	Replicas int32 `json:"replicas"`
	// WhenScaled is the claim retention policy found before, when the operation had to change it.
	WhenScaled appsv1.PersistentVolumeClaimRetentionPolicyType `json:"whenScaled,omitempty"`
	// Templates are the volumeClaimTemplates that the operation concerns and what they are to ask for.
	Templates []TemplateTarget `json:"templates,omitempty"`
	// Admitted is the user, group and SELinux options that admission had given to the set's pods when the operation was planned. Movers
	// get the same.
	Admitted *corev1.PodSecurityContext `json:"admitted,omitempty"`
	// Recreate is true when the StatefulSet itself needs the new template.
	Recreate bool `json:"recreate,omitempty"`
	// Generation is the StatefulSet's metadata.generation for which the copies are current: any later write to its
	// spec, as a scale-up, makes them stale. 0 before the set was seen to be quiet.
	Generation int64 `json:"generation,omitempty"`
	// StopGeneration is the generation with which the set was scaled to zero. With another one, first copies are not believed: a
	// replica may have been wanted meanwhile.
	StopGeneration int64 `json:"stopGeneration,omitempty"`
	// Round counts the copies of the whole set, from 1. It grows when pods were started in between.
	Round int `json:"round,omitempty"`
	// Stopping is when the set was scaled to zero for this round, Stopped when it first was, Quiesced when nothing ran any more, Ready
	// when it was ready again.
	Stopping *metav1.Time  `json:"stopping,omitempty"`
	Stopped  *metav1.Time  `json:"stopped,omitempty"`
	Quiesced *metav1.Time  `json:"quiesced,omitempty"`
	Ready    *metav1.Time  `json:"ready,omitempty"`
	Claims   []ClaimStatus `json:"claims,omitempty"`
	// Judged is, of a refusal, a digest of what on the set it rests on: the request is judged anew when the set has another one.
	Judged string `json:"judged,omitempty"`
}

// LoadResize returns the record of the set's latest resize or rollback, if it is this very set's; nil without one. Unreadable text,
// another version and a record without operation are errors: nothing may act on a state that it cannot read. A record without UID belongs
// to a set that Drydock has just created again.
func LoadResize(set *appsv1.StatefulSet) (*Resize, error) {
	resize := &Resize{}
	if found, err := load(set, StatusAnnotation, resize, KindResize, KindRollback); !found {
		return nil, err
	}
	created := resize.Set.UID == "" && resize.Set.Name == set.Name && resize.Active() && resize.Recreate
	if !created && !resize.isOf(set) {
		return nil, nil
	}
	return resize, nil
}

// ClaimPhase is where one claim stands.
type ClaimPhase string

const (
	ClaimPending ClaimPhase = "Pending"
	// ClaimWarming: a first copy is made while the set runs. ClaimWarmed: it is there, and only what has changed since is copied
	// when the set is stopped.
	ClaimWarming  ClaimPhase = "Warming"
	ClaimWarmed   ClaimPhase = "Warmed"
	ClaimCopying  ClaimPhase = "Copying"
	ClaimVerified ClaimPhase = "Verified"
	ClaimSwitched ClaimPhase = "Switched"
	// ClaimExpanded: the claim has what it was to ask for, on the volume that it had.
	ClaimExpanded ClaimPhase = "Expanded"
)

// TemplateTarget is what a volumeClaimTemplate is to ask for.
type TemplateTarget struct {
	Name string            `json:"name"`
	Size resource.Quantity `json:"size"`
	// Class is a StorageClass; empty keeps the template's.
	Class string `json:"class,omitempty"`
	// Modes are access modes; none keeps the template's.
	Modes []corev1.PersistentVolumeAccessMode `json:"modes,omitempty"`
}

// Target is what claims of the template are to become.
func (t *TemplateTarget) Target() Target { return Target{Size: t.Size, Class: t.Class, Modes: t.Modes} }

// ClaimStatus is one claim's part of an operation.
type ClaimStatus struct {
	Name     string            `json:"name"`
	UID      types.UID         `json:"uid"`
	Template string            `json:"template"`
	Phase    ClaimPhase        `json:"phase"`
	From     resource.Quantity `json:"from"`
	To       resource.Quantity `json:"to"`
	// Method is expand for a claim that grows on its volume, rollback for one that gets an old volume back; empty for one that is
	// copied.
	Method Method `json:"method,omitempty"`
	// Class is the target's StorageClass when it is to differ from the source's.
	Class string `json:"class,omitempty"`
	// Modes are the target's access modes when they are to differ from the source's.
	Modes []corev1.PersistentVolumeAccessMode `json:"modes,omitempty"`
	// OldVolume and NewVolume are the names of the PersistentVolumes before and after.
	OldVolume string `json:"oldVolume"`
	NewVolume string `json:"newVolume,omitempty"`
	// BytesDone and BytesTotal count the data bytes of regular files.
	BytesDone  int64 `json:"bytesDone,omitempty"`
	BytesTotal int64 `json:"bytesTotal,omitempty"`
	Files      int64 `json:"files,omitempty"`
	// Warm: the copy was begun while the set ran. BytesTrusted were copied and verified by then, and not changed since.
	Warm         bool  `json:"warm,omitempty"`
	BytesTrusted int64 `json:"bytesTrusted,omitempty"`
	// WarmNode is where the first copy was made, WarmPod the pod that used the claim then. What was verified is believed only by
	// the same node, and only if no other pod has used the claim since.
	WarmNode string    `json:"warmNode,omitempty"`
	WarmPod  types.UID `json:"warmPod,omitempty"`
	// Node is where the pod ran that used the claim when the set was stopped. A new volume is best provisioned there.
	Node string `json:"node,omitempty"`
	// Cold: a copy while the set runs was begun and given up, since its mover did not start or was in a pod's way.
	Cold bool `json:"cold,omitempty"`
	// Stalled is why the claim's mover cannot go on, as "ImagePullBackOff: …", StalledSince since when. Empty when it can.
	Stalled      string       `json:"stalled,omitempty"`
	StalledSince *metav1.Time `json:"stalledSince,omitempty"`
	// Digest is the SHA-256 of the verified tree, as the mover defines it.
	Digest string `json:"digest,omitempty"`
	// Warnings are what the movers of the claim warned of, in sentences. Each is a Kubernetes Event, too.
	Warnings []string `json:"warnings,omitempty"`
	// ProgressAt throttles the writes of progress.
	ProgressAt *metav1.Time `json:"progressAt,omitempty"`
}

// Target is what the claim is to become.
func (c *ClaimStatus) Target() Target { return Target{Size: c.To, Class: c.Class, Modes: c.Modes} }

// Warmed reports whether a first copy of a claim is believed.
func (s *Resize) Warmed() bool {
	return slices.ContainsFunc(s.Claims, func(c ClaimStatus) bool { return c.Warm })
}

// Settled reports whether the operation has nothing left to do with the claim's volume.
func (c *ClaimStatus) Settled() bool { return c.Phase == ClaimSwitched || c.Phase == ClaimExpanded }

// Forget makes a copy count for nothing: the claim is to be copied again. An old volume that comes back stays the same.
func (c *ClaimStatus) Forget() {
	c.Phase, c.Stalled, c.StalledSince = ClaimPending, "", nil
	if !c.Returns() {
		c.NewVolume = ""
	}
}

// Returns reports whether the claim gets an old volume back, and nothing is copied.
func (c *ClaimStatus) Returns() bool { return c.Method == MethodRollback }

// Live reports whether the set keeps running during the operation, because no claim needs another volume.
func (s *Resize) Live() bool {
	for i := range s.Claims {
		if s.Claims[i].Method != MethodExpand {
			return false
		}
	}
	return s.Method == MethodExpand
}

// Claim returns the part of the claim with the given name, or nil.
func (s *Resize) Claim(name string) *ClaimStatus {
	for i := range s.Claims {
		if s.Claims[i].Name == name {
			return &s.Claims[i]
		}
	}
	return nil
}

// IsRollback reports whether the operation gives claims their old volumes back.
func (s *Resize) IsRollback() bool { return s.Kind == KindRollback }

// Active reports whether the operation still has work to do. No operation is not active.
func (s *Resize) Active() bool { return s != nil && s.active() }

// RollbackGivenUp returns the operation that a failed rollback was to undo, if no claim had its old volume back; empty for any other
// record.
func (s *Resize) RollbackGivenUp() string {
	if s == nil || s.Phase != Failed || !s.IsRollback() || s.Held() || s.HalfBack() {
		return ""
	}
	return s.RollsBack
}

// HalfBack reports whether a rollback has given some claims their old volumes back already. The set cannot start then: its replicas would
// have data of different times.
func (s *Resize) HalfBack() bool {
	return s.IsRollback() && slices.ContainsFunc(s.Claims, func(c ClaimStatus) bool { return c.Settled() })
}

// Held reports whether the operation was given up with the set still held at zero: one of its claims is not whole.
func (s *Resize) Held() bool {
	return s != nil && s.Phase == Failed && s.FailedAt == Switching && !s.Live()
}

// Clone returns a copy that can be changed without changing s.
func (s *Resize) Clone() *Resize {
	c := *s
	c.Claims = append([]ClaimStatus(nil), s.Claims...)
	return &c
}

// Annotation returns where the record is stored.
func (s *Resize) Annotation() string { return StatusAnnotation }

// Encode renders the record.
func (s *Resize) Encode() string { return mustJSON(s) }
