package scalehooks

import (
	"fmt"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

const replicasPath = "/spec/replicas"

// After quickReverts within contestWindow the count is contested: each further one waits for contestPause, until nothing was put back for
// contestWindow.
const (
	quickReverts  = 3
	contestWindow = 10 * time.Minute
	contestPause  = 5 * time.Minute
)

// putBack undoes a change of the count that no Scaler has made.
func (w work) putBack(count int32) plan.Plan {
	live := statefulset.Replicas(w.Set)
	if count == 0 && w.record.Paused && w.losesClaims() {
		return w.report(&problem{reason: api.PauseDeletesClaims, message: w.keepClaims()})
	}
	if contested(w.record.Reverts, w.Now) {
		return w.contest(count)
	}
	next := w.record.Clone()
	next.Reverts = oneMore(w.record.Reverts, w.Now)
	patch := plan.Set(operation.Store(w.Set, next), replicasPath, live, count, fmt.Sprintf("replicas = %d", count))
	warning := w.warn(api.CountReverted, "another client has scaled the StatefulSet to %d; Scaler %s has put %d back. "+
		"Scale the Scaler instead: kubectl scale -n %s scaler %s --replicas=N", live, w.scaler.Name, count, w.Namespace, w.scaler.Name)
	return plan.Do(api.CountReverted, append(patch.Actions(), warning)...)
}

// contest leaves the count of another client for now. A scaling that is late by then is given up. The words are the same for each count, or
// they would be written as often as it changes.
func (w work) contest(count int32) plan.Plan {
	message := fmt.Sprintf("another client scales the StatefulSet again and again; Scaler %s puts %d back every %s. "+
		"Stop that client, or set conflictPolicy: adopt", w.scaler.Name, count, contestPause)
	if w.record.Active() && operation.Overdue(w.record, w.Now) {
		return w.giveUp(api.CountContested, message)
	}
	return w.report(&problem{reason: api.CountContested, message: message})
}

// contested reports whether the next count of another client has to wait before it is put back.
func contested(r *api.Reverts, now time.Time) bool {
	return r != nil && r.Count >= quickReverts && now.Sub(r.Last.Time) < contestPause
}

// oneMore returns the row with a revert of now. A row that was quick enough to be a contest ends when its last revert is old, any other row when
// its first one is.
func oneMore(r *api.Reverts, now time.Time) *api.Reverts {
	moment := *operation.Moment(now)
	row := api.Reverts{First: moment}
	if r != nil {
		since := r.First
		if r.Count >= quickReverts {
			since = r.Last
		}
		if now.Sub(since.Time) < contestWindow {
			row = *r
		}
	}
	row.Count, row.Last = row.Count+1, moment
	return &row
}
