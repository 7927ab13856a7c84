package operation

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
)

// Change describes a StatefulSet that an event or the sweep reports. The Concerned function of each feature returns the functions that the
// change concerns. It judges the set alone and reads nothing else. A needless event costs little. A missing one delays the operation until
// the next tick.
type Change struct {
	Set     *appsv1.StatefulSet
	Records Records
	Now     time.Time
	// Added is true if the event source sees the set for the first time.
	Added bool
	// Gone is true if the set was deleted, or lost the label that the event source watches.
	Gone bool
	// Swept is true if the tick reports the set, because time has passed or an event was lost.
	Swept bool
	// PreviousSweep is the time of the previous sweep; zero if it is unknown.
	PreviousSweep time.Time
	// Retry is the pause after a failed sleep.
	Retry time.Duration
}

// JustGivenBack reports whether a set with an owner has its replicas back, but no ready pod yet. Its owner may still be paused.
func JustGivenBack(set *appsv1.StatefulSet, record Record) bool {
	return statefulset.Controller(set) != nil && NoLongerStops(set, record) && statefulset.SpecObserved(set) && set.Status.ReadyReplicas == 0
}

// OwnerConcerned returns pause-owner if the owner's operator may have changed the metadata of a set: it removed the label that the event
// source watches, or copied the record of its pause to the set. During an operation, the operator would copy the record again.
func OwnerConcerned(c Change) []api.Function {
	if statefulset.Controller(c.Set) == nil || c.Set.DeletionTimestamp != nil || !statefulset.Managed(c.Set) {
		return nil
	}
	if _, copied := c.Set.Annotations[api.OwnerPausedAnnotation]; c.Gone || copied && !c.Records.Resizing() && !c.Records.Sleeping() {
		return []api.Function{api.PauseOwner}
	}
	return nil
}

// abortWithdrawn is the value of AbortAnnotation that the policy for edited manifests writes (config/apply/templates.yaml).
const abortWithdrawn = "withdrawn"

// AbortWords returns the beginning of a message about an abort: that an applied manifest withdrew the request, that the set has opted out,
// or nothing.
func AbortWords(set *appsv1.StatefulSet) string {
	switch {
	case set.Annotations[api.AbortAnnotation] == abortWithdrawn:
		return "withdrawn by an applied manifest; "
	case !hasAbort(set) && !statefulset.Managed(set):
		return fmt.Sprintf("the StatefulSet lost the label %s=true; ", api.ManagedLabel)
	}
	return ""
}

// Aborted reports whether the user requests the end of the set's operations: with the annotation abort, or by opting out.
func Aborted(set *appsv1.StatefulSet) bool { return hasAbort(set) || !statefulset.Managed(set) }

func hasAbort(set *appsv1.StatefulSet) bool {
	_, abort := set.Annotations[api.AbortAnnotation]
	return abort
}

// Within reports whether the moment is less than the period away. A moment in the future comes from a clock that was ahead, and must not
// make anything wait until then.
func Within(now, moment time.Time, period time.Duration) bool {
	age := now.Sub(moment)
	return -period < age && age < period
}
