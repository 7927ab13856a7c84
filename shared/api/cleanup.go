package api

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Cleanup is the record of a set's latest cleanup. Its request is a digest of what a cleanup of the set does. Between two cleanups it
// says which ordinals are accounted for.
type Cleanup struct {
	Header
	// Replicas is the count that the set asked for when the record was written. A failed cleanup is tried again when it changes.
	Replicas int32 `json:"replicas"`
	// Generation is the one that the StatefulSet controller had seen when nothing was left behind.
	Generation int64 `json:"generation,omitempty"`
	// Ordinals are those that need attention: a cleanup pod has failed, or no cleanup pod may run.
	Ordinals []OrdinalStatus `json:"ordinals,omitempty"`
	// Span are the ordinals that cleanup-pod has accounted for: of each it has seen the pod, and beyond them there was nothing
	// to clean up.
	Span *Span `json:"span,omitempty"`
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
	// Deadline is when Drydock stops waiting for the obstacle to the cleanup.
	Deadline *metav1.Time `json:"deadline,omitempty"`
	Reason   Reason       `json:"reason"`
	Message  string       `json:"message"`
}

// LoadCleanup returns the record of the set's latest cleanup, as LoadResize does.
func LoadCleanup(set *appsv1.StatefulSet) (*Cleanup, error) {
	cleanup := &Cleanup{}
	if found, err := load(set, CleanupAnnotation, cleanup, KindCleanup); !found || !cleanup.isOf(set) {
		return nil, err
	}
	return cleanup, nil
}

// Active reports whether the cleanup still has work to do. No cleanup is not active.
func (c *Cleanup) Active() bool { return c != nil && c.active() }

// Clone returns a copy that can be changed without changing c.
func (c *Cleanup) Clone() *Cleanup {
	next := *c
	next.Ordinals = append([]OrdinalStatus(nil), c.Ordinals...)
	return &next
}

// Annotation returns where the record is stored.
func (c *Cleanup) Annotation() string { return CleanupAnnotation }

// Encode renders the record.
func (c *Cleanup) Encode() string { return mustJSON(c) }
