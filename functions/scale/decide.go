package scale

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/events"
	"drydock.dev/shared/members"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/podend"
	"drydock.dev/shared/scaling"
	"drydock.dev/shared/statefulset"
)

// Input is everything that Decide depends on.
type Input struct {
	Now             time.Time
	Namespace, Name string
	Set             *appsv1.StatefulSet // nil if it does not exist
	// Members has what the ledger needs besides the set.
	Members members.Facts
	// Scalers are the Scalers whose target is the set.
	Scalers []*v1alpha1.Scaler
	// Jobs are the hook Jobs of the set's scalings.
	Jobs []*batchv1.Job
	// Namesake is the Job of another client with the name of the Job that the current hook needs; nil if the name is free.
	Namesake *batchv1.Job
	// Autoscalers are the HorizontalPodAutoscalers named after the Scaler that scales the set, and after Scalers with the condition
	// Autoscaled.
	Autoscalers []*autoscalingv2.HorizontalPodAutoscaler
	// AutoscalerError is why a write of an autoscaler failed during this event; empty if none did.
	AutoscalerError string
	// HookPods are the pods of the hook Job that has ended in the current phase.
	HookPods []*corev1.Pod
	// Kills has the Events about the ends of HookPods whose success they decide, and says why HookPods may be incomplete.
	Kills podend.Kills
	// Records are the records of stops of sets with this name. They are read if the set may have one, or is gone.
	Records []*appsv1.ControllerRevision
	// RecordsKept is true if the API server rejected the deletion of one of them during this event.
	RecordsKept bool
	// Rejected is why the API server permanently rejected a write during this event; empty if it did not.
	Rejected string
	// RejectedPlan is the reason of the plan with that write.
	RejectedPlan api.Reason
	// Forbidden is true if the rejection is a 403 from a quota, an admission webhook or a policy, which may pass later.
	Forbidden bool
	// RefusedStatusOf is the name of the Scaler whose status the API server rejected during this event; empty if it did not.
	RefusedStatusOf string
	// RetryNotRemovable is true if the API server rejected the removal of a retry annotation during this event.
	RetryNotRemovable bool
	// Answer is the answer of a user's function to a hook request; nil if the event carries none.
	Answer *events.HookAnswer
	// Key is a random string, new for each event. A hook request that Decide sends carries it, and a valid answer repeats it.
	Key string
	// Retry is true if the event asks for a retry of a failed scaling.
	Retry    bool
	Settings api.Settings
	// Trace is the traceparent for an operation that begins with this event; empty if tracing is off.
	Trace string
}

