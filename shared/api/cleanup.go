package api

import (
	"math"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/bounded"
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

// Ledger says which pods a StatefulSet has, running or stopped, and which of them are to be removed with their claims. It is no record of
// an operation. Without it, or with one that cannot be read, nothing is removed. Package members has its rules.
type Ledger struct {
	Set SetRef `json:"set"`
	// Start and Count are the ordinals of the pods: Count of them from Start.
	Start int `json:"start"`
	Count int `json:"count"`
	// Complete is true if spec.replicas has asked for all pods that stay since it was zero, or since a change of the spec was missed.
	Complete bool `json:"complete,omitempty"`
	// Generation is that of the spec that was counted last.
	Generation int64 `json:"generation"`
	// Orders counts the orders so far. It gives each order its number.
	Orders int `json:"orders,omitempty"`
	// Answered is the latest order of a user that was added or refused, as written.
	Answered string `json:"answered,omitempty"`
	// Removing is the order to remove pods with their claims, or nil.
	Removing *Removal `json:"removing,omitempty"`
}

// Removal is an order to remove the pods of a span with their claims.
type Removal struct {
	Span
	Order int `json:"order"`
}

// NoEnd is the end of a span that has all ordinals from its start.
const NoEnd = math.MaxInt32

const longestLedger = 1 << 10 // bytes

// LoadLedger returns the set's ledger, or nil if it has none that can be read and belongs to this set.
func LoadLedger(set *appsv1.StatefulSet) *Ledger {
	if l := AnyLedger(set); l != nil && l.Set.UID == set.UID {
		return l
	}
	return nil
}

// AnyLedger is LoadLedger, but the ledger may be that of a former set of the same name, which a resize or a backup tool has created again.
func AnyLedger(set *appsv1.StatefulSet) *Ledger {
	text, l := set.Annotations[LedgerAnnotation], &Ledger{}
	if text == "" || len(text) > longestLedger || bounded.Document([]byte(text), l) != nil || l.Set.Name != set.Name || l.Count < 0 {
		return nil
	}
	if r := l.Removing; r != nil && (r.Start < l.Start || r.End <= r.Start) {
		return nil
	}
	return l
}

// Encode returns the ledger as JSON.
func (l *Ledger) Encode() string { return mustJSON(l) }
