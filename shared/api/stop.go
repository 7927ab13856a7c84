package api

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/bounded"
)

// Stop says that scale has scaled the set to zero for a while: for its sleep, or because its Scaler is paused. Its pods come back.
// scale alone writes it. The Stop exists until the pods have been asked back and the retention policy is restored.
type Stop struct {
	Set SetRef `json:"set"`
	// Operation is the sleep, or the scaling by a Scaler, that stopped the pods. Kind is KindSleep or KindScale.
	Operation string `json:"operation"`
	Kind      Kind   `json:"kind"`
	// Replicas is the count before the stop. The set gets it back, unless its Scaler requests another one.
	Replicas int32 `json:"replicas"`
	// StoppedAt is when the set was last scaled to zero, or nil if it was not.
	StoppedAt *metav1.Time `json:"stopped,omitempty"`
	// Again is true if the set was scaled to zero a second time, because its operator had scaled it up right after the first time.
	Again bool `json:"again,omitempty"`
	// StartedAt is when the pods were asked back, or nil if they were not. Another client that scales to zero afterwards means it.
	StartedAt *metav1.Time `json:"started,omitempty"`
	// WhenScaled is the user's retention policy, which is Retain during the stop. It is empty if it was Retain before.
	WhenScaled appsv1.PersistentVolumeClaimRetentionPolicyType `json:"whenScaled,omitempty"`
	// Refused is why the API server rejected the count, and RefusedAt when. Both are empty otherwise.
	Refused   string       `json:"refused,omitempty"`
	RefusedAt *metav1.Time `json:"refusedAt,omitempty"`
}

// longestStop is the limit for a Stop, in bytes.
const longestStop = 16 << 10

// LoadStop returns the set's Stop, or nil if it has none that can be read and belongs to this set. One of the set that a resize has
// replaced by this one belongs to it.
func LoadStop(set *appsv1.StatefulSet) *Stop {
	text, s := set.Annotations[StopAnnotation], &Stop{}
	if text == "" || len(text) > longestStop || bounded.Document([]byte(text), s) != nil || !s.valid() || s.Set.Name != set.Name {
		return nil
	}
	if !s.Set.IsOf(set) {
		return nil
	}
	return s
}

// IsOf reports whether the reference is to this set, or to the former one that the set's latest resize has replaced by it.
func (r SetRef) IsOf(set *appsv1.StatefulSet) bool {
	header := &Header{Set: r}
	return header.isOf(set) || header.isOfFormer(set)
}

func (s *Stop) valid() bool {
	return IsOperationID(s.Operation) && s.Replicas >= 0 && (s.Kind == KindSleep || s.Kind == KindScale)
}

// Pending reports whether the pods were stopped and have not been asked back. A nil Stop is not pending.
func (s *Stop) Pending() bool { return s != nil && s.StoppedAt != nil && s.StartedAt == nil }

// Of reports whether the Stop belongs to the sleep: it stopped the pods, could not, or has asked them back.
func (s *Stop) Of(sleep *Sleep) bool {
	return s != nil && sleep != nil && s.Kind == KindSleep && s.Operation == sleep.Operation
}

// Clone returns a copy. Changing it does not change s.
func (s *Stop) Clone() *Stop {
	c := *s
	return &c
}

// Encode returns the Stop as JSON.
func (s *Stop) Encode() string { return mustJSON(s) }

// StopRecord is the durable copy of a Stop outside of the StatefulSet, the data of a ControllerRevision. It is created before the pods are
// stopped. With it they come back even if the set loses its annotations.
type StopRecord struct {
	Version int  `json:"version"`
	Stop    Stop `json:"stop"`
}

// Encode returns the record as JSON.
func (r StopRecord) Encode() []byte { return []byte(mustJSON(r)) }

// LoadStopRecord returns the Stop in the ControllerRevision.
func LoadStopRecord(revision *appsv1.ControllerRevision) (*Stop, error) {
	record := &StopRecord{}
	if err := bounded.Document(revision.Data.Raw, record); err != nil {
		return nil, fmt.Errorf("reading the record of a stop %s/%s: %w", revision.Namespace, revision.Name, err)
	}
	if record.Version != RecordVersion || !record.Stop.valid() {
		return nil, fmt.Errorf("the record of a stop %s/%s: version %d, operation %q and kind %q cannot be understood; update Drydock",
			revision.Namespace, revision.Name, record.Version, record.Stop.Operation, record.Stop.Kind)
	}
	return &record.Stop, nil
}
