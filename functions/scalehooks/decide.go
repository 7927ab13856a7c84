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

// Input is what Decide decides on.
type Input struct {
	Now             time.Time
	Namespace, Name string
	Set             *appsv1.StatefulSet // nil: it does not exist
	// Scalers whose target is the set.
	Scalers []*v1alpha1.Scaler
	// Jobs are the hooks of the set's scalings.
	Jobs []*batchv1.Job
	// Autoscalers have the names of Scalers: of the Scaler that has the set, and of Scalers with the condition Autoscaled.
	Autoscalers []*autoscalingv2.HorizontalPodAutoscaler
	// Refused is why a write of an autoscaler failed in this event; empty if none did.
	Refused string
	// FailedPod is the latest pod of the Job that has failed in the present phase; nil if there is none, or it could not be read.
	FailedPod *corev1.Pod
	// Rejected is why the API server refused a write of this event for good; empty if it did not.
	Rejected string
	// Forbidden is true if that is a 403, which may pass: of a quota, an admission webhook or a policy.
	Forbidden bool
	// Unwritten is the Scaler whose status the API server refused to take in this event; empty if it did not.
	Unwritten string
	// RetryStays is true if the API server refused to remove a retry in this event.
	RetryStays bool
	// LeftBehind are the claims of members that the scaling has removed. They are read only while it waits for their cleanup.
	LeftBehind []string
	// Answer is what the event tells about a hook; nil for any other event.
	Answer *events.HookAnswer
	// Key is random, and new with each event. A request that Decide sends has it.
	Key string
	// Retry is true if the event asks to take up what has failed.
	Retry    bool
	Settings api.Settings
	// Trace is the traceparent of an operation that begins now; empty when tracing is off.
	Trace string
}

// mayBegin reports whether a scaling may begin with this event.
func (in Input) mayBegin() bool {
	return in.Set != nil && len(in.Scalers) > 0 && !operation.Of(in.Set).Scaling()
}

// work is an Input with what is known of its scaling.
type work struct {
	Input
	record *api.Scale
	scaler *v1alpha1.Scaler // the one that scales the set
}

// Decide is pure. It takes one step.
func Decide(in Input) plan.Plan {
	if in.Set == nil || in.Set.DeletionTimestamp != nil {
		return in.lost()
	}
	record, err := api.LoadScale(in.Set)
	if err != nil {
		return in.unreadable(err)
	}
	w := work{Input: in, record: record, scaler: scale.Owner(in.Scalers, record)}
	if p := w.autoscale(); p.Kind == plan.KindDo { // first: nothing that waits, or has failed, keeps an autoscaler of a paused Scaler
		return p
	}
	if w.scaler == nil {
		return w.unowned()
	}
	if w.Unwritten != "" && w.Unwritten != w.scaler.Name {
		w.Rejected = "" // that of a Scaler that scales nothing
	}
	switch taken := record != nil && record.Scaler.UID != w.scaler.UID; {
	case !statefulset.Managed(in.Set):
		return w.unmanaged()
	case taken && record.Active():
		return w.end(w.stop(api.ScalerGone, "the Scaler was deleted during the scaling"))
	case record.Active():
		return w.goOn()
	case w.Rejected != "": // nothing is under way that could be given up
		return w.report(&problem{reason: api.Rejected, message: refused + in.Rejected})
	case operation.Of(in.Set).Busy(api.KindScale):
		return w.report(&problem{reason: api.InProgress, message: "another operation has the StatefulSet; the Scaler waits for its end", waits: true})
	case record == nil || taken:
		return w.adopt()
	case w.strays():
		return w.fix()
	case record.Phase == api.Failed:
		return w.failed()
	case scale.Retried(w.scaler):
		return w.forgetRetry()
	}
	if p := w.tidy(record); p.Kind == plan.KindDo {
		return p
	}
	return w.rest()
}

// lost decides for a set that does not exist, or is being deleted.
func (in Input) lost() plan.Plan {
	if p := in.tidy(nil); p.Kind == plan.KindDo {
		return p
	}
	w := work{Input: in, scaler: scale.Owner(in.Scalers, nil)}
	if p := w.autoscale(); p.Kind == plan.KindDo {
		return p
	}
	if w.scaler == nil {
		return plan.Noop(api.SetGone)
	}
	if in.Set != nil {
		return w.report(&problem{reason: api.TargetDeleting,
			message: fmt.Sprintf("StatefulSet %s is being deleted; the Scaler scales the next one of that name", in.Name)})
	}
	return w.report(&problem{reason: api.TargetMissing, message: fmt.Sprintf("there is no StatefulSet %s; create it, or delete the Scaler", in.Name)})
}

