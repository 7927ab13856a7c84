package backup

import (
	"fmt"

	"drydock.dev/shared/api"
	"drydock.dev/shared/sts"
)

// disowned returns why the status was not written by Drydock for this set, or nothing. Whoever may edit the set can write one. Nothing
// is touched unless the id is the set's own or, once there is a journal, which only Drydock writes, unless the journal names every
// claim that is still to be switched, with its volumes.
func disowned(in Input, status *api.Resize) string {
	if in.Journal(status.Operation) == nil {
		return unbegun(in, status)
	}
	record := in.Recorded(status.Operation)
	if record == nil {
		return fmt.Sprintf("ControllerRevision %s cannot be read", api.JournalName(status.Operation))
	}
	for _, part := range pending(status) {
		if !record.Records(part) {
			return fmt.Sprintf("ControllerRevision %s does not name claim %s on volume %s", api.JournalName(status.Operation), part.Name, part.OldVolume)
		}
	}
	return ""
}

// unbegun returns why the status cannot be one of which nothing was written down yet, or nothing.
func unbegun(in Input, status *api.Resize) string {
	if !status.HasIDOf(in.Set.UID) {
		return fmt.Sprintf("%s is not the id of request %q on this StatefulSet", status.Operation, status.Request)
	}
	for _, part := range status.Claims {
		if part.Settled() && part.Method != api.MethodExpand {
			return fmt.Sprintf("claim %s is said to have its new volume, and ControllerRevision %s does not exist", part.Name, api.JournalName(status.Operation))
		}
	}
	return ""
}

// owns reports whether the claim that the status names is still that claim, and bound to the volume that the status names.
func owns(in Input, part api.ClaimStatus) bool {
	claim, volume := in.Claim(part.Name), in.Volume(part.OldVolume)
	return claim != nil && claim.UID == part.UID && claim.DeletionTimestamp == nil && volume != nil && sts.Bound(claim, volume)
}
