// Package release decides how to release everything that Drydock holds before it is uninstalled: held pods, sleeping sets, paused owners,
// labels and finalizers. It is pure.
package release

import (
	"fmt"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// Decide returns the writes to make now, and the objects that are left, each with advice. Repeating the writes is safe.
func Decide(in Input) (actions []plan.Action, left []string) {
	if why := whyNotYet(in); why != "" {
		if in.Holds {
			actions, left = releaseHolds(in)
		}
		return actions, append(left, why)
	}
	holds, left := releaseHolds(in)
	var operatorFirst bool
	if in.Set != nil {
		actions, operatorFirst = releaseSet(in)
	}
	if operatorFirst {
		left = append(left, "its operator must start it. Run the command again: it sets the replicas if the operator has not")
	} else {
		for _, record := range in.Stops {
			actions = append(actions, plan.Delete(plan.ControllerRevisions, record))
		}
	}
	for _, o := range in.Owners {
		resumes, problem := resume(o)
		actions = append(actions, resumes...)
		if problem != "" {
			left = append(left, problem)
		}
	}
	return append(holds, actions...), left
}

// Note returns a fact about a released set that its user should know, or "". If a user has paused the Scaler of a set, its replicas are not
// restored: the user wants none.
func Note(in Input) string {
	if in.Set == nil {
		return ""
	}
	scale := operation.Of(in.Set).Scale
	if scale == nil || in.stop() != nil || !scale.Paused || statefulset.Replicas(in.Set) > 0 {
		return ""
	}
	return fmt.Sprintf("its Scaler %s is paused, so it stays at 0 replicas. Without Drydock, start it with: "+
		"kubectl scale -n %s sts %s --replicas=COUNT", scale.Scaler.Name, in.Namespace, in.Name)
}

// whyNotYet says why the set cannot be released yet; empty if it can.
func whyNotYet(in Input) string {
	if in.Set == nil {
		if len(in.Journals) > 0 {
			return "the StatefulSet was deleted during a resize. Wait until Drydock has ended the resize" + in.heldWords()
		}
		return ""
	}
	records := operation.Of(in.Set)
	resize := records.Resize
	switch {
	case records.ResizeErr != nil:
		return records.ResizeErr.Error()
	case resize.Active():
		return fmt.Sprintf("operation %s runs, in phase %s. Wait for its end, or end it with: %s", resize.Operation, resize.Phase,
			in.abort()) + in.heldWords()
	case records.CleaningUp():
		return "a cleanup runs. Wait for its end, or end it, which keeps its claims, with: " + in.abort()
	case records.Scale.Active() && !in.Holds: // its hooks may be moving data away from members that it removes
		return "a scaling runs. Wait for its end" + ifFunctionsRun
	case in.Set.DeletionTimestamp != nil:
		return "it is being deleted. Wait until the deletion has ended"
	}
	if records.SleepErr != nil {
		return records.SleepErr.Error()
	}
	return ""
}

// abort returns the command that ends the set's operation.
func (in Input) abort() string {
	return fmt.Sprintf("kubectl drydock abort -n %s sts/%s", in.Namespace, in.Name)
}

// ifFunctionsRun ends the advice to wait.
const ifFunctionsRun = ". If Drydock's functions do not run any more, release the set with --holds"

// releaseSet wakes the set and removes its requests, and Drydock's labels and finalizers, in one patch. If an operator has stopped the set
// for Drydock and has not been released yet, it returns operatorFirst: the operator must start the set.
func releaseSet(in Input) (actions []plan.Action, operatorFirst bool) {
	sleep, stop := operation.Of(in.Set).Sleep, in.stop()
	byOperator := sleep.Active() && sleep.OwnerStops
	atZero := statefulset.Replicas(in.Set) == 0
	if byOperator && atZero && in.hasPausedOwner() {
		return nil, true
	}
	patch, starts := plan.PatchOf(plan.StatefulSets, in.Set), int32(0)
	switch {
	case atZero && stop.Pending():
		starts = max(stop.Replicas, 1)
	case atZero && byOperator:
		starts = max(sleep.Replicas, 1)
	}
	if starts > 0 {
		plan.Set(patch, "/spec/replicas", 0, starts, fmt.Sprintf("replicas 0 to %d", starts))
	}
	if stop != nil {
		podsEnd := starts == 0 && in.Set.Status.Replicas > statefulset.Replicas(in.Set)
		if stop.WhenScaled != "" && statefulset.WhenScaled(in.Set) == statefulset.Retain && !podsEnd { // Delete would take their claims
			plan.Set(patch, statefulset.WhenScaledPath, statefulset.Retain, stop.WhenScaled, "whenScaled "+string(stop.WhenScaled))
		}
		patch.Unannotate(api.StopAnnotation)
	}
	if sleep.Active() {
		patch.Unannotate(api.SleepAnnotation)
	}
	for _, key := range requests {
		patch.Unannotate(key)
	}
	patch.Unlabel(api.ManagedLabel).Unlabel(api.FinalizerLabel).RemoveFinalizer(api.CleanupFinalizer)
	return patch.Actions(), false
}

// stop returns the Stop for the set's sleep, from its annotation or its record; nil if there is none. A paused Scaler is its user's
// decision.
func (in Input) stop() *api.Stop {
	stop := api.LoadStop(in.Set)
	if stop != nil {
		if stop.Kind == api.KindSleep {
			return stop
		}
		return nil
	}
	for _, revision := range in.Stops {
		stored, err := api.LoadStopRecord(revision)
		if err == nil && stored.Kind == api.KindSleep && stored.Set.UID == in.Set.UID && statefulset.Replicas(in.Set) == 0 {
			return stored
		}
	}
	return nil
}

// requests are the annotations that would act again when the set opts in later: it would fall asleep at once, or get a size from the past.
// The other annotations are settings and records, and stay.
var requests = []string{api.PausedAnnotation, api.SleepRequestedAnnotation, api.ResizeAnnotation, api.ResizeAppliedAnnotation,
	api.GrowToAnnotation, api.ApproveAnnotation, api.RetryAnnotation, api.RollbackAnnotation, api.AbortAnnotation}

// hasPausedOwner reports whether an owner is still paused for the set, or cannot be judged.
func (in Input) hasPausedOwner() bool {
	for _, o := range in.Owners {
		if actions, err := o.release(); err != nil || len(actions) > 0 {
			return true
		}
	}
	return false
}

// release returns the writes that resume the owner; none if it is resumed or deleted.
func (o Owner) release() ([]plan.Action, error) {
	switch {
	case o.Err != nil:
		return nil, o.Err
	case o.Object == nil:
		return nil, nil
	case o.Doc.Stopped:
		return owners.ReleaseAll(o.Resource, o.Object)
	}
	return owners.Release(o.Resource, o.Object, o.Operation)
}

// resume restores the owner's settings, and then deletes the record.
func resume(o Owner) (actions []plan.Action, problem string) {
	actions, err := o.release()
	if err != nil {
		return nil, fmt.Sprintf("its owner stays paused: %v", err)
	}
	return append(actions, plan.Delete(plan.ControllerRevisions, o.Record)), ""
}
