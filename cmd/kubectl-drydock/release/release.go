// Package release decides how to let go of everything that Drydock holds, before it is uninstalled: pods that are held, sets that sleep,
// owners that are paused, labels and finalizers. It is pure.
package release

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// Input has the facts about one StatefulSet, or about the records of a set that is gone.
type Input struct {
	Namespace, Name string
	Set             *appsv1.StatefulSet // nil: it is gone
	// Sleeps, Owners and Journals are the records of operations on the set.
	Sleeps, Journals []*appsv1.ControllerRevision
	Owners           []Owner
	// Held are the pods of the set that carry the hold, Claims those of the namespace where there are such pods.
	Held   []*corev1.Pod
	Claims []*corev1.PersistentVolumeClaim
	// Holds: no function works any more, so holds are taken off although an operation runs.
	Holds bool
}

// Owner is a custom resource that an operation has paused, with the record of that.
type Owner struct {
	Record    *appsv1.ControllerRevision
	Operation string
	Doc       *api.PausedOwner
	Resource  plan.Resource
	Object    *unstructured.Unstructured // nil: it is gone
	Err       error                      // the record or the resource cannot be read
}

// Decide returns the writes to make now, and the objects that are left, each with advice. Writing twice is safe.
func Decide(in Input) (actions []plan.Action, left []string) {
	if why := busy(in); why != "" {
		if in.Holds {
			actions, left = releaseHolds(in)
		}
		return actions, append(left, why)
	}
	holds, left := releaseHolds(in)
	var waits bool
	if in.Set != nil {
		actions, waits = releaseSet(in)
	}
	if waits {
		left = append(left, "its operator is to start it; run the command again, and it gets its replicas from Drydock if they are not there")
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

// busy says why the set cannot be released yet, or is empty.
func busy(in Input) string {
	if in.Set == nil {
		if len(in.Journals) > 0 {
			return "the StatefulSet is gone in the middle of a resize, and Drydock has to bring it to its end; wait for that" + in.heldWords()
		}
		return ""
	}
	records := operation.Of(in.Set)
	resize := records.Resize
	switch {
	case records.ResizeErr != nil:
		return records.ResizeErr.Error()
	case resize.Active():
		return fmt.Sprintf("operation %s runs, in phase %s; wait for its end, or end it with the annotation %s", resize.Operation,
			resize.Phase, api.AbortAnnotation) + in.heldWords()
	case records.CleaningUp():
		return "a cleanup runs; wait for its end, or end it with the annotation " + api.AbortAnnotation + ", which keeps its claims"
	case in.Set.DeletionTimestamp != nil:
		return "it is being deleted; wait until it is gone"
	}
	if records.SleepErr != nil {
		return records.SleepErr.Error()
	}
	return ""
}

// releaseSet wakes the set and takes Drydock's marks off, in one patch. A set whose operator stopped it is left to the operator as long
// as that is told to: waits is true then.
func releaseSet(in Input) (actions []plan.Action, waits bool) {
	sleep := in.sleep()
	if sleep != nil && sleep.OwnerStops && statefulset.Replicas(in.Set) == 0 && in.heldByDrydock() {
		return nil, true
	}
	patch := plan.PatchOf(plan.StatefulSets, in.Set)
	if sleep != nil {
		if is := statefulset.Replicas(in.Set); is == 0 {
			wanted := max(sleep.Replicas, 1)
			plan.Set(patch, "/spec/replicas", is, wanted, fmt.Sprintf("replicas %d to %d", is, wanted))
		}
		if sleep.WhenScaled != "" {
			plan.Set(patch, statefulset.WhenScaledPath, statefulset.WhenScaled(in.Set), sleep.WhenScaled, "whenScaled "+string(sleep.WhenScaled))
		}
		patch.Unannotate(api.SleepAnnotation)
	}
	patch.Unlabel(api.ManagedLabel).Unlabel(api.FinalizerLabel).RemoveFinalizer(api.CleanupFinalizer)
	return patch.Actions(), false
}

// sleep returns the sleep that holds the set at zero, or did when it was last seen; nil if none does.
func (in Input) sleep() *api.Sleep {
	m := idle.MemberOf(in.Set)
	if m.Sleep.Active() || m.LeftAtZero() {
		return m.Sleep
	}
	for _, revision := range in.Sleeps {
		record, err := api.LoadSleepRecord(revision)
		if err == nil && statefulset.Replicas(in.Set) == 0 && record.Sleep.Set.UID == in.Set.UID {
			return &record.Sleep
		}
	}
	return nil
}

// heldByDrydock reports whether an owner is still held for the set.
func (in Input) heldByDrydock() bool {
	for _, o := range in.Owners {
		if actions, err := o.release(); err != nil || len(actions) > 0 {
			return true
		}
	}
	return false
}

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

// resume puts the owner's settings back, and then removes the record.
func resume(o Owner) (actions []plan.Action, problem string) {
	actions, err := o.release()
	if err != nil {
		return nil, fmt.Sprintf("its owner stays paused: %v", err)
	}
	return append(actions, plan.Delete(plan.ControllerRevisions, o.Record)), ""
}
