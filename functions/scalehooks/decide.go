package scalehooks

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/scale"
	"drydock.dev/shared/statefulset"
)

// Input is everything that Decide depends on.
type Input struct {
	Now             time.Time
	Namespace, Name string
	Set             *appsv1.StatefulSet // nil if it does not exist
	// Scalers are the Scalers whose target is the set.
	Scalers []*v1alpha1.Scaler
	// Jobs are the hook Jobs of the set's scalings.
	Jobs []*batchv1.Job
	// Autoscalers are the HorizontalPodAutoscalers named after the Scaler that scales the set, and after Scalers with the condition
	// Autoscaled.
	Autoscalers []*autoscalingv2.HorizontalPodAutoscaler
	// AutoscalerError is why a write of an autoscaler failed during this event; empty if none did.
	AutoscalerError string
	// FailedPod is the latest failed pod of the hook Job that failed in the current phase. It is nil if there is none, or pods could not be
	// read.
	FailedPod *corev1.Pod
	// Rejection is why the API server permanently rejected a write during this event; empty if it did not.
	Rejection string
	// Forbidden is true if the rejection is a 403 from a quota, an admission webhook or a policy, which may pass later.
	Forbidden bool
	// RefusedStatusOf is the name of the Scaler whose status the API server rejected during this event; empty if it did not.
	RefusedStatusOf string
	// RetryNotRemovable is true if the API server rejected the removal of a retry annotation during this event.
	RetryNotRemovable bool
	// LeftoverClaims are the names of the removed members' claims. They are read only while the scaling waits for their cleanup.
	LeftoverClaims []string
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

// work is an Input with the record of the set's scaling and the Scaler that scales the set.
type work struct {
	Input
	record *api.Scale
	scaler *v1alpha1.Scaler // nil if the set has no Scaler
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
	w := work{Input: in, record: record, scaler: scale.Owner(in.Scalers, record)}
	// first: a paused Scaler loses its autoscaler even if its scaling waits or has failed
	if p := w.reconcileAutoscalers(); p.Kind == plan.KindDo {
		return p
	}
	if w.scaler == nil {
		return w.decideWithoutScaler()
	}
	if w.RefusedStatusOf != "" && w.RefusedStatusOf != w.scaler.Name {
		w.Rejection = "" // it concerns a Scaler that does not scale the set
	}
	switch taken := record != nil && record.Scaler.UID != w.scaler.UID; {
	case !statefulset.Managed(in.Set):
		return w.decideNotOptedIn()
	case taken && record.Active():
		return w.endScaling(w.stoppedRecord(api.ScalerGone, "the Scaler was deleted during the scaling"))
	case record.Active():
		return w.advance()
	case w.Rejection != "": // no scaling is active that could fail
		return w.report(&problem{reason: api.Rejected, message: rejectionPrefix + in.Rejection})
	case operation.Of(in.Set).Busy(api.KindScale):
		return w.report(&problem{reason: api.InProgress, message: "another operation is active on the StatefulSet. The Scaler waits " +
			"until it ends", temporary: true})
	case record == nil || taken:
		return w.takeOver()
	case w.deviatesFromFixedCount():
		return w.restoreFixedCount()
	case record.Phase == api.Failed:
		return w.decideFailed()
	case scale.Retried(w.scaler):
		return w.removeRetry()
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
// until it has members again: without it, cleanup-pod would consider the members removed and clean up their claims.
func (w work) decideWithoutScaler() plan.Plan {
	if p := w.deleteFinishedHooks(nil); p.Kind == plan.KindDo || w.record == nil {
		return p // the record is removed last, because the sweep finds the set by its record
	}
	if w.record.Paused && statefulset.Replicas(w.Set) == 0 {
		if w.record.Active() { // an active record would block every other operation of the set
			next := w.stoppedRecord(api.ScalerGone, "the Scaler was deleted during the scaling")
			next.Adopts = true
			return w.endScaling(next)
		}
		if w.record.Adopts {
			return plan.Noop(api.SetPaused)
		}
		next := w.record.Clone()
		next.Adopts = true // the admission policies then let every client scale the set
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

// stoppedRecord returns the record of a scaling that fails now, without the hook onFailure. If that hook was running, the record keeps the
// phase that failed before it: a retry begins there, never with the hook onFailure.
func (w work) stoppedRecord(reason api.Reason, message string) *api.Scale {
	next := operation.Fail(w.record, api.Failed, w.Now, reason, message)
	if w.record.Phase == api.Failing {
		next.FailedAt = w.record.FailedAt
	}
	return next
}

// takeOver stores the first record of the Scaler for the set, with the count that the set has.
func (w work) takeOver() plan.Plan {
	live := statefulset.Replicas(w.Set)
	next := w.newRecord(api.Succeeded, live, live)
	// A set at zero without a record may be paused: if the Scaler requests members, it counts as paused, so that cleanup-pod keeps their
	// claims.
	next.Paused = next.Paused || w.record == nil && live == 0 && ptr.Deref(w.scaler.Spec.Replicas, 0) > 0
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

// decideIdle handles a set without an active scaling.
func (w work) decideIdle() plan.Plan {
	live, wanted := statefulset.Replicas(w.Set), w.scaler.Wanted()
	switch {
	case w.scaler.Spec.Mode.Unreadable():
		return w.report(&problem{reason: api.RequestInvalid, message: "spec.mode cannot be read. Check the quantities in its metrics; " +
			"1e1.5, for example, is invalid"})
	case wanted == nil && live == 0 && w.record.Paused: // a manifest without spec.replicas has replaced the Scaler during a pause
		return w.setRequestedCount(w.record.Previous)
	case wanted == nil:
		return w.setRequestedCount(live)
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

// hasPreHook reports whether a hook must run before members are removed.
func (w work) hasPreHook() bool { return w.scaler.Spec.Hooks.Pre != nil }

// adoptsLiveCount reports whether spec.replicas of the Scaler follows the count of another client. It does not during a pause, and not with
// a fixed count.
func (w work) adoptsLiveCount() bool {
	return w.acceptsOtherClients() && !w.scaler.Spec.Paused
}

// acceptsOtherClients reports whether the conflict policy is adopt. A fixed count overrides the policy.
func (w work) acceptsOtherClients() bool {
	return w.scaler.Spec.ConflictPolicy == v1alpha1.ConflictAdopt && scale.Fixed(w.scaler) == nil
}

// deviatesFromFixedCount reports whether spec.replicas of the Scaler differs from its fixed count.
func (w work) deviatesFromFixedCount() bool {
	fixed := scale.Fixed(w.scaler)
	return fixed != nil && (w.scaler.Spec.Replicas == nil || *w.scaler.Spec.Replicas != *fixed)
}

// restoreFixedCount sets spec.replicas of the Scaler to the fixed count. It warns if another client has changed spec.replicas. It does not
// warn if spec.mode has changed.
func (w work) restoreFixedCount() plan.Plan {
	fixed, requested := *scale.Fixed(w.scaler), w.scaler.Spec.Replicas
	var warnings []plan.Action
	if requested != nil && *requested != w.record.Target && !w.scaler.Spec.Paused {
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
	patch := plan.PatchOf(plan.Scalers, w.scaler).Replace("/spec/replicas", count, fmt.Sprintf("replicas = %d", count))
	return plan.Do(api.CountAdopted, append(patch.Actions(), notes...)...)
}

// recordLiveCount stores that another client has already scaled the set to the requested count, so that no scaling is needed.
func (w work) recordLiveCount(live int32) plan.Plan {
	next := w.newRecord(api.Succeeded, live, live)
	next.Reason, next.Message = api.CountAdopted, fmt.Sprintf("the StatefulSet already has the requested %d members", live)
	next.Finished = operation.Moment(w.Now)
	return w.storeRecord(api.CountAdopted, next)
}

// beginScaling stores the record of a new scaling before anything else changes. The target does not change until the scaling ends.
func (w work) beginScaling(target int32) plan.Plan {
	if target == 0 && w.scaler.Spec.Paused && w.pauseDeletesClaims() {
		return w.report(&problem{reason: api.PauseDeletesClaims, message: w.pauseDeletesClaimsMessage()})
	}
	if err := w.validateHooks(); err != nil {
		return w.report(&problem{reason: api.HookInvalid, message: err.Error()})
	}
	if removed := statefulset.Replicas(w.Set) - target; w.hasPreHook() && removed > resources.MaxOrdinals {
		return w.report(&problem{reason: api.HookInvalid, message: fmt.Sprintf("the pre hook can be given at most %d members to remove, "+
			"not %d. "+
			"Scale down in smaller steps", resources.MaxOrdinals, removed)})
	}
	next := w.enterPhase(w.newRecord(api.PreScaling, statefulset.Replicas(w.Set), target), api.PreScaling)
	next.Reason, next.Message = api.ScalingStarted, fmt.Sprintf("scaling from %d to %d", next.Previous, next.Target)
	return w.storeRecord(api.ScalingStarted, next, w.eventFor(next, false))
}

// newRecord returns the record of the next operation.
func (w work) newRecord(phase api.Phase, previous, target int32) *api.Scale {
	next := &api.Scale{
		Header: api.Header{Version: api.RecordVersion, Kind: api.KindScale, Phase: phase, Request: fmt.Sprint(target), Attempt: 1,
			Set: api.SetRef{Name: w.Set.Name, UID: w.Set.UID}, Started: *operation.Moment(w.Now), Trace: w.Trace},
		Scaler: api.ScalerRef{Name: w.scaler.Name, UID: w.scaler.UID}, Previous: previous, Target: target, Start: statefulset.Start(w.Set),
	}
	next.Adopts = w.acceptsOtherClients()
	next.Paused = target == 0 && w.scaler.Spec.Paused
	if w.record != nil {
		next.Attempt, next.Reverts = w.record.Attempt+1, w.record.Reverts
		// A pause lasts until the count rises: a scale-up that fails before that has started no member.
		next.Paused = next.Paused || w.record.Paused && (target > previous || target == 0 && previous == 0)
	}
	// If a user removes the record, attempts count from 1 again. The time then keeps the operation ids different.
	next.Operation = api.OperationID(w.Set.UID, fmt.Sprintf("%s to %d at %d", api.KindScale, target, next.Started.Unix()), next.Attempt)
	return next
}

// decideFailed handles a failed scaling. It waits until a user asks for a retry, or until a failed pause ends.
func (w work) decideFailed() plan.Plan {
	if !scale.Retried(w.scaler) && !w.Retry && !w.pauseHasEnded() {
		if p := w.deleteFinishedHooks(w.record); p.Kind == plan.KindDo {
			return p
		}
		return w.report(nil)
	}
	wanted, live := ptr.Deref(w.scaler.Wanted(), w.record.Target), statefulset.Replicas(w.Set)
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

// pauseHasEnded reports whether the failed scaling was a pause, and the Scaler is no longer paused. The members then start again, as after
// a successful pause. idle-timeout wakes a set this way.
func (w work) pauseHasEnded() bool {
	return w.record.Paused && w.record.Target == 0 && !w.scaler.Spec.Paused && ptr.Deref(w.scaler.Spec.Replicas, 0) > 0
}

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

// removeRetry removes the retry annotation from the Scaler, because the retry has begun or is not needed.
func (w work) removeRetry() plan.Plan {
	return plan.Do(api.NothingFailed, plan.PatchOf(plan.Scalers, w.scaler).Unannotate(api.RetryAnnotation).Actions()...)
}

// endScaling stores a record in a terminal phase, and announces the end.
func (w work) endScaling(next *api.Scale) plan.Plan {
	next.HookRequests, next.CleansUp = nil, false
	p := w.storeRecord(next.Reason, next, w.eventFor(next, next.Phase == api.Failed))
	if next.Phase == api.Failed {
		return p.Then(events.OperationFailed, next.Operation).For(api.KindScale)
	}
	return p.Then(events.ScaleCompleted, next.Operation)
}

// storeRecord writes the record to the set, then the notes (Kubernetes Events), then the Scalers' status. If a write fails, the later
// writes are skipped, and the next event repeats them.
func (w work) storeRecord(reason api.Reason, next *api.Scale, notes ...plan.Action) plan.Plan {
	actions := append(operation.Store(w.Set, next).Actions(), notes...)
	w.record = next
	return plan.Do(reason, append(actions, w.statuses(nil)...)...)
}

// eventFor returns the Kubernetes Event that reports the record's state.
func (w work) eventFor(next *api.Scale, warning bool) plan.Action {
	return operation.NoteOf(w.Set, next, warning)
}

// warn returns a Warning, a Kubernetes Event on the set.
func (w work) warn(reason api.Reason, message string, args ...any) plan.Action {
	note := plan.Note{Warning: true, Reason: reason, Message: fmt.Sprintf(message, args...), UID: w.Set.UID}
	if w.record != nil {
		note.Operation = w.record.Operation
	}
	return plan.Record(w.Namespace, w.Name, note)
}
