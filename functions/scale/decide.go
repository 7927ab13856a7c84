package scale

import (
	"fmt"
	"slices"

	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/members"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/scaling"
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
	w := work{Input: in, record: record, scaler: scaling.Owner(in.Scalers, record), stop: api.LoadStop(in.Set)}
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
	case record == nil && w.mayRestoreStop():
		return w.tidyStop(members.NoStep)
	case record != nil && record.Set.UID != in.Set.UID:
		return w.renewRecord()
	case taken && record.Active():
		return w.endScaling(w.stoppedRecord(api.ScalerGone, "the Scaler was deleted during the scaling"))
	case record.Active():
		return w.advance()
	case w.stopStep().ChangesNoCount(): // also before and during a resize, which may create the set again
		return w.tidyStop(w.stopStep())
	case w.Rejected != "": // no scaling is active that could fail
		return w.report(&problem{reason: api.Rejected, message: rejectionPrefix + in.Rejected})
	case operation.Of(in.Set).Busy(api.KindScale):
		return w.report(&problem{reason: api.InProgress, message: "another operation is active on the StatefulSet. The Scaler waits " +
			"until it ends", temporary: true})
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
	w := work{Input: in, scaler: scaling.Owner(in.Scalers, nil)}
	if p := w.reconcileAutoscalers(); p.Kind == plan.KindDo {
		return p
	}
	if p := in.deleteRecords(); p.Kind == plan.KindDo && in.Set == nil {
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
	w := work{Input: in, scaler: scaling.Owner(in.Scalers, nil)}
	p := w.report(&problem{reason: api.StatusInvalid, message: err.Error()})
	if p.Kind == plan.KindDo {
		p.Actions = append(p.Actions, w.warn(api.StatusInvalid, "%v", err))
	}
	return p
}

// decideWithoutScaler handles a set without a Scaler. If its Scaler was deleted, the set keeps its count, also that of a pause, and loses
// its record.
func (w work) decideWithoutScaler() plan.Plan {
	if w.record != nil {
		if p := w.deleteFinishedHooks(nil); p.Kind == plan.KindDo {
			return p // the record is removed last, because the sweep finds the set by its record
		}
		return plan.Do(api.ScalerGone, plan.PatchOf(plan.StatefulSets, w.Set).Unannotate(api.ScaleAnnotation).Actions()...)
	}
	if w.stop.Pending() && w.stop.Kind == api.KindScale && statefulset.Replicas(w.Set) == 0 {
		return w.leaveStopped()
	}
	if p := w.keepStop(); p.Kind == plan.KindDo {
		return p
	}
	return w.deleteFinishedHooks(nil)
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
	if p := w.keepStop(); p.Kind == plan.KindDo {
		return p
	}
	return w.report(&problem{reason: api.NotManaged, message: message})
}

// takeOver stores the first record of the Scaler for the set, with the count that the set has.
func (w work) takeOver() plan.Plan {
	live := statefulset.Replicas(w.Set)
	if stored, _ := members.StoredStop(w.Set, w.Records); stored != nil && w.scaler.Requested() == nil && stored.Replicas > live {
		return w.setRequestedCount(stored.Replicas) // a manifest with another count has replaced the set during a pause
	}
	next := w.newRecord(api.Succeeded, live, live)
	// A set at zero may be paused or asleep, and a set that was replaced may have lost the record of its pause. If the Scaler requests
	// members, the set counts as paused: the pre hook has not drained them.
	requested := ptr.Deref(w.scaler.Requested(), 0)
	next.Paused = next.Paused || w.held() || live == 0 && requested > 0
	next.Reason, next.Message = api.ScalerReady, fmt.Sprintf("Scaler %s scales the StatefulSet", w.scaler.Name)
	// no operation runs under this id; it must differ from the previous one
	next.Operation = api.OperationID(w.Set.UID, string(api.ScalerReady), next.Attempt)
	next.Finished = operation.Moment(w.Now)
	var warnings []plan.Action
	if previous := w.scaler.Status.Target; previous != nil && previous.UID != w.Set.UID {
		warnings = append(warnings, w.warn(api.TargetReplaced, "StatefulSet %s was created again (UID %s, before %s). Scaler %s scales "+
			"the new one", w.Name, w.Set.UID, previous.UID, w.scaler.Name))
	}
	if live > 0 || !next.Paused || w.stop.Pending() {
		return w.storeRecord(api.ScalerReady, next, warnings...)
	}
	stop := members.NextStop(w.Set, next.Operation, api.KindScale)
	stop.Replicas, stop.StoppedAt = requested, operation.Moment(w.Now)
	patch := operation.Store(w.Set, next).Annotate(api.StopAnnotation, stop.Encode())
	w.record, w.stop = next, stop
	return plan.Do(api.ScalerReady, slices.Concat(patch.Actions(), warnings, w.statuses(nil))...)
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
	live, wanted, step := statefulset.Replicas(w.Set), w.wanted(), w.stopStep()
	if p := w.tidyStop(step); p.Kind == plan.KindDo {
		return p
	}
	switch {
	case w.scaler.Spec.Mode.Unreadable():
		return w.report(&problem{reason: api.RequestInvalid, message: "spec.mode cannot be read. Check the quantities in its metrics; " +
			"1e1.5, for example, is invalid"})
	case wanted == nil && w.pausedCount() > 0: // a manifest without spec.replicas has replaced the Scaler during a pause
		return w.setRequestedCount(w.pausedCount())
	case wanted == nil:
		return w.setRequestedCount(live)
	case step == members.StartPods && w.held() && w.hasStopOfSleep(): // the sleep is over, and its Scaler is paused
		return w.keepStopForScaler()
	case w.stop.Pending() && *wanted == 0 && !w.held() && live == 0:
		if p := w.giveUpStopped(); p.Kind == plan.KindDo {
			return p
		}
	case w.losesPausedMembers(*wanted):
		return w.beginScaling(w.pausedCount())
	case w.record.Paused && live > 0 && !w.held(): // others have started the pods, or the pause has ended before it stopped them
		next := w.record.Clone()
		next.Paused, next.Previous, next.Target = false, live, live
		return w.storeRecord(api.StatusUpdated, next)
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
	case w.record.Adopts != w.acceptsOtherClients():
		next := w.record.Clone()
		next.Adopts = !next.Adopts
		return w.storeRecord(api.StatusUpdated, next)
	}
	return w.report(nil)
}
