package api

import (
	"math"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/bounded"
)

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
