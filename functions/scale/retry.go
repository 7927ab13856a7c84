package scale

import (
	"fmt"

	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/scaling"
	"drydock.dev/shared/statefulset"
)

// decideFailed handles a failed scaling. It waits until a user asks for a retry, or until a failed pause ends.
func (w work) decideFailed() plan.Plan {
	if p := w.tidyStop(w.stopStep()); p.Kind == plan.KindDo {
		return p
	}
	if !scaling.Retried(w.scaler) && !w.Retry && !w.pauseHasEnded() {
		if p := w.deleteFinishedHooks(w.record); p.Kind == plan.KindDo {
			return p
		}
		return w.report(nil)
	}
	wanted, live := w.wantedAfterFailure(), statefulset.Replicas(w.Set)
	// the hooks have run for other members, or the record names no valid phase
	if wanted != w.record.Target || w.membersChanged() || !canFailIn(w.record.FailedAt) {
		if wanted == live {
			return w.recordLiveCount(live)
		}
		return w.beginScaling(wanted)
	}
	if err := w.validateHooks(); err != nil {
		return w.report(&problem{reason: api.HookInvalid, message: err.Error()})
	}
	next := w.enterPhase(w.newRecord(w.record.FailedAt, w.record.Previous, w.record.Target), w.record.FailedAt)
	next.Reason, next.Message = api.Retrying, fmt.Sprintf("retrying from stage %s", stages[next.Phase])
	return w.storeRecord(api.Retrying, next, w.eventFor(next, false))
}

// wantedAfterFailure returns the count for the next scaling. A manifest without spec.replicas may have replaced the Scaler.
func (w work) wantedAfterFailure() int32 {
	wanted := ptr.Deref(w.wanted(), w.record.Target)
	if w.pauseHasEnded() {
		wanted = ptr.Deref(w.wanted(), w.countBeforePause())
	}
	if w.losesPausedMembers(wanted) {
		return w.pausedCount()
	}
	return wanted
}

// pauseHasEnded reports whether the failed scaling was a stop, and nothing holds the set any more. The members then start again, as after a
// stop that succeeded.
func (w work) pauseHasEnded() bool {
	return w.record.Paused && w.record.Target == 0 && !w.held() && ptr.Deref(w.scaler.Spec.Replicas, w.countBeforePause()) > 0
}

// countBeforePause returns the count before the stop of the failed scaling, which may not have stopped anything.
func (w work) countBeforePause() int32 { return max(w.pausedCount(), w.record.Previous) }

// canFailIn reports whether a scaling can fail in the phase. A record written by another client may name any phase.
func canFailIn(phase api.Phase) bool {
	return phase == api.PreScaling || phase == api.Scaling || phase == api.PostScaling
}

// membersChanged reports whether the set's members differ from the members after the failed scaling.
func (w work) membersChanged() bool {
	expected := w.record.Target
	if w.record.FailedAt == api.PreScaling {
		expected = w.record.Previous
	}
	return statefulset.Replicas(w.Set) != expected || statefulset.Start(w.Set) != w.record.Start
}
