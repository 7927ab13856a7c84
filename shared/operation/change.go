package operation

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
)

// Change is news about a StatefulSet: a change that an event reports, or the sweep's look. Each feature says, in its Concerned, which
// functions the change concerns. It judges the set alone, without reading anything else: a needless look costs little, a missing one delays
// the operation until the next tick.
type Change struct {
	Set     *appsv1.StatefulSet
	Records Records
	Now     time.Time
	// Added: the event source has not seen the set before.
	Added bool
	// Gone: the set was deleted, or it has lost the label that the event source watches.
	Gone bool
	// Swept: the tick looks at the set, since time has passed or an event was lost.
	Swept bool
	// Retry is for how long a sleep that failed is left alone.
	Retry time.Duration
}

// JustGivenBack reports whether a set with an owner has its replicas back, and none is ready yet: the owner may be paused.
func JustGivenBack(set *appsv1.StatefulSet, record Record) bool {
	return statefulset.Controller(set) != nil && GivenBack(set, record) && statefulset.Seen(set) && set.Status.ReadyReplicas == 0
}

// Aborted reports whether the user asks to end the operations of the set.
func Aborted(set *appsv1.StatefulSet) bool {
	_, asked := set.Annotations[api.AbortAnnotation]
	return asked
}
