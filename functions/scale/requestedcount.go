package scale

import (
	"fmt"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/scaling"
)

// deviatesFromFixedCount reports whether spec.replicas of the Scaler differs from its fixed count.
func (w work) deviatesFromFixedCount() bool {
	fixed := scaling.Fixed(w.scaler)
	return fixed != nil && (w.scaler.Spec.Replicas == nil || *w.scaler.Spec.Replicas != *fixed)
}

// restoreFixedCount sets spec.replicas of the Scaler to the fixed count. It warns if another client has changed spec.replicas. It does not
// warn if spec.mode has changed.
func (w work) restoreFixedCount() plan.Plan {
	fixed, requested := *scaling.Fixed(w.scaler), w.scaler.Spec.Replicas
	var warnings []plan.Action
	if requested != nil && *requested != w.record.Target && !w.held() {
		warnings = append(warnings, w.warn(api.CountFixed, "another client has requested %d members, but Scaler %s has the fixed count "+
			"%d. "+
			"Change spec.mode of the Scaler instead", *requested, w.scaler.Name, fixed))
	}
	p := w.setRequestedCount(fixed, warnings...)
	p.Reason = api.CountFixed
	return p
}

// setRequestedCount sets spec.replicas of the Scaler.
func (w work) setRequestedCount(count int32, notes ...plan.Action) plan.Plan {
	patch := plan.PatchOf(plan.Scalers, w.scaler).Replace(replicasPath, count, fmt.Sprintf("replicas = %d", count))
	return plan.Do(api.CountAdopted, append(patch.Actions(), notes...)...)
}
