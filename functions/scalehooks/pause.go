package scalehooks

import (
	"fmt"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/scale"
	"drydock.dev/shared/statefulset"
)

// pauseDeletesClaims reports whether a pause would delete the claims of the set's members. A pause scales the set to zero, and must keep
// the data.
func (w work) pauseDeletesClaims() bool { return statefulset.WhenScaled(w.Set) != statefulset.Retain }

func (w work) pauseDeletesClaimsMessage() string {
	return fmt.Sprintf("persistentVolumeClaimRetentionPolicy.whenScaled of StatefulSet %s is %s, so a pause would delete the claims. "+
		"Set it to %s", w.Name, statefulset.WhenScaled(w.Set), statefulset.Retain)
}

// isPauseLeft reports whether Drydock has paused the Scaler for the sleep of a former set, which was deleted and created again. Nothing
// else would end that pause. The sleep is recorded before the pause, and Scalers are read before the set, so a sleep that has just begun
// is seen. If the same set has lost the record of its sleep, idle-timeout wakes it.
func (w work) isPauseLeft() bool {
	slept := w.scaler.Status.Target
	if slept != nil && slept.UID == w.Set.UID {
		return false
	}
	return scale.PausedByDrydock(w.scaler) && !operation.Of(w.Set).Sleeping()
}

// endLeftPause ends a pause whose sleep no longer exists.
func (w work) endLeftPause() plan.Plan {
	patch := plan.PatchOf(plan.Scalers, w.scaler).Replace("/spec/paused", false, "paused = false")
	return plan.Do(api.PauseEnded, append(patch.Actions(), w.warn(api.PauseEnded, "Drydock has ended its pause of Scaler %s, because "+
		"StatefulSet %s has no sleep. To pause it yourself, set spec.paused again", w.scaler.Name, w.Name))...)
}