// unreadable decides for a set whose record cannot be read.
func (in Input) unreadable(err error) plan.Plan {
	w := work{Input: in, scaler: scale.Owner(in.Scalers, nil)}
	p := w.report(&problem{reason: api.StatusInvalid, message: err.Error()})
	if p.Kind == plan.KindDo {
		p.Actions = append(p.Actions, w.warn(api.StatusInvalid, "%v", err))
	}
	return p
}

// unowned decides for a set whose Scaler was deleted. The set stays as it is, and its record is removed. A paused set keeps the record
// until it has members again: without the record, cleanup-pod would take the members for removed, and clean up their claims.
func (w work) unowned() plan.Plan {
	if p := w.tidy(nil); p.Kind == plan.KindDo || w.record == nil {
		return p // the record goes last, since it is by that that the sweep finds the set
	}
	if w.record.Paused && statefulset.Replicas(w.Set) == 0 {
		if w.record.Active() { // an active record would keep the set from every other operation
			next := w.stop(api.ScalerGone, "the Scaler was deleted during the scaling")
			next.Adopts = true
			return w.end(next)
		}
		if w.record.Adopts {
			return plan.Noop(api.SetPaused)
		}
		next := w.record.Clone()
		next.Adopts = true // from now on the policies let every client scale the set
		return plan.Do(api.ScalerGone, operation.Store(w.Set, next).Actions()...)
	}
	return plan.Do(api.ScalerGone, plan.PatchOf(plan.StatefulSets, w.Set).Unannotate(api.ScaleAnnotation).Actions()...)
}

func (w work) unmanaged() plan.Plan {
	message := fmt.Sprintf("StatefulSet %s has not opted in: kubectl label -n %s statefulset %s %s=true", w.Name, w.Namespace, w.Name, api.ManagedLabel)
	if w.record.Active() {
		return w.end(w.stop(api.NotManaged, message))
	}
	if p := w.tidy(w.record); p.Kind == plan.KindDo {
		return p
	}
	return w.report(&problem{reason: api.NotManaged, message: message})
}

// stop returns the record of a scaling that ends at once. One that was given up before has failed there: no retry begins with its hook for a
// failure.
func (w work) stop(reason api.Reason, message string) *api.Scale {
	next := operation.Fail(w.record, api.Failed, w.Now, reason, message)
	if w.record.Phase == api.Failing {
		next.FailedAt = w.record.FailedAt
	}
	return next
}

// adopt begins to look after the set, with the count that it has.
func (w work) adopt() plan.Plan {
	live := statefulset.Replicas(w.Set)
	next := w.fresh(api.Succeeded, live, live)
	// Without the record of a pause, members that the Scaler wants back pass for away, so that cleanup-pod deletes none of their claims.
	next.Paused = next.Paused || w.record == nil && live == 0 && ptr.Deref(w.scaler.Spec.Replicas, 0) > 0
	next.Reason, next.Message = api.ScalerReady, fmt.Sprintf("Scaler %s looks after the StatefulSet", w.scaler.Name)
	next.Operation = api.OperationID(w.Set.UID, string(api.ScalerReady), next.Attempt) // it is none, and not the one before
	next.Finished = operation.Moment(w.Now)
	var notes []plan.Action
	if known := w.scaler.Status.Target; known != nil && known.UID != w.Set.UID {
		notes = append(notes, w.warn(api.TargetReplaced, "StatefulSet %s is another one than before (UID %s, was %s); Scaler %s looks after it from now on",
			w.Name, w.Set.UID, known.UID, w.scaler.Name))
	}
	return w.store(api.ScalerReady, next, notes...)
}

// rest decides for a set without a scaling under way.
func (w work) rest() plan.Plan {
	live, wanted := statefulset.Replicas(w.Set), w.scaler.Wanted()
	switch {
	case w.scaler.Spec.Mode.Unreadable():
		return w.report(&problem{reason: api.RequestInvalid, message: "spec.mode cannot be read; look at the quantities in its metrics, such as 1e1.5"})
	case wanted == nil && live == 0 && w.record.Paused: // a manifest without a count has replaced the Scaler
		return w.wish(w.record.Previous)
	case wanted == nil:
		return w.wish(live)
	case live != w.record.Target && live == *wanted:
		return w.settle(live)
	case live != w.record.Target && w.adopts():
		return w.wish(live, w.warn(api.CountAdopted, "another client has scaled the StatefulSet from %d to %d; Scaler %s wants that count now",
			w.record.Target, live, w.scaler.Name))
	case live > w.record.Target && w.drains(): // a member that was added may have data by now
		return w.begin(*wanted)
	case live != w.record.Target:
		return w.putBack(w.record.Target)
	case live != *wanted:
		return w.begin(*wanted)
	case w.record.Adopts != w.yields():
		next := w.record.Clone()
		next.Adopts = !next.Adopts
		return w.store(api.StatusUpdated, next)
	}
	return w.report(nil)
}

