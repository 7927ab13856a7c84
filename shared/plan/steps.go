package plan

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
)

// Store patches the status of the StatefulSet, unless it says the same already.
func Store(set *appsv1.StatefulSet, status *api.Status) *Patch {
	return PatchOf(StatefulSets, set).Annotate(status.Annotation(), status.Encode())
}

// Enter makes the status of the phase that follows, with its deadline.
func Enter(status *api.Status, phase api.Phase, now time.Time, timeout time.Duration) *api.Status {
	next := status.Clone()
	next.Phase, next.Deadline = phase, Moment(now.Add(timeout))
	return next
}

// RollBack makes the status of an operation that failed before the switch: restore gives the set back.
func RollBack(status *api.Status, now time.Time, timeout time.Duration, reason api.Reason, message string) *api.Status {
	next := Enter(status, api.RollingBack, now, timeout)
	next.FailedAt, next.Reason, next.Message = status.Phase, reason, message
	return next
}

// AskAgain says how people ask again for an operation that has failed. A rollback takes away what was written since, so nobody begins one
// by a word that is said of everything.
func AskAgain(status *api.Status) string {
	switch {
	case status.HalfBack():
		return "go on with the annotation " + api.RetryAnnotation
	case status.Method == api.MethodRollback:
		return "ask again with kubectl drydock rollback"
	}
	return "ask again with the annotation " + api.RetryAnnotation
}

// Summary says in a sentence what a resize has brought about.
func Summary(status *api.Status, retention time.Duration) string {
	if status.Method == api.MethodRollback {
		return fmt.Sprintf("%d claims have their old volumes back; those with what was written since are kept for %s", len(status.Claims), retention)
	}
	grown, moved := 0, 0
	for _, c := range status.Claims {
		if c.Method == api.MethodExpand {
			grown++
		} else {
			moved++
		}
	}
	switch {
	case grown > 0 && moved > 0:
		return fmt.Sprintf("%d claims have grown, %d are on new volumes; the old volumes are kept for %s", grown, moved, retention)
	case grown > 0:
		return fmt.Sprintf("%d claims have grown", grown)
	case moved > 0:
		return fmt.Sprintf("%d claims are on new volumes; the old volumes are kept for %s", moved, retention)
	}
	return "the set has its new templates"
}

// Overdue reports whether the present phase is to be given up.
func Overdue(status *api.Status, now time.Time) bool {
	return status.Deadline != nil && now.After(status.Deadline.Time)
}

// Moment is a time as it is stored: whole seconds, UTC.
func Moment(t time.Time) *metav1.Time {
	m := metav1.NewTime(t.UTC().Truncate(time.Second))
	return &m
}

// NoteOf makes the Kubernetes Event that says what the status says.
func NoteOf(set *appsv1.StatefulSet, status *api.Status, warning bool) Action {
	return Record(set.Namespace, set.Name, Note{Warning: warning, Reason: status.Reason, Message: status.Message,
		UID: set.UID, Operation: status.Operation})
}
