package scale

import (
	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/members"
)

// work is an Input with the record of the set's scaling and the Scaler that scales the set.
type work struct {
	Input
	record *api.Scale
	scaler *v1alpha1.Scaler // nil if the set has no Scaler
	stop   *api.Stop        // nil if the set has none
}

// held reports whether the set must have no pods now, although its Scaler requests some: the Scaler is paused, or the set sleeps.
func (w work) held() bool {
	return w.scaler.Spec.Paused || members.Asleep(w.Set)
}

// wanted returns the count that the set must have now: zero while it is held, nil if the Scaler takes over the count of the set.
func (w work) wanted() *int32 {
	if w.held() && w.scaler.Spec.Replicas != nil {
		return new(int32)
	}
	return w.scaler.Spec.Replicas
}

// wantedNow is wanted for the status, also without a set.
func (w work) wantedNow() *int32 {
	if w.Set == nil {
		return nil
	}
	return w.wanted()
}