// drains reports whether no member may be removed without a hook before.
func (w work) drains() bool { return w.scaler.Spec.Hooks.Pre != nil }

// adopts reports whether another client's count becomes spec.replicas. It does not during a pause, and with a fixed count.
func (w work) adopts() bool {
	return w.yields() && !w.scaler.Spec.Paused
}

// yields reports whether the conflict policy lets other clients decide. A fixed count leaves nothing to decide.
func (w work) yields() bool {
	return w.scaler.Spec.ConflictPolicy == v1alpha1.ConflictAdopt && scale.Fixed(w.scaler) == nil
}

// strays reports whether the Scaler has a fixed count and asks for another one.
func (w work) strays() bool {
	fixed := scale.Fixed(w.scaler)
	return fixed != nil && (w.scaler.Spec.Replicas == nil || *w.scaler.Spec.Replicas != *fixed)
}

// fix makes the fixed count the one that is wanted. It warns if another client has asked for another count, and not the mode has changed.
func (w work) fix() plan.Plan {
	fixed, asked := *scale.Fixed(w.scaler), w.scaler.Spec.Replicas
	var notes []plan.Action
	if asked != nil && *asked != w.record.Target && !w.scaler.Spec.Paused {
		notes = append(notes, w.warn(api.CountFixed, "another client has asked for %d members; Scaler %s has the fixed count %d. "+
			"Change spec.mode of the Scaler instead", *asked, w.scaler.Name, fixed))
	}
	p := w.wish(fixed, notes...)
	p.Reason = api.CountFixed
	return p
}

// wish writes the count to spec.replicas of the Scaler.
func (w work) wish(count int32, notes ...plan.Action) plan.Plan {
	patch := plan.PatchOf(plan.Scalers, w.scaler).Replace("/spec/replicas", count, fmt.Sprintf("replicas = %d", count))
	return plan.Do(api.CountAdopted, append(patch.Actions(), notes...)...)
}

// settle stores that the set has the count that the Scaler wants, so there is no scaling. Another client has scaled it.
func (w work) settle(live int32) plan.Plan {
	next := w.fresh(api.Succeeded, live, live)
	next.Reason, next.Message = api.CountAdopted, fmt.Sprintf("the StatefulSet has the %d members that are wanted", live)
	next.Finished = operation.Moment(w.Now)
	return w.store(api.CountAdopted, next)
}

// begin stores the record of the scaling before it changes anything. The target stays as it is until the scaling ends.
func (w work) begin(target int32) plan.Plan {
	if target == 0 && w.scaler.Spec.Paused && w.losesClaims() {
		return w.report(&problem{reason: api.PauseDeletesClaims, message: w.keepClaims()})
	}
	if err := w.checkHooks(); err != nil {
		return w.report(&problem{reason: api.HookInvalid, message: err.Error()})
	}
	if gone := statefulset.Replicas(w.Set) - target; w.drains() && gone > resources.MostOrdinals {
		return w.report(&problem{reason: api.HookInvalid, message: fmt.Sprintf("the hook can be told of %d members that go, and not of %d; scale down in smaller steps",
			resources.MostOrdinals, gone)})
	}
	next := w.enter(w.fresh(api.PreScaling, statefulset.Replicas(w.Set), target), api.PreScaling)
	next.Reason, next.Message = api.ScalingStarted, fmt.Sprintf("scaling from %d to %d", next.Previous, next.Target)
	return w.store(api.ScalingStarted, next, w.tell(next, false))
}

