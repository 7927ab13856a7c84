// Package release decides how to release everything that Drydock holds before it is uninstalled: held pods, sleeping sets, paused owners,
// labels and finalizers. It is pure.
package release

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/scale"
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
		for _, record := range in.Sleeps {
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
	if scale == nil || in.sleep() != nil || !scale.Paused || statefulset.Replicas(in.Set) > 0 {
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

// releaseSet wakes the set and removes its requests, and Drydock's labels and finalizers, in one patch. Before that, it ends Drydock's
// pause of the set's Scaler. If an operator has stopped the set for Drydock and has not been released yet, it returns operatorFirst: the
// operator must start the set.
func releaseSet(in Input) (actions []plan.Action, operatorFirst bool) {
	sleep := in.sleep()
	if sleep != nil && sleep.OwnerStops && statefulset.Replicas(in.Set) == 0 && in.hasPausedOwner() {
		return nil, true
	}
	patch := plan.PatchOf(plan.StatefulSets, in.Set)
	if sleep != nil {
		if present := statefulset.Replicas(in.Set); present == 0 {
			before := max(sleep.Replicas, 1)
			plan.Set(patch, "/spec/replicas", present, before, fmt.Sprintf("replicas %d to %d", present, before))
		}
		in.restoreRetention(patch, sleep)
		patch.Unannotate(api.SleepAnnotation)
	} else if m := idle.MemberOf(in.Set); m.RetentionToRestore() {
		in.restoreRetention(patch, m.Sleep)
	}
	for _, key := range requests {
		patch.Unannotate(key)
	}
	patch.Unlabel(api.ManagedLabel).Unlabel(api.FinalizerLabel).RemoveFinalizer(api.CleanupFinalizer)
	return append(in.endPause(), patch.Actions()...), false // the Scaler first: without the sleep, its pause would look like the user's
}

func (in Input) restoreRetention(patch *plan.Patch, sleep *api.Sleep) {
	if sleep.WhenScaled != "" {
		plan.Set(patch, statefulset.WhenScaledPath, statefulset.WhenScaled(in.Set), sleep.WhenScaled, "whenScaled "+string(sleep.WhenScaled))
	}
}

// MayHavePausedScaler reports whether Drydock has scaled the set to zero, or will do so next. If the set has a
// Scaler, Drydock has paused it.
func (in Input) MayHavePausedScaler() bool {
	if in.Set == nil {
		return false
	}
	sleep := in.sleep()
	return sleep != nil && sleep.ScaledToZeroAt != nil || slices.ContainsFunc(in.Sleeps, func(revision *appsv1.ControllerRevision) bool {
		link := api.RevisionLink(revision)
		return link != nil && link.Set.UID == in.Set.UID // the record exists until the set is awake
	})
}

// endPause ends Drydock's pause of the set's Scaler, as a wake-up by idle-timeout does. Otherwise the set would be scaled to zero when it
// opts in again, and nothing would wake it.
func (in Input) endPause() []plan.Action {
	scaler := in.scalerPausedByDrydock()
	if scaler == nil {
		return nil
	}
	patch := plan.PatchOf(plan.Scalers, scaler).Replace("/spec/paused", false, "paused = false")
	if sleep := in.sleep(); sleep != nil && (scaler.Spec.Replicas == nil || *scaler.Spec.Replicas == 0) {
		before := max(sleep.Replicas, 1)
		patch.Replace("/spec/replicas", before, fmt.Sprintf("replicas = %d", before))
	}
	return patch.Actions()
}

// scalerPausedByDrydock returns the set's Scaler if Drydock has paused it, or nil. A wake-up has ended the pause before members start: a
// later pause is the user's. So is that of a Scaler without a record that is newer than the sleep.
func (in Input) scalerPausedByDrydock() *v1alpha1.Scaler {
	records := operation.Of(in.Set)
	scaler, sleep := scale.Owner(in.Scalers, records.Scale), in.sleep()
	switch {
	case scaler == nil || !scaler.Spec.Paused || !in.MayHavePausedScaler():
		return nil
	case records.Scale != nil && records.Scale.Scaler.UID != scaler.UID:
		return nil
	case records.Scale == nil && sleep != nil && !scale.MayBePausedBy(sleep, scaler):
		return nil
	case sleep != nil && sleep.Phase == api.Waking && statefulset.Replicas(in.Set) > 0:
		return nil
	}
	return scaler
}

// requests are the annotations that would act again when the set opts in later: it would fall asleep at once, or get a size from the past.
// The other annotations are settings and records, and stay.
var requests = []string{api.PausedAnnotation, api.SleepRequestedAnnotation, api.ResizeAnnotation, api.ResizeAppliedAnnotation,
	api.GrowToAnnotation, api.ApproveAnnotation, api.RetryAnnotation, api.RollbackAnnotation, api.AbortAnnotation}

// sleep returns the sleep that has scaled the set to zero, from its annotation or its ControllerRevision; nil if there is none.
func (in Input) sleep() *api.Sleep {
	m := idle.MemberOf(in.Set)
	if m.Sleep.Active() || m.IsLeftAtZero() {
		return m.Sleep
	}
	for _, revision := range in.Sleeps {
		record, err := api.LoadSleepRecord(revision)
		if err == nil && statefulset.Replicas(in.Set) == 0 && record.Sleep.Set.UID == in.Set.UID && m.LostRecord(&record.Sleep) {
			return &record.Sleep
		}
	}
	return nil
}

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
