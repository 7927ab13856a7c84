package api

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Scale is the record of a set's latest scaling by a Scaler. Its request is the target count.
type Scale struct {
	Header
	// Scaler is the custom resource that scales the set.
	Scaler ScalerRef `json:"scaler"`
	// Previous is the count before the scaling, Target the count after it. Between two scalings both are the present count.
	Previous int32 `json:"previous"`
	Target   int32 `json:"target"`
	// Start is the ordinal of the first member. The ordinals of added and removed members are counted from it.
	Start int `json:"start,omitempty"`
	// HookMade is true when the Job of the failure hook was created. That hook runs once.
	HookMade bool `json:"hookMade,omitempty"`
	// Reverts are the recent counts of other clients that were reverted, or nil.
	Reverts *Reverts `json:"reverts,omitempty"`
	// Paused is true if the scaling stops the pods because the set sleeps or its Scaler is paused. They come back. Stop has their count.
	Paused bool `json:"paused,omitempty"`
	// Adopts is true if the Scaler takes over another client's count, so that no policy has to refuse it.
	Adopts bool `json:"adopts,omitempty"`
	// HookRequests has the requests to a user's function for the hook of the present phase, or nil.
	HookRequests *HookRequests `json:"ask,omitempty"`
	// CleansUp is true while the scaling waits for the cleanup of the removed members.
	CleansUp bool `json:"cleansUp,omitempty"`
}

// HookRequests has the requests for a hook that were sent as CloudEvents.
type HookRequests struct {
	Times int         `json:"times"`
	Last  metav1.Time `json:"last"`
	// Keys are the SHA-256 digests, in hex, of the keys of the latest requests. A valid answer has one of these keys.
	Keys []string `json:"keys"`
}

// Reverts counts consecutive counts of other clients that the Scaler reverted.
type Reverts struct {
	Count int         `json:"count"`
	First metav1.Time `json:"first"`
	Last  metav1.Time `json:"last"`
}

// ScalerRef is the identity of a Scaler in the set's namespace.
type ScalerRef SetRef

// LoadScale returns the record of the set's latest scaling, with the rules of LoadResize. If a resize has created the set again, the record
// has the former UID until scale renews it. It counts nevertheless: without it, the Scaler would take the set over anew, and a
// pause or a scaling would be forgotten.
func LoadScale(set *appsv1.StatefulSet) (*Scale, error) {
	scale := &Scale{}
	if found, err := load(set, ScaleAnnotation, scale, KindScale); !found {
		return nil, err
	}
	if !scale.isOf(set) && !scale.isOfFormer(set) {
		return nil, nil
	}
	return scale, nil
}

// Active reports whether the scaling still has work to do. A nil scaling has none.
func (s *Scale) Active() bool { return s != nil && s.active() }

// Direction returns "up" or "down".
func (s *Scale) Direction() string {
	if s.Target < s.Previous {
		return "down"
	}
	return "up"
}

// Clone returns a copy. Changing it does not change s.
func (s *Scale) Clone() *Scale {
	next := *s
	if s.HookRequests != nil {
		ask := *s.HookRequests
		ask.Keys = slices.Clone(ask.Keys)
		next.HookRequests = &ask
	}
	return &next
}

// Annotation returns the key under which the record is stored.
func (s *Scale) Annotation() string { return ScaleAnnotation }

// Encode returns the record as JSON.
func (s *Scale) Encode() string { return mustJSON(s) }

// HookDir and HookFile are the directory and the name of the file with the HookFacts, in the containers of a scaling's hook.
const (
	HookDir  = "/etc/drydock" // Drydock's image has the program itself at /drydock
	HookFile = "hook.json"
)

// HookFacts tell a hook which members a scaling adds or removes. The hook reads them as JSON from a file in its pod.
type HookFacts struct {
	// Hook is "pre", "post" or "onFailure", Direction "up" or "down".
	Hook      string `json:"hook"`
	Direction string `json:"direction"`
	// Current is the count before the scaling, Desired the count after it.
	Current int32 `json:"current"`
	Desired int32 `json:"desired"`
	// Paused is true if the removed members will come back: the Scaler is paused, or the set goes to sleep.
	Paused bool `json:"paused"`
	// Added and Removed are ordinals. At most one of the lists has entries. Neither is null.
	Added     []int  `json:"added"`
	Removed   []int  `json:"removed"`
	Namespace string `json:"namespace"`
	Set       string `json:"set"`
	Scaler    string `json:"scaler"`
	Operation string `json:"operation"`
}

// Encode renders the document.
func (f HookFacts) Encode() string { return mustJSON(f) }
