package scalehooks

import (
	"fmt"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/text"
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
		return w.failScaling(api.HookFailed, "the cleanup of the removed members' claims has failed: "+cleanup.Message)
	case operation.Overdue(w.record, w.Now):
		return w.failScaling(api.DeadlineExceeded, fmt.Sprintf("%s not cleaned up within %s. Read the annotation %s of the "+
			"StatefulSet for the reason", text.Number(len(w.LeftoverClaims), "claim of removed members was", "claims of removed members were"),
			w.deadline(w.record.Phase), api.CleanupAnnotation))
	}
	return w.wait(api.HookRunning, "%s being cleaned up", text.Number(len(w.LeftoverClaims), "claim is", "claims are"))
}
