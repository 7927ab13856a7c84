package command

import (
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/cmd/kubectl-drydock/logs"
)

// logReading reads logs. The notes say which are missing.
type logReading struct {
	*session
	scope     logs.Scope
	from      time.Time
	collected logs.Collector
	notes     []string
	// functionsSince is when the oldest pod of the functions was created. It is zero if none was found.
	functionsSince time.Time

	quotesNoErrors bool
}

// words returns the error for a note.
func (r *logReading) words(err error) string {
	if r.quotesNoErrors {
		return reasonOf(err)
	}
	return err.Error()
}

// reasonOf returns the reason of an error without its text, which may quote whole objects.
func reasonOf(err error) string {
	if reason := apierrors.ReasonForError(err); reason != metav1.StatusReasonUnknown {
		return string(reason)
	}
	return "there is no answer, or it cannot be read"
}

// note adds a note, unless there is the same one.
func (r *logReading) note(format string, args ...any) {
	if note := fmt.Sprintf(format, args...); !slices.Contains(r.notes, note) {
		r.notes = append(r.notes, note)
	}
}

// nothingFound says that no line was found, and the likely cause if no other note has it: the operation is older than all logs.
func (r *logReading) nothingFound() string {
	words := fmt.Sprintf("No line of operation %s was found.", r.scope.Operation)
	if r.from.IsZero() && !r.functionsSince.IsZero() {
		words += fmt.Sprintf(" The oldest pod of the functions started at %s. Lines of an operation before it are gone, except from a log store.",
			r.functionsSince.UTC().Format(time.RFC3339))
	}
	return words
}

// join returns the names as in a sentence.
func join[T ~string](names []T) string {
	var words []string
	for _, name := range names {
		words = append(words, string(name))
	}
	slices.Sort(words)
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " and " + words[n-1]
	}
	return strings.Join(words, "")
}

// noteListing notes that the logs are missing because objects could not be listed.
func (r *logReading) noteListing(whose, resource, namespace string, err error) {
	if apierrors.IsForbidden(err) {
		r.note("You may not list %s in namespace %s, so the logs of %s are missing. Ask an administrator for the right, or for these logs.",
			resource, namespace, whose)
		return
	}
	r.note("The logs of %s are missing: %s.", whose, r.words(err))
}
