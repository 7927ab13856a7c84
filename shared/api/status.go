package api

import (
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/bounded"
)

// StatusVersion is the version of the Status and Journal documents that this code writes.
const StatusVersion = 1

// Phase is where an operation stands. Each phase belongs to one function, which alone moves the operation on.
type Phase string

const (
	// Planned: the preflight passed and nothing was touched; pause-owner is to give its consent.
	Planned Phase = "Planned"
	// Expanding: detect-resize has the claims ask for more and waits until they have it; the set runs.
	Expanding Phase = "Expanding"
	// Copying: backup provisions the targets, stops the set, copies and verifies.
	Copying Phase = "Copying"
	// Switching: every copy is verified; restore puts the new volumes behind the claims' names.
	Switching Phase = "Switching"
	// Starting: every claim is switched; restore starts the set and waits until it is ready.
	Starting Phase = "Starting"
	// RollingBack: the operation failed before the switch; restore gives the set back as it was.
	RollingBack Phase = "RollingBack"
	// Stopping: the owner consents to a sleep; idle-timeout scales the set to zero.
	Stopping Phase = "Stopping"
	// Asleep: the set is at zero until there is a reason to wake it.
	Asleep Phase = "Asleep"
	// Waking: the set gets its replicas back; idle-timeout waits until it is ready.
	Waking Phase = "Waking"
	// Cleaning: cleanup-pod works on the ordinals that a scale-down has left behind.
	Cleaning Phase = "Cleaning"
	// Succeeded, Failed and Refused are terminal. Refused means that the preflight found a reason and nothing was touched.
	Succeeded Phase = "Succeeded"
	Failed    Phase = "Failed"
	Refused   Phase = "Refused"
)

// Terminal reports whether no function has work left in this phase.
func (p Phase) Terminal() bool { return p == Succeeded || p == Failed || p == Refused }

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

// SetRef is the identity of a StatefulSet. An empty UID marks a set that Drydock has just created again and whose
// new identity is still to be recorded.
type SetRef struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid,omitempty"`
}

// Status is the one document that describes the latest operation on a StatefulSet. It holds what cannot be seen in
// the live objects; times are RFC 3339 and change only when the phase does.
type Status struct {
	Version   int    `json:"version"`
	Operation string `json:"operation"`
	Kind      string `json:"kind"`
	Method    Method `json:"method,omitempty"`
	Phase     Phase  `json:"phase"`
	// RollsBack is, of a rollback, the operation that has left the volumes behind which come back.
	RollsBack string `json:"rollsBack,omitempty"`
	// Request is the value of the resize annotation that asked for the operation, why a set sleeps, or a digest of what a
	// cleanup does.
	Request string `json:"request"`
	// Attempt counts the operations on the set, from 1, so that each has an id of its own.
	Attempt int    `json:"attempt"`
	Set     SetRef `json:"set"`
	// Replicas is the count found before the operation; it comes back however the operation ends.
	Replicas int32 `json:"replicas"`
	// WhenScaled is the claim retention policy found before, when the operation had to change it.
	WhenScaled appsv1.PersistentVolumeClaimRetentionPolicyType `json:"whenScaled,omitempty"`
	// Templates are the volumeClaimTemplates that the operation concerns and what they are to ask for.
	Templates []TemplateTarget `json:"templates,omitempty"`
	// OwnerStops is true when the owner's operator scales the set to zero and back, and Drydock does not.
	OwnerStops bool `json:"ownerStops,omitempty"`
	// Admitted is the user, group and SELinux options that admission had given to the set's pods when the operation was planned. Movers
	// get the same.
	Admitted *corev1.PodSecurityContext `json:"admitted,omitempty"`
	// Recreate is true when the StatefulSet itself needs the new template.
	Recreate bool `json:"recreate,omitempty"`
	// Generation is the StatefulSet's metadata.generation for which the copies are current: any later write to its
	// spec, as a scale-up, makes them stale. 0 before the set was seen to be quiet. Of a cleanup: the one that its controller had
	// seen when nothing was left behind.
	Generation int64 `json:"generation,omitempty"`
	// StopGeneration is the generation with which the set was scaled to zero. With another one, first copies are not believed: a
	// replica may have been wanted meanwhile.
	StopGeneration int64 `json:"stopGeneration,omitempty"`
	// Round counts the copies of the whole set, or the scalings to zero of a sleep, from 1. It grows when somebody started
	// pods in between.
	Round int `json:"round,omitempty"`
	// Starts counts the sleeps one after the other that StartedBy, a field manager, has ended by giving the set replicas.
	Starts    int         `json:"starts,omitempty"`
	StartedBy string      `json:"startedBy,omitempty"`
	Started   metav1.Time `json:"started"`
	// Stopping is when the set was scaled to zero for this round, Stopped when it first was, Quiesced when nothing ran any more, Ready when it was ready again.
	Stopping *metav1.Time `json:"stopping,omitempty"`
	Stopped  *metav1.Time `json:"stopped,omitempty"`
	Quiesced *metav1.Time `json:"quiesced,omitempty"`
	Ready    *metav1.Time `json:"ready,omitempty"`
	Finished *metav1.Time `json:"finished,omitempty"`
	// Deadline is when the present phase is given up.
	Deadline *metav1.Time  `json:"deadline,omitempty"`
	Claims   []ClaimStatus `json:"claims,omitempty"`
	Reason   Reason        `json:"reason,omitempty"`
	// Message says in a sentence what happened and what to do.
	Message string `json:"message,omitempty"`
	// OwnerProblem says why the owner stays paused although the operation does not need that any more. pause-owner writes and removes it.
	OwnerProblem string `json:"ownerProblem,omitempty"`
	// FailedAt is the phase in which the operation was given up.
	FailedAt Phase `json:"failedAt,omitempty"`
	// Ordinals are those of a cleanup that went wrong at least once, or that nobody may clean up.
	Ordinals []OrdinalStatus `json:"ordinals,omitempty"`
	// Judged is, of a refusal, a digest of what on the set it rests on: the request is judged anew when the set has another one.
	Judged string `json:"judged,omitempty"`
	// Span are the ordinals that cleanup-pod has accounted for: of each it has seen the pod, and beyond them there was nothing
	// to clean up.
	Span *Span `json:"span,omitempty"`
	// Trace is the W3C traceparent of the span in which the operation began: whoever works on it goes on in that trace.
	// Empty when tracing was off. Nothing is decided by it.
	Trace string `json:"trace,omitempty"`
}

