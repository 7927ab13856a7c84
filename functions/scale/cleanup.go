package scale

import (
	"fmt"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
)

// awaitCleanup waits until cleanup-pod has deleted the claims of the removed members, and then calls next.
func (w work) awaitCleanup(next func() plan.Plan) plan.Plan {
	cleanup, ledger := operation.Of(w.Set).Cleanup, api.LoadLedger(w.Set)
	switch {
	case w.record.Paused: // the members of a paused set start again, so the ledger orders no removal
		return next()
	case !cleanup.Active() && (ledger == nil || ledger.Removing == nil):
		return next()
	case cleanup != nil && operation.CleanupRests(cleanup) && cleanup.Started.After(w.record.Started.Time):
		return w.failScaling(api.HookFailed, "the cleanup of the removed members' claims has failed: "+cleanup.Message)
	case operation.Overdue(w.record, w.Now):
		return w.failScaling(api.DeadlineExceeded, fmt.Sprintf("the claims of the removed pods were not cleaned up within %s. Read the "+
			"annotation %s of the StatefulSet for the reason", w.deadline(w.record.Phase), api.CleanupAnnotation))
	}
	return w.wait(api.HookRunning, "the claims of the removed pods are being cleaned up")
}
