package scale

import (
	"fmt"
	"slices"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/scaling"
	"drydock.dev/shared/statefulset"
)

// counts keeps the count of a set as its Scaler requests it.
type counts struct{ work }

func (w work) counts() counts { return counts{w} }

// After quickReverts reverts within contestWindow, the count is contested: each further revert waits for contestPause after the last one.
// This ends when the count was not reverted for contestWindow.
const (
	quickReverts  = 3
	contestWindow = 10 * time.Minute
	contestPause  = 5 * time.Minute
)

// revertCount restores the count after another client has changed it.
func (n counts) revertCount(count int32) plan.Plan {
	live := statefulset.Replicas(n.Set)
	if contested(n.record.Reverts, n.Now) {
		return n.reportContest(count)
	}
	next := n.record.Clone()
	next.Reverts = addRevert(n.record.Reverts, n.Now)
	patch, before := operation.Store(n.Set, next), []plan.Action(nil)
	if count == 0 && next.Paused { // the other client may have written a retention policy that deletes claims
		before = n.stops().beginStopFor(next, patch)
	} else {
		n.stops().setCount(patch, count)
	}
	warning := n.warn(api.CountReverted, "another client has scaled the StatefulSet to %d, and Scaler %s has scaled it back to %d. "+
		"Scale the Scaler instead: kubectl scale -n %s scaler %s --replicas=N", live, n.scaler.Name, count, n.Namespace, n.scaler.Name)
	return plan.Do(api.CountReverted, slices.Concat(before, patch.Actions(), []plan.Action{warning})...)
}

// reportContest leaves the other client's count for now, and reports the conflict. A scaling past its deadline fails. The message does not
// name the other client's count: the status would otherwise be written each time that count changes.
func (n counts) reportContest(count int32) plan.Plan {
	message := fmt.Sprintf("another client keeps scaling the StatefulSet, and Scaler %s scales it back to %d every %s. "+
		"Stop that client, or set conflictPolicy: adopt", n.scaler.Name, count, contestPause)
	if n.record.Active() && operation.Overdue(n.record, n.Now) {
		return n.progress().failScaling(api.CountContested, message)
	}
	return n.report(&problem{reason: api.CountContested, message: message})
}

// contested reports whether the next revert has to wait.
func contested(r *api.Reverts, now time.Time) bool {
	return r != nil && r.Count >= quickReverts && operation.Within(now, r.Last.Time, contestPause)
}

// addRevert returns the series of reverts with one more, made now. A contested series expires contestWindow after its last revert, any
// other series contestWindow after its first.
func addRevert(r *api.Reverts, now time.Time) *api.Reverts {
	moment := *operation.Moment(now)
	series := api.Reverts{First: moment}
	if r != nil {
		start := r.First
		if r.Count >= quickReverts {
			start = r.Last
		}
		if operation.Within(now, start.Time, contestWindow) {
			series = *r
		}
	}
	series.Count, series.Last = series.Count+1, moment
	return &series
}

// deviatesFromFixedCount reports whether spec.replicas of the Scaler differs from its fixed count.
func (n counts) deviatesFromFixedCount() bool {
	fixed := scaling.Fixed(n.scaler)
	return fixed != nil && (n.scaler.Spec.Replicas == nil || *n.scaler.Spec.Replicas != *fixed)
}

// restoreFixedCount sets spec.replicas of the Scaler to the fixed count. It warns if another client has changed spec.replicas. It does not
// warn if spec.mode has changed.
func (n counts) restoreFixedCount() plan.Plan {
	fixed, requested := *scaling.Fixed(n.scaler), n.scaler.Spec.Replicas
	var warnings []plan.Action
	if requested != nil && *requested != n.record.Target && !n.held() {
		warnings = append(warnings, n.warn(api.CountFixed, "another client has requested %d members, but Scaler %s has the fixed count "+
			"%d. "+
			"Change spec.mode of the Scaler instead", *requested, n.scaler.Name, fixed))
	}
	p := n.setRequestedCount(fixed, warnings...)
	p.Reason = api.CountFixed
	return p
}

// setRequestedCount sets spec.replicas of the Scaler.
func (n counts) setRequestedCount(count int32, notes ...plan.Action) plan.Plan {
	patch := plan.PatchOf(plan.Scalers, n.scaler).Replace(replicasPath, count, fmt.Sprintf("replicas = %d", count))
	return plan.Do(api.CountAdopted, append(patch.Actions(), notes...)...)
}
