package scalehooks

import (
	"fmt"

	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/scale"
	"drydock.dev/shared/statefulset"
)

// Decide returns the next step for the set. It is pure.
func Decide(in Input) plan.Plan {
	if in.Set == nil || in.Set.DeletionTimestamp != nil {
		return in.decideWithoutSet()
	}
	record, err := api.LoadScale(in.Set)
	if err != nil {
		return in.reportUnreadableRecord(err)
	}
	w := work{Input: in, record: record, scaler: scale.Owner(in.Scalers, record)}
	// first: a paused Scaler loses its autoscaler even if its scaling waits or has failed
	if p := w.reconcileAutoscalers(); p.Kind == plan.KindDo {
		return p
	}
	if p := in.keepLedger(); p.Kind == plan.KindDo {
		return p
	}
	if w.scaler == nil {
		return w.decideWithoutScaler()
	}
	if w.RefusedStatusOf != "" && w.RefusedStatusOf != w.scaler.Name {
		w.Rejected = "" // it concerns a Scaler that does not scale the set
	}
	switch taken := record != nil && record.Scaler.UID != w.scaler.UID; {
	case !statefulset.Managed(in.Set):
		return w.decideNotOptedIn()
	case record != nil && record.Set.UID != in.Set.UID:
		return w.renewRecord()
	case taken && record.Active():
		return w.endScaling(w.stoppedRecord(api.ScalerGone, "the Scaler was deleted during the scaling"))
	case record.Active():
		return w.advance()
	case w.Rejected != "": // no scaling is active that could fail
		return w.report(&problem{reason: api.Rejected, message: rejectionPrefix + in.Rejected})
	case operation.Of(in.Set).Busy(api.KindScale):
		return w.report(&problem{reason: api.InProgress, message: "another operation is active on the StatefulSet. The Scaler waits " +
			"until it ends", temporary: true})
	case record == nil && w.hasLostPausedCount():
		return w.report(&problem{reason: api.RequestInvalid, message: fmt.Sprintf("the Scaler is paused without spec.replicas, and StatefulSet "+
			"%s has lost its record, so nothing says how many members come back after the pause. Set spec.replicas to that count", w.Name)})
	case w.isPauseLeft():
		return w.endLeftPause()
	case record == nil || taken:
		return w.takeOver()
	case w.deviatesFromFixedCount():
		return w.restoreFixedCount()
	case record.Phase == api.Failed:
		return w.decideFailed()
	}
	if p := w.removeNeedlessRetry(); p.Kind == plan.KindDo {
		return p
	}
	if p := w.deleteFinishedHooks(record); p.Kind == plan.KindDo {
		return p
	}
	return w.decideIdle()
}

// decideWithoutSet handles a set that does not exist, or is being deleted.
func (in Input) decideWithoutSet() plan.Plan {
	if p := in.deleteFinishedHooks(nil); p.Kind == plan.KindDo {
		return p
	}
	w := work{Input: in, scaler: scale.Owner(in.Scalers, nil)}
	if p := w.reconcileAutoscalers(); p.Kind == plan.KindDo {
		return p
	}
	if w.scaler == nil {
		return plan.Noop(api.SetGone)
	}
	if in.Set != nil {
		return w.report(&problem{reason: api.TargetDeleting,
			message: fmt.Sprintf("StatefulSet %s is being deleted. The Scaler scales the next StatefulSet with this name", in.Name)})
	}
	return w.report(&problem{reason: api.TargetMissing, message: fmt.Sprintf("StatefulSet %s does not exist. Create it, or delete the "+
		"Scaler", in.Name)})
}

// reportUnreadableRecord handles a set whose record cannot be read: it changes only the Scaler's status.
func (in Input) reportUnreadableRecord(err error) plan.Plan {
	w := work{Input: in, scaler: scale.Owner(in.Scalers, nil)}
	p := w.report(&problem{reason: api.StatusInvalid, message: err.Error()})
	if p.Kind == plan.KindDo {
		p.Actions = append(p.Actions, w.warn(api.StatusInvalid, "%v", err))
	}
	return p
}

// decideWithoutScaler handles a set whose Scaler was deleted. The set keeps its count and loses its record. A paused set keeps the record
// until it has members again: the record has the count that a visit starts.
func (w work) decideWithoutScaler() plan.Plan {
	if p := w.deleteFinishedHooks(nil); p.Kind == plan.KindDo || w.record == nil {
		return p // the record is removed last, because the sweep finds the set by its record
	}
	if w.record.Paused && statefulset.Replicas(w.Set) == 0 {
		if w.record.Active() { // an active record would block every other operation of the set
			next := w.stoppedRecord(api.ScalerGone, "the Scaler was deleted during the scaling")
			next.Adopts, next.Scaler.UID = true, ""
			return w.endScaling(next)
		}
		if w.record.Adopts && w.record.Scaler.UID == "" {
			return plan.Noop(api.SetPaused)
		}
		next := w.record.Clone()
		next.Adopts, next.Scaler.UID = true, "" // the admission policies then let every client scale the set
		next.Reason, next.Message = api.ScalerGone, "the Scaler was deleted while it was paused"
		return plan.Do(api.ScalerGone, operation.Store(w.Set, next).Actions()...)
	}
	return plan.Do(api.ScalerGone, plan.PatchOf(plan.StatefulSets, w.Set).Unannotate(api.ScaleAnnotation).Actions()...)
}

