package scalehooks

import (
	"fmt"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
)

// awaitCleanup waits until cleanup-pod has deleted the claims of the removed members.
func (w work) awaitCleanup(then func() plan.Plan) plan.Plan {
	cleanup := operation.Of(w.Set).Cleanup
	switch {
	case w.record.Paused: // its members are away: nothing of them is cleaned up
		return then()
	case len(w.LeftBehind) == 0 && !cleanup.Active():
		return then()
	case cleanup != nil && operation.CleanupRests(cleanup) && cleanup.Started.After(w.record.Started.Time):
		return w.giveUp(api.HookFailed, fmt.Sprintf("the cleanup of %d claims has failed: %s", len(w.LeftBehind), cleanup.Message))
	case operation.Overdue(w.record, w.Now):
		return w.giveUp(api.DeadlineExceeded, fmt.Sprintf("%d claims of removed members were not cleaned up within %s; the annotation %s of the "+
			"StatefulSet tells why", len(w.LeftBehind), w.deadline(w.record.Phase), api.CleanupAnnotation))
	}
	return w.wait(api.HookRunning, "%d claims are being cleaned up", len(w.LeftBehind))
}
