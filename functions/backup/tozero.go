package backup

import (
	"fmt"

	"drydock.dev/shared/plan"
	"drydock.dev/shared/sts"
)

// toZero scales the set to zero with the patch. In the same write the claims of what that stops are kept: a deployment tool may have put
// whenScaled Delete back since the operation began.
func toZero(in Input, patch *plan.Patch) *plan.Patch {
	now := sts.Replicas(in.Set)
	plan.Set(patch, "/spec/replicas", now, 0, fmt.Sprintf("replicas %d to 0", now))
	plan.Set(patch, sts.WhenScaledPath, sts.WhenScaled(in.Set), sts.Retain, "whenScaled Retain")
	return patch.Freeze()
}
