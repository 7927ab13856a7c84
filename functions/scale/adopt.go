package scale

import (
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/scaling"
)

// adoptsLiveCount reports whether spec.replicas of the Scaler follows the count of another client. It does not while the set is
// held, and not with a fixed count.
func (w work) adoptsLiveCount() bool {
	return w.acceptsOtherClients() && !w.held()
}

// acceptsOtherClients reports whether the conflict policy is adopt. A fixed count overrides the policy.
func (w work) acceptsOtherClients() bool {
	return w.scaler.Spec.ConflictPolicy == v1alpha1.ConflictAdopt && scaling.Fixed(w.scaler) == nil
}
