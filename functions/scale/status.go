package scale

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/members"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/scaling"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/text"
)

// stages maps the phase of a scaling to the stage that the Scaler's status shows.
var stages = map[api.Phase]v1alpha1.Stage{api.PreScaling: v1alpha1.StagePreScaling, api.Scaling: v1alpha1.StageScaling,
	api.PostScaling: v1alpha1.StagePostScaling, api.Failing: v1alpha1.StageFailed, api.Failed: v1alpha1.StageFailed,
	api.Succeeded: v1alpha1.StageIdle}

// report updates the status of the set's Scalers. A nil problem means that the Scaler has nothing to do.
func (w work) report(why *problem) plan.Plan {
	if actions := w.statuses(why); len(actions) > 0 {
		return plan.Do(api.StatusUpdated, actions...)
	}
	if why != nil {
		return plan.Noop(why.reason)
	}
	return plan.Noop(api.UpToDate)
}

// statuses returns the writes that update the status of each Scaler of the set. It returns none for statuses that are up to date.
func (w work) statuses(why *problem) []plan.Action {
	var actions []plan.Action
	for _, s := range w.Scalers {
		if s.DeletionTimestamp != nil || w.RefusedStatusOf != "" && s != w.scaler {
			continue
		}
		next := w.statusOfSecondScaler(s)
		if s == w.scaler {
			next = w.status(cmp.Or(why, w.counts().autoscalerProblem()))
		}
		w.counts().setAutoscaledCondition(s, next)
		if !equality.Semantic.DeepEqual(*next, s.Status) {
			actions = append(actions, plan.PatchOf(plan.ScalerStatus, s).Replace("/status", next, "status").Actions()...)
		}
	}
	return actions
}

// statusOfSecondScaler returns the status of a Scaler whose set is scaled by another Scaler.
func (w work) statusOfSecondScaler(s *v1alpha1.Scaler) *v1alpha1.ScalerStatus {
	next := s.Status.DeepCopy()
	next.ObservedGeneration, next.Stage, next.Failed = s.Generation, v1alpha1.StageIdle, nil
	setConditions(w.Input, s, next, &problem{reason: api.TargetTaken,
		message: fmt.Sprintf("Scaler %s already scales StatefulSet %s. Delete one of the two Scalers", w.scaler.Name, w.Name)}, nil, nil)
	return next
}

// status returns the status of the Scaler that scales the set.
func (w work) status(why *problem) *v1alpha1.ScalerStatus {
	next := w.scaler.Status.DeepCopy()
	next.ObservedGeneration, next.Stage, next.Failed = w.scaler.Generation, v1alpha1.StageIdle, nil
	next.Replicas = 0
	if w.Set != nil {
		next.Replicas = w.Set.Status.Replicas
		next.Selector = metav1.FormatLabelSelector(w.Set.Spec.Selector)
	}
	if record := w.record; record != nil {
		next.Target = &v1alpha1.TargetReference{Name: w.Set.Name, UID: w.Set.UID}
		next.Stage, next.Operation = stages[record.Phase], record.Operation
		next.Previous, next.Desired = ptr.To(record.Previous), ptr.To(record.Target)
		if record.FailedAt != "" {
			next.Failed = &v1alpha1.ScalerFailure{FailedAt: stages[record.FailedAt], Reason: string(record.Reason)}
		}
		w.addToHistory(next)
	}
	if next.Stage != w.scaler.Status.Stage {
		next.LastTransitionTime = operation.Moment(w.Now)
	}
	setConditions(w.Input, w.scaler, next, why, w.record, w.wantedNow())
	return next
}