// decideNotOptedIn handles a set without the opt-in label. Its active scaling fails.
func (w work) decideNotOptedIn() plan.Plan {
	message := fmt.Sprintf("StatefulSet %s has not opted in. Opt in: kubectl label -n %s statefulset %s %s=true", w.Name, w.Namespace,
		w.Name, api.ManagedLabel)
	if w.record.Active() {
		return w.endScaling(w.stoppedRecord(api.NotManaged, message))
	}
	if p := w.deleteFinishedHooks(w.record); p.Kind == plan.KindDo {
		return p
	}
	return w.report(&problem{reason: api.NotManaged, message: message})
}

// takeOver stores the first record of the Scaler for the set, with the count that the set has.
func (w work) takeOver() plan.Plan {
	live := statefulset.Replicas(w.Set)
	next := w.newRecord(api.Succeeded, live, live)
	// A set at zero may be paused or asleep, and a set that was replaced may have lost the record of its pause. If the Scaler requests
	// members, the set counts as paused: the pre hook has not drained them.
	requested := ptr.Deref(w.scaler.Requested(), 0)
	next.Paused = next.Paused || w.scaler.Spec.Paused || live == 0 && requested > 0
	if next.Paused {
		next.PausedCount = max(requested, live, w.pausedCount())
	}
	next.Reason, next.Message = api.ScalerReady, fmt.Sprintf("Scaler %s scales the StatefulSet", w.scaler.Name)
	// no operation runs under this id; it must differ from the previous one
	next.Operation = api.OperationID(w.Set.UID, string(api.ScalerReady), next.Attempt)
	next.Finished = operation.Moment(w.Now)
	var warnings []plan.Action
	if previous := w.scaler.Status.Target; previous != nil && previous.UID != w.Set.UID {
		warnings = append(warnings, w.warn(api.TargetReplaced, "StatefulSet %s was created again (UID %s, before %s). Scaler %s scales "+
			"the new one", w.Name, w.Set.UID, previous.UID, w.scaler.Name))
	}
	return w.storeRecord(api.ScalerReady, next, warnings...)
}

// hasLostPausedCount reports whether the Scaler has scaled the set before, and no manifest or record has the count after the pause. The
// live count may be the default of a manifest that has replaced the set.
func (w work) hasLostPausedCount() bool {
	return w.scaler.Spec.Paused && w.scaler.Status.Target != nil && w.scaler.Requested() == nil
}

// renewRecord stores the record with the UID of the set, which a resize has created again. The admission policies let every client scale a
// set whose record has another UID.
func (w work) renewRecord() plan.Plan {
	next := w.record.Clone()
	next.Set.UID = w.Set.UID
	return w.storeRecord(api.StatusUpdated, next)
}

// decideIdle handles a set without an active scaling.
func (w work) decideIdle() plan.Plan {
	live, wanted := statefulset.Replicas(w.Set), w.scaler.Wanted()
	switch {
	case w.scaler.Spec.Mode.Unreadable():
		return w.report(&problem{reason: api.RequestInvalid, message: "spec.mode cannot be read. Check the quantities in its metrics; " +
			"1e1.5, for example, is invalid"})
	case wanted == nil && live == 0 && w.record.Paused: // a manifest without spec.replicas has replaced the Scaler during a pause
		return w.setRequestedCount(w.record.PausedCount)
	case wanted == nil:
		return w.setRequestedCount(live)
	case w.losesPausedMembers(*wanted):
		return w.beginScaling(w.record.PausedCount)
	case live != w.record.Target && live == *wanted:
		return w.recordLiveCount(live)
	case live != w.record.Target && w.adoptsLiveCount():
		return w.setRequestedCount(live, w.warn(api.CountAdopted, "another client has scaled the StatefulSet from %d to %d. Scaler %s "+
			"adopts that count", w.record.Target, live, w.scaler.Name))
	case live > w.record.Target && w.hasPreHook(): // an added member may have data by now, so it must be drained
		return w.beginScaling(*wanted)
	case live != w.record.Target:
		return w.revertCount(w.record.Target)
	case live != *wanted:
		return w.beginScaling(*wanted)
	case w.record.Paused && live > 0 && !w.scaler.Spec.Paused: // the pause has ended before it stopped the members
		next := w.record.Clone()
		next.Paused, next.PausedCount = false, 0
		return w.storeRecord(api.StatusUpdated, next)
	case w.record.Adopts != w.acceptsOtherClients():
		next := w.record.Clone()
		next.Adopts = !next.Adopts
		return w.storeRecord(api.StatusUpdated, next)
	}
	return w.report(nil)
}