// fresh is a record of the next operation.
func (w work) fresh(phase api.Phase, previous, target int32) *api.Scale {
	next := &api.Scale{
		Header: api.Header{Version: api.RecordVersion, Kind: api.KindScale, Phase: phase, Request: fmt.Sprint(target), Attempt: 1,
			Set: api.SetRef{Name: w.Set.Name, UID: w.Set.UID}, Started: *operation.Moment(w.Now), Trace: w.Trace},
		Scaler: api.ScalerRef{Name: w.scaler.Name, UID: w.scaler.UID}, Previous: previous, Target: target, Start: statefulset.Start(w.Set),
	}
	next.Adopts = w.yields()
	next.Paused = target == 0 && w.scaler.Spec.Paused
	if w.record != nil {
		next.Attempt, next.Reverts = w.record.Attempt+1, w.record.Reverts
		// Members stay away until the count rises: a scaling up that fails before that has removed none.
		next.Paused = next.Paused || w.record.Paused && (target > previous || target == 0 && previous == 0)
	}
	// A user may remove the record, and attempts count from 1 again: the time keeps the operations apart.
	next.Operation = api.OperationID(w.Set.UID, fmt.Sprintf("%s to %d at %d", api.KindScale, target, next.Started.Unix()), next.Attempt)
	return next
}

// failed decides for a scaling that was given up: nothing happens until its user asks for a retry.
func (w work) failed() plan.Plan {
	if !scale.Retried(w.scaler) && !w.Retry && !w.resumes() {
		if p := w.tidy(w.record); p.Kind == plan.KindDo {
			return p
		}
		return w.report(nil)
	}
	wanted, live := ptr.Deref(w.scaler.Wanted(), w.record.Target), statefulset.Replicas(w.Set)
	if wanted != w.record.Target || w.moved() || !failsAt(w.record.FailedAt) { // the hooks have run for other members, or the record does not say for which
		if wanted == live {
			return w.settle(live)
		}
		return w.begin(wanted)
	}
	if err := w.checkHooks(); err != nil {
		return w.report(&problem{reason: api.HookInvalid, message: err.Error()})
	}
	next := w.enter(w.fresh(w.record.FailedAt, w.record.Previous, w.record.Target), w.record.FailedAt)
	next.Reason, next.Message = api.Retrying, fmt.Sprintf("taken up again at %s", stages[next.Phase])
	return w.store(api.Retrying, next, w.tell(next, false))
}

// resumes reports whether the scaling that has failed was a pause, and the Scaler is not paused any more: the members come back, as they do after
// a pause that has not failed. idle-timeout wakes a set by that.
func (w work) resumes() bool {
	return w.record.Paused && w.record.Target == 0 && !w.scaler.Spec.Paused && ptr.Deref(w.scaler.Spec.Replicas, 0) > 0
}

// failsAt reports whether a scaling can fail in the phase. A record that another client has written may name any.
func failsAt(phase api.Phase) bool {
	return phase == api.PreScaling || phase == api.Scaling || phase == api.PostScaling
}

// moved reports whether the set has other members than the failed scaling has left it with.
func (w work) moved() bool {
	is := w.record.Target
	if w.record.FailedAt == api.PreScaling {
		is = w.record.Previous
	}
	return statefulset.Replicas(w.Set) != is || statefulset.Start(w.Set) != w.record.Start
}

// forgetRetry removes a retry that is taken, or not needed.
func (w work) forgetRetry() plan.Plan {
	return plan.Do(api.NothingFailed, plan.PatchOf(plan.Scalers, w.scaler).Unannotate(api.RetryAnnotation).Actions()...)
}

// end stores a record in a terminal phase.
func (w work) end(next *api.Scale) plan.Plan {
	next.Ask, next.CleansUp = nil, false
	p := w.store(next.Reason, next, w.tell(next, next.Phase == api.Failed))
	if next.Phase == api.Failed {
		return p.Then(events.OperationFailed, next.Operation).For(api.KindScale)
	}
	return p.Then(events.ScaleCompleted, next.Operation)
}

// store patches the record into the set, and then tells the Scaler's user. If a write fails, the writes after the notes
// are skipped, and the next look makes up for them.
func (w work) store(reason api.Reason, next *api.Scale, notes ...plan.Action) plan.Plan {
	actions := append(operation.Store(w.Set, next).Actions(), notes...)
	w.record = next
	return plan.Do(reason, append(actions, w.statuses(nil)...)...)
}

func (w work) tell(next *api.Scale, warning bool) plan.Action {
	return operation.NoteOf(w.Set, next, warning)
}

// warn makes a Kubernetes Event on the set.
func (w work) warn(reason api.Reason, message string, args ...any) plan.Action {
	note := plan.Note{Warning: true, Reason: reason, Message: fmt.Sprintf(message, args...), UID: w.Set.UID}
	if w.record != nil {
		note.Operation = w.record.Operation
	}
	return plan.Record(w.Namespace, w.Name, note)
}