// addToHistory adds a finished scaling to the history in the status, once, and shortens the history to its limit.
func (w work) addToHistory(next *v1alpha1.ScalerStatus) {
	record := w.record
	ended := record.Phase == api.Failed || record.Phase == api.Succeeded && record.Reason == api.ScalingCompleted
	known := slices.ContainsFunc(next.History, func(r v1alpha1.ScalingResult) bool { return r.Operation == record.Operation })
	if ended && !known && record.Finished != nil {
		next.History = slices.Insert(next.History, 0, v1alpha1.ScalingResult{Operation: record.Operation,
			From: record.Previous, To: record.Target, Result: string(record.Phase), Finished: *record.Finished})
	}
	limit := 5
	if l := w.scaler.Spec.HistoryLimit; l != nil {
		limit = int(*l)
	}
	next.History = next.History[:min(len(next.History), limit)]
	if len(next.History) == 0 {
		next.History = nil
	}
}

// setConditions sets the conditions Healthy, Failed and Progressing in the status. Wanted is the count that the set must have now, or nil.
func setConditions(in Input, s *v1alpha1.Scaler, status *v1alpha1.ScalerStatus, why *problem, record *api.Scale,
	wanted *int32) {
	set := func(kind string, met bool, reason api.Reason, message string) {
		value := metav1.ConditionFalse
		if met {
			value = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{Type: kind, Status: value, ObservedGeneration: s.Generation,
			Reason: string(reason), Message: text.Clip(message, maxConditionMessage), LastTransitionTime: *operation.Moment(in.Now)})
	}
	failed := record != nil && (record.Phase == api.Failed || record.Phase == api.Failing)
	switch {
	case failed && why != nil && !why.temporary && scaling.Retried(s):
		set(v1alpha1.ConditionHealthy, false, why.reason, "the retry cannot begin: "+why.message)
		set(v1alpha1.ConditionFailed, true, why.reason, "the retry cannot begin: "+why.message)
	case failed:
		set(v1alpha1.ConditionHealthy, false, record.Reason, record.Message)
		set(v1alpha1.ConditionFailed, true, record.Reason, record.Message)
	case why != nil && !why.temporary:
		set(v1alpha1.ConditionHealthy, false, why.reason, why.message)
		set(v1alpha1.ConditionFailed, false, why.reason, why.message)
	default:
		set(v1alpha1.ConditionHealthy, true, api.ScalerReady, "the StatefulSet has the requested count, or is being scaled to it")
		set(v1alpha1.ConditionFailed, false, api.ScalerReady, "the latest scaling has not failed")
	}
	// A scaling that has yet to begin counts as Progressing: a client that waits for Progressing=False must wait for it, too.
	pending := !failed && in.Set != nil && wanted != nil && *wanted != statefulset.Replicas(in.Set)
	switch {
	case record.Active():
		set(v1alpha1.ConditionProgressing, true, record.Reason, record.Message)
	case why != nil:
		set(v1alpha1.ConditionProgressing, why.temporary && pending, why.reason, why.message)
	case pending:
		set(v1alpha1.ConditionProgressing, true, api.ScalingStarted, fmt.Sprintf("%d members are requested", *wanted))
	case in.Set != nil && members.Asleep(in.Set):
		set(v1alpha1.ConditionProgressing, false, api.StaysAsleep, fmt.Sprintf("asleep. %d members start again when they are needed",
			ptr.Deref(s.Spec.Replicas, 0)))
	case s.Spec.Paused && record != nil && record.Phase == api.Succeeded:
		set(v1alpha1.ConditionProgressing, false, api.SetPaused, fmt.Sprintf("paused. Set spec.paused to false to start %d members "+
			"again", ptr.Deref(s.Spec.Replicas, 0)))
	default:
		set(v1alpha1.ConditionProgressing, false, api.UpToDate, "no scaling is in progress")
	}
}

// wait updates the Scalers' status, or returns a plan that waits if the status is up to date.
func (w work) wait(reason api.Reason, detail string, args ...any) plan.Plan {
	if actions := w.statuses(nil); len(actions) > 0 {
		return plan.Do(api.StatusUpdated, actions...)
	}
	return plan.Wait(reason, detail, args...)
}
