package scalehooks

import (
	"fmt"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
)

// awaitCleanup waits until cleanup-pod has deleted the claims of the removed members, and then calls next.
func (w work) awaitCleanup(next func() plan.Plan) plan.Plan {
	cleanup := operation.Of(w.Set).Cleanup
	switch {
	case w.record.Paused: // the members of a paused set start again, so cleanup-pod keeps their claims
		return next()
	case len(w.LeftoverClaims) == 0 && !cleanup.Active():
		return next()
	case cleanup != nil && operation.CleanupRests(cleanup) && cleanup.Started.After(w.record.Started.Time):
		return w.failScaling(api.HookFailed, fmt.Sprintf("the cleanup of %d claims has failed: %s", len(w.LeftoverClaims), cleanup.Message))
	case operation.Overdue(w.record, w.Now):
		return w.failScaling(api.DeadlineExceeded, fmt.Sprintf("%d claims of removed members were not cleaned up within %s. Read the "+
			"annotation %s of the "+
			"StatefulSet for the reason", len(w.LeftoverClaims), w.deadline(w.record.Phase), api.CleanupAnnotation))
	}
	return w.wait(api.HookRunning, "%d claims are being cleaned up", len(w.LeftoverClaims))
}
