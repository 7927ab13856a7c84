package api

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Cleanup is the record of a set's latest cleanup. Its request is a digest of the template and settings. Between two cleanups it says which
// ordinals are accounted for.
type Cleanup struct {
	Header
	// Order is the number of the order in the set's ledger that the latest successful cleanup has carried out.
	Order int `json:"order,omitempty"`
	// Ordinals are the ordinals that need attention: a cleanup pod has failed, or none may run.
	Ordinals []OrdinalStatus `json:"ordinals,omitempty"`
	// Span has the ordinals that cleanup-pod has accounted for: it has seen the pod of each, and nothing to clean up outside of them.
	Span *Span `json:"span,omitempty"`
}

// Span is a range of ordinals from Start, without End.
type Span struct {
	Start int `json:"start"`
	End   int `json:"end"`
}

// OrdinalStatus describes an ordinal that needs attention.
type OrdinalStatus struct {
	Ordinal int `json:"ordinal"`
	// Tries counts the failed cleanup pods.
	Tries int `json:"tries,omitempty"`
	// Pod is the latest failed pod, so that it is counted once.
	Pod types.UID `json:"pod,omitempty"`
	// Succeeded is the pod that has finished its work, while another pod still uses its claims.
	Succeeded types.UID `json:"succeeded,omitempty"`
	// NextTry is when the next cleanup pod is created, or nil.
	NextTry *metav1.Time `json:"nextTry,omitempty"`
	// Deadline is when Drydock stops waiting until the obstacle to the cleanup is gone.
	Deadline *metav1.Time `json:"deadline,omitempty"`
	// GivenUp is true if the cleanup of the ordinal has ended without success. A user can request a retry.
	GivenUp bool   `json:"givenUp,omitempty"`
	Reason  Reason `json:"reason"`
	Message string `json:"message"`
}

// LoadCleanup returns the record of the set's latest cleanup, with the rules of LoadResize.
func LoadCleanup(set *appsv1.StatefulSet) (*Cleanup, error) {
	cleanup := &Cleanup{}
	if found, err := load(set, CleanupAnnotation, cleanup, KindCleanup); !found || !cleanup.isOf(set) {
		return nil, err
	}
	return cleanup, nil
}

// Active reports whether the cleanup still has work to do. A nil cleanup has none.
func (c *Cleanup) Active() bool { return c != nil && c.active() }

// Clone returns a copy. Changing it does not change c.
func (c *Cleanup) Clone() *Cleanup {
	next := *c
	next.Ordinals = append([]OrdinalStatus(nil), c.Ordinals...)
	return &next
}

// Annotation returns the key under which the record is stored.
func (c *Cleanup) Annotation() string { return CleanupAnnotation }

// Encode returns the record as JSON.
func (c *Cleanup) Encode() string { return mustJSON(c) }
