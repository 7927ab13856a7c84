package api

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Scale is the record of a set's latest scaling by a Scaler. Its request is the count that the set is to have.
type Scale struct {
	Header
	// Scaler is the custom resource that scales the set.
	Scaler ScalerRef `json:"scaler"`
	// Previous is the count before the scaling, Target the one after it. Between two scalings both are what the set has.
	Previous int32 `json:"previous"`
	Target   int32 `json:"target"`
	// Start is the ordinal of the first member, which the members that are added or removed are counted from.
	Start int `json:"start,omitempty"`
	// Paused is true if the set has no members because its Scaler is paused: they are away, and not removed.
	Paused bool `json:"paused,omitempty"`
	// Adopts is true if another client's count is taken over, so that no policy has to refuse it.
	Adopts bool `json:"adopts,omitempty"`
	// Ask says how often a function of the user's was asked to run the hook of the present phase; nil where none was.
	Ask *Ask `json:"ask,omitempty"`
	// CleansUp is true while the scaling waits for a cleanup of what it has removed.
	CleansUp bool `json:"cleansUp,omitempty"`
}

// Ask are the requests for a hook that were sent as CloudEvents.
type Ask struct {
	Times int         `json:"times"`
	Last  metav1.Time `json:"last"`
	// Keys are the SHA-256 sums, in hex, of the keys of the latest requests. An answer has one of these keys.
	Keys []string `json:"keys"`
}

// ScalerRef is the identity of a Scaler in the set's namespace.
type ScalerRef SetRef

// LoadScale returns the record of the set's latest scaling, as LoadResize does.
func LoadScale(set *appsv1.StatefulSet) (*Scale, error) {
	scale := &Scale{}
	if found, err := load(set, ScaleAnnotation, scale, KindScale); !found || !scale.isOf(set) {
		return nil, err
	}
	return scale, nil
}

// Active reports whether the scaling still has work to do. No scaling is not active.
func (s *Scale) Active() bool { return s != nil && s.active() }

// Direction is up or down.
func (s *Scale) Direction() string {
	if s.Target < s.Previous {
		return "down"
	}
	return "up"
}

// Clone returns a copy that can be changed without changing s.
func (s *Scale) Clone() *Scale {
	next := *s
	if s.Ask != nil {
		ask := *s.Ask
		ask.Keys = slices.Clone(ask.Keys)
		next.Ask = &ask
	}
	return &next
}

// Annotation returns where the record is stored.
func (s *Scale) Annotation() string { return ScaleAnnotation }

// Encode renders the record.
func (s *Scale) Encode() string { return mustJSON(s) }