// Span are the ordinals from Start up to, but without, End.
type Span struct {
	Start int `json:"start"`
	End   int `json:"end"`
}

// OrdinalStatus is what a cleanup has to tell about an ordinal that needs attention.
type OrdinalStatus struct {
	Ordinal int `json:"ordinal"`
	// Tries counts the cleanup pods that have failed.
	Tries int `json:"tries,omitempty"`
	// Pod is the latest of them, so that none is counted twice.
	Pod types.UID `json:"pod,omitempty"`
	// NextTry is when the next one is made; nil if none is.
	NextTry *metav1.Time `json:"nextTry,omitempty"`
	// Deadline is when something in the way of the cleanup is not waited for any more.
	Deadline *metav1.Time `json:"deadline,omitempty"`
	Reason   Reason       `json:"reason"`
	Message  string       `json:"message"`
}

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
func (s *Status) Warmed() bool {
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

// Live reports whether the set runs all through the operation: no claim needs another volume.
func (s *Status) Live() bool {
	for i := range s.Claims {
		if s.Claims[i].Method != MethodExpand {
			return false
		}
	}
	return s.Method == MethodExpand
}

// Claim returns the part of the claim with the given name, or nil.
func (s *Status) Claim(name string) *ClaimStatus {
	for i := range s.Claims {
		if s.Claims[i].Name == name {
			return &s.Claims[i]
		}
	}
	return nil
}

// Active reports whether the operation still has work to do.
func (s *Status) Active() bool { return s != nil && !s.Phase.Terminal() }

// RollbackGivenUp is the operation that a rollback was to undo which failed before a claim had its old volume back; empty if the
// document tells of anything else.
func (s *Status) RollbackGivenUp() string {
	if s == nil || s.Phase != Failed || s.Method != MethodRollback || s.Held() || s.HalfBack() {
		return ""
	}
	return s.RollsBack
}

// HalfBack reports whether a rollback has given some claims their old volumes back already: as it was the set cannot start any more, its
// replicas would have data of different times.
func (s *Status) HalfBack() bool {
	return s.Method == MethodRollback && slices.ContainsFunc(s.Claims, func(c ClaimStatus) bool { return c.Settled() })
}

// Held reports whether the operation was given up with the set still held at zero: one of its claims is not whole.
func (s *Status) Held() bool {
	return s != nil && s.Phase == Failed && s.FailedAt == Switching && !s.Live()
}

// Clone returns a copy that can be changed without changing s.
func (s *Status) Clone() *Status {
	c := *s
	c.Claims = append([]ClaimStatus(nil), s.Claims...)
	c.Ordinals = append([]OrdinalStatus(nil), s.Ordinals...)
	return &c
}

// Encode renders the document. It does not fail: every field can be marshalled.
func (s *Status) Encode() string { return mustJSON(s) }

// Kinds of operations.
const (
	KindResize  = "Resize"
	KindSleep   = "Sleep"
	KindCleanup = "Cleanup"
)

// Annotation is where the document is stored.
func (s *Status) Annotation() string {
	switch s.Kind {
	case KindSleep:
		return SleepAnnotation
	case KindCleanup:
		return CleanupAnnotation
	}
	return StatusAnnotation
}

// LoadStatus reads the StatefulSet's status. A set without one yields nil. Unreadable text, a version of the future
// and a document without operation are errors, never "no operation": who cannot read the state must not act.
func LoadStatus(set *appsv1.StatefulSet) (*Status, error) {
	status, err := loadStatus(set, StatusAnnotation)
	if err != nil || status == nil {
		return nil, err
	}
	if status.Kind == KindSleep || status.Kind == KindCleanup || !IsOperationID(status.Operation) { // names of objects derive from the id
		return nil, fmt.Errorf("annotation %s of StatefulSet %s/%s is about %q operation %q, which is no resize; remove it if no operation runs",
			StatusAnnotation, set.Namespace, set.Name, status.Kind, status.Operation)
	}
	return status, nil
}

// longestSleep bounds a sleep's document, in bytes: the sweep keeps those of all sets of the cluster at once. One has some 1,000.
const longestSleep = 32 << 10

// LoadSleep reads the document of the StatefulSet's latest sleep, as LoadStatus does.
func LoadSleep(set *appsv1.StatefulSet) (*Status, error) {
	if text := set.Annotations[SleepAnnotation]; len(text) > longestSleep {
		return nil, fmt.Errorf("annotation %s of StatefulSet %s/%s has %d bytes, at most %d are read; remove it",
			SleepAnnotation, set.Namespace, set.Name, len(text), longestSleep)
	}
	return loadOf(set, KindSleep, SleepAnnotation)
}

// LoadCleanup reads the document of the StatefulSet's latest cleanup, as LoadStatus does.
func LoadCleanup(set *appsv1.StatefulSet) (*Status, error) {
	return loadOf(set, KindCleanup, CleanupAnnotation)
}

func loadOf(set *appsv1.StatefulSet, kind, annotation string) (*Status, error) {
	status, err := loadStatus(set, annotation)
	if err == nil && status != nil && status.Kind != kind {
		return nil, fmt.Errorf("annotation %s of StatefulSet %s/%s is about a %q; remove it", annotation, set.Namespace, set.Name, status.Kind)
	}
	return status, err
}

func loadStatus(set *appsv1.StatefulSet, annotation string) (*Status, error) {
	text, ok := set.Annotations[annotation]
	if !ok {
		return nil, nil
	}
	status := &Status{}
	if err := bounded.Document([]byte(text), status); err != nil {
		return nil, fmt.Errorf("reading annotation %s of StatefulSet %s/%s: %w; remove the annotation if no operation runs",
			annotation, set.Namespace, set.Name, err)
	}
	if err := status.validate(); err != nil {
		return nil, fmt.Errorf("annotation %s of StatefulSet %s/%s: %w", annotation, set.Namespace, set.Name, err)
	}
	return status, nil
}

func (s *Status) validate() error {
	if s.Version != StatusVersion {
		return fmt.Errorf("version is %d, this Drydock reads version %d; update Drydock", s.Version, StatusVersion)
	}
	if s.Operation == "" || s.Phase == "" || s.Set.Name == "" {
		return fmt.Errorf("operation, phase or set is missing; remove the annotation if no operation runs")
	}
	return nil
}

func mustJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("marshalling %T: %v", v, err)) // unreachable: plain structs
	}
	return string(b)
}
