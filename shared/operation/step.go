package operation

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
)

// cloned is a record of type R that can be copied.
type cloned[R any] interface {
	Record
	Clone() R
}

// Enter returns the record in the phase that follows, with its deadline.
func Enter[R cloned[R]](record R, phase api.Phase, now time.Time, timeout time.Duration) R {
	next := record.Clone()
	head := next.Head()
	head.Phase, head.Deadline = phase, Moment(now.Add(timeout))
	return next
}

// Conclude returns the record in a terminal phase.
func Conclude[R cloned[R]](record R, phase api.Phase, now time.Time, reason api.Reason, message string) R {
	next := record.Clone()
	head := next.Head()
	head.Phase, head.Reason, head.Message, head.Finished, head.Deadline = phase, reason, message, Moment(now), nil
	if phase == api.Succeeded {
		head.FailedAt = "" // it was given up, and came to its end nevertheless
	}
	return next
}

// Fail returns the record in a terminal phase. FailedAt is the phase before.
func Fail[R cloned[R]](record R, phase api.Phase, now time.Time, reason api.Reason, message string) R {
	next := Conclude(record, phase, now, reason, message)
	next.Head().FailedAt = record.Head().Phase
	return next
}

// Revert returns the record of a resize that is given up: restore releases the held pods.
func Revert(resize *api.Resize, now time.Time, timeout time.Duration, reason api.Reason, message string) *api.Resize {
	next := Enter(resize, api.Reverting, now, timeout)
	next.FailedAt, next.Reason, next.Message = resize.Phase, reason, message
	return next
}

// End returns the record of a resize that is over, without the fields that only an active one needs. It keeps its reason and message.
func End(resize *api.Resize, phase api.Phase, now time.Time) *api.Resize {
	next := Conclude(resize, phase, now, resize.Reason, resize.Message)
	for i := range next.Members {
		member := &next.Members[i]
		member.Deadline, member.ProgressAt, member.Stalled, member.StalledSince = nil, nil, "", nil
	}
	return next
}

// Store patches the record into the StatefulSet, unless the set has the same already.
func Store(set *appsv1.StatefulSet, record Record) *plan.Patch {
	return plan.PatchOf(plan.StatefulSets, set).Annotate(record.Annotation(), record.Encode())
}

// Overdue reports whether the present phase is to be given up.
func Overdue(record Record, now time.Time) bool {
	return Past(record.Head().Deadline, now)
}

// Past reports whether the deadline is over. None never is.
func Past(deadline *metav1.Time, now time.Time) bool {
	return deadline != nil && now.After(deadline.Time)
}

// Moment returns a time as it is stored: whole seconds, UTC.
func Moment(t time.Time) *metav1.Time {
	m := metav1.NewTime(t.UTC().Truncate(time.Second))
	return &m
}
