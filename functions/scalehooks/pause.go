package scalehooks

import (
	"fmt"

	"drydock.dev/shared/statefulset"
)

// pauseDeletesClaims reports whether a pause would delete the claims of the set's members. A pause scales the set to zero, and must keep
// the data.
func (w work) pauseDeletesClaims() bool { return statefulset.WhenScaled(w.Set) != statefulset.Retain }

func (w work) pauseDeletesClaimsMessage() string {
	return fmt.Sprintf("persistentVolumeClaimRetentionPolicy.whenScaled of StatefulSet %s is %s, so a pause would delete the claims. "+
		"Set it to %s", w.Name, statefulset.WhenScaled(w.Set), statefulset.Retain)
}