// mayBeginScaling reports whether this event may begin a scaling.
func (in Input) mayBeginScaling() bool {
	return in.Set != nil && len(in.Scalers) > 0 && !operation.Of(in.Set).Scaling()
}

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
	if p := w.counts().reconcileAutoscalers(); p.Kind == plan.KindDo {
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
	case record == nil && w.stops().mayRestoreStop():
		return w.stops().tidyStop(members.NoStep)
	case record != nil && record.Set.UID != in.Set.UID:
		return w.renewRecord()
	case taken && record.Active():
		return w.endScaling(w.stoppedRecord(api.ScalerGone, "the Scaler was deleted during the scaling"))
	case record.Active():
		return w.progress().advance()
	case w.stops().stopStep().ChangesNoCount(): // also before and during a resize, which may create the set again
		return w.stops().tidyStop(w.stops().stopStep())
	case w.Rejected != "": // no scaling is active that could fail
		return w.report(&problem{reason: api.Rejected, message: rejectionPrefix + in.Rejected})
	case operation.Of(in.Set).Busy(api.KindScale):
		return w.report(&problem{reason: api.InProgress, message: "another operation is active on the StatefulSet. The Scaler waits " +
			"until it ends", temporary: true})
	case record == nil || taken:
		return w.takeOver()
	case w.counts().deviatesFromFixedCount():
		return w.counts().restoreFixedCount()
	case record.Phase == api.Failed:
		return w.progress().decideFailed()
	}
	if p := w.progress().removeNeedlessRetry(); p.Kind == plan.KindDo {
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
	if p := w.counts().reconcileAutoscalers(); p.Kind == plan.KindDo {
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
		return w.stops().leaveStopped()
	}
	if p := w.stops().keepStop(); p.Kind == plan.KindDo {
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
	if p := w.stops().keepStop(); p.Kind == plan.KindDo {
		return p
	}
	return w.report(&problem{reason: api.NotManaged, message: message})
}

// takeOver stores the first record of the Scaler for the set, with the count that the set has.
func (w work) takeOver() plan.Plan {
	live := statefulset.Replicas(w.Set)
	if stored, _ := members.StoredStop(w.Set, w.Records); stored != nil && w.scaler.Requested() == nil && stored.Replicas > live {
		return w.counts().setRequestedCount(stored.Replicas) // a manifest with another count has replaced the set during a pause
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
	live, wanted, step := statefulset.Replicas(w.Set), w.wanted(), w.stops().stopStep()
	if p := w.stops().tidyStop(step); p.Kind == plan.KindDo {
		return p
	}
	switch {
	case w.scaler.Spec.Mode.Unreadable():
		return w.report(&problem{reason: api.RequestInvalid, message: "spec.mode cannot be read. Check the quantities in its metrics; " +
			"1e1.5, for example, is invalid"})
	case wanted == nil && w.pausedCount() > 0: // a manifest without spec.replicas has replaced the Scaler during a pause
		return w.counts().setRequestedCount(w.pausedCount())
	case wanted == nil:
		return w.counts().setRequestedCount(live)
	case step == members.StartPods && w.held() && w.stops().hasStopOfSleep(): // the sleep is over, and its Scaler is paused
		return w.stops().keepStopForScaler()
	case w.stop.Pending() && *wanted == 0 && !w.held() && live == 0:
		if p := w.stops().giveUpStopped(); p.Kind == plan.KindDo {
			return p
		}
	case w.losesPausedMembers(*wanted):
		return w.progress().beginScaling(w.pausedCount())
	case w.record.Paused && live > 0 && !w.held(): // others have started the pods, or the pause has ended before it stopped them
		next := w.record.Clone()
		next.Paused, next.Previous, next.Target = false, live, live
		return w.storeRecord(api.StatusUpdated, next)
	case live != w.record.Target && live == *wanted:
		return w.progress().recordLiveCount(live)
	case live != w.record.Target && w.adoptsLiveCount():
		return w.counts().setRequestedCount(live, w.warn(api.CountAdopted, "another client has scaled the StatefulSet from %d to %d. Scaler %s "+
			"adopts that count", w.record.Target, live, w.scaler.Name))
	case live > w.record.Target && w.scaleHooks().hasPreHook(): // an added member may have data by now, so it must be drained
		return w.progress().beginScaling(*wanted)
	case live != w.record.Target:
		return w.counts().revertCount(w.record.Target)
	case live != *wanted:
		return w.progress().beginScaling(*wanted)
	case w.record.Adopts != w.acceptsOtherClients():
		next := w.record.Clone()
		next.Adopts = !next.Adopts
		return w.storeRecord(api.StatusUpdated, next)
	}
	return w.report(nil)
}

// work is an Input with the record of the set's scaling and the Scaler that scales the set.
type work struct {
	Input
	record *api.Scale
	scaler *v1alpha1.Scaler // nil if the set has no Scaler
	stop   *api.Stop        // nil if the set has none
}

// held reports whether the set must have no pods now, although its Scaler requests some: the Scaler is paused, or the set sleeps.
func (w work) held() bool {
	return w.scaler.Spec.Paused || members.Asleep(w.Set)
}

// wanted returns the count that the set must have now: zero while it is held, nil if the Scaler takes over the count of the set.
func (w work) wanted() *int32 {
	if w.held() && w.scaler.Spec.Replicas != nil {
		return new(int32)
	}
	return w.scaler.Spec.Replicas
}

// wantedNow is wanted for the status, also without a set.
func (w work) wantedNow() *int32 {
	if w.Set == nil {
		return nil
	}
	return w.wanted()
}

// adoptsLiveCount reports whether spec.replicas of the Scaler follows the count of another client. It does not while the set is
// held, and not with a fixed count.
func (w work) adoptsLiveCount() bool {
	return w.acceptsOtherClients() && !w.held()
}

// acceptsOtherClients reports whether the conflict policy is adopt. A fixed count overrides the policy.
func (w work) acceptsOtherClients() bool {
	return w.scaler.Spec.ConflictPolicy == v1alpha1.ConflictAdopt && scaling.Fixed(w.scaler) == nil
}
