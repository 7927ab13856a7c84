package operation

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
)

// cloned is a record with a Clone method that returns its own type.
type cloned[R any] interface {
	Record
	Clone() R
}

// Enter returns a copy of the record in the phase, with the deadline of that phase.
func Enter[R cloned[R]](record R, phase api.Phase, now time.Time, timeout time.Duration) R {
	next := record.Clone()
	head := next.Head()
	head.Phase, head.Deadline = phase, Moment(now.Add(timeout))
	return next
}

// Conclude returns a copy of the record in a terminal phase.
func Conclude[R cloned[R]](record R, phase api.Phase, now time.Time, reason api.Reason, message string) R {
	next := record.Clone()
	head := next.Head()
	head.Phase, head.Reason, head.Message, head.Finished, head.Deadline = phase, reason, message, Moment(now), nil
	if phase == api.Succeeded {
		head.FailedAt = "" // it had failed before, and succeeded nevertheless
	}
	return next
}

// Fail returns a copy of the record in a terminal phase. FailedAt becomes the former phase.
func Fail[R cloned[R]](record R, phase api.Phase, now time.Time, reason api.Reason, message string) R {
	next := Conclude(record, phase, now, reason, message)
	next.Head().FailedAt = record.Head().Phase
	return next
}

// Revert returns a copy of the record of a failed resize. restore then releases the held pods.
func Revert(resize *api.Resize, now time.Time, timeout time.Duration, reason api.Reason, message string) *api.Resize {
	next := Enter(resize, api.Reverting, now, timeout)
	next.FailedAt, next.Reason, next.Message = resize.Phase, reason, message
	return next
}

// ConcludeResize returns a copy of the record of a finished resize, without the fields that only an active one needs. Reason and message
// stay.
func ConcludeResize(resize *api.Resize, phase api.Phase, now time.Time) *api.Resize {
	next := Conclude(resize, phase, now, resize.Reason, resize.Message)
	for i := range next.Members {
		member := &next.Members[i]
		member.Deadline, member.ProgressAt, member.Stalled, member.StalledSince = nil, nil, "", nil
	}
	return next
}

// Store returns a patch that writes the record to the StatefulSet. It is empty if the set already has the same record. The metrics get what
// ends with this write.
func Store(set *appsv1.StatefulSet, record Record) *plan.Patch {
	return plan.PatchOf(plan.StatefulSets, set).Annotate(record.Annotation(), record.Encode()).Measure(Measure(set, record)...)
}

// Overdue reports whether the deadline of the present phase is over.
func Overdue(record Record, now time.Time) bool {
	return Past(record.Head().Deadline, now)
}

// Past reports whether the deadline is over. A nil deadline never is.
func Past(deadline *metav1.Time, now time.Time) bool {
	return deadline != nil && now.After(deadline.Time)
}

// Moment returns the time as it is stored: in whole seconds and UTC.
func Moment(t time.Time) *metav1.Time {
	m := metav1.NewTime(t.UTC().Truncate(time.Second))
	return &m
}
