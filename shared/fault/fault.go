// Package fault sorts errors into the three classes that a Broker can act on, and maps them to HTTP in one place.
//
//	permanent   422   never retried; goes to the dead-letter sink at once
//	conflict    409   somebody else wrote; retried
//	transient   503   not now; retried (every error of unknown kind is transient)
//
// Knative retries transport errors, 5xx, 404, 408, 409 and 429 (knative.dev/eventing, pkg/kncloudevents/retries.go),
// so 404 is never used: an object that is gone is no error here.
package fault

import (
	"errors"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

type class int

const (
	transient class = iota
	conflict
	permanent
)

type classified struct {
	error
	class class
}

func (c classified) Unwrap() error { return c.error }

// Permanent marks an error that no retry can mend.
func Permanent(err error) error { return wrap(err, permanent) }

// Conflict marks a precondition that did not hold: look again.
func Conflict(err error) error { return wrap(err, conflict) }

func wrap(err error, c class) error {
	if err == nil {
		return nil
	}
	return classified{err, c}
}

type trial struct{ error }

func (t trial) Unwrap() error { return t.error }

// Trial marks an error as the answer to a dry run: nothing was written.
func Trial(err error) error {
	if err == nil {
		return nil
	}
	return trial{err}
}

// IsTrial reports whether the error is the answer to a dry run.
func IsTrial(err error) bool {
	var t trial
	return errors.As(err, &t)
}

// budget marks the refusal of a PodDisruptionBudget.
type budget struct{ error }

func (b budget) Unwrap() error { return b.error }

// Budget marks an error as the refusal of a PodDisruptionBudget. It is permanent for the event.
func Budget(err error) error { return Permanent(budget{err}) }

// IsBudget reports whether the error is the refusal of a PodDisruptionBudget.
func IsBudget(err error) bool {
	var b budget
	return errors.As(err, &b)
}

// IsNamespaceLeaving reports whether the API server creates nothing in the namespace, because the namespace is being deleted (kubernetes
// apiserver pkg/admission/plugin/namespace/lifecycle).
func IsNamespaceLeaving(err error) bool {
	return apierrors.HasStatusCause(err, "NamespaceTerminating") // core/v1 NamespaceTerminatingCause
}

// FromAPI classifies an error of the Kubernetes API server by its status, never by its text.
func FromAPI(err error) error {
	switch {
	case err == nil:
		return nil
	case classOf(err) != transient:
		return err
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return Conflict(err)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsForbidden(err),
		apierrors.IsMethodNotSupported(err), apierrors.IsRequestEntityTooLargeError(err):
		return Permanent(err)
	}
	return err
}

// IsConflict reports whether a precondition did not hold.
func IsConflict(err error) bool { return classOf(err) == conflict }

// IsPermanent reports whether no retry can mend the error.
func IsPermanent(err error) bool { return err != nil && classOf(err) == permanent }

func classOf(err error) class {
	var c classified
	if errors.As(err, &c) {
		return c.class
	}
	return transient
}

// Status is the HTTP status with which a function answers the error.
func Status(err error) int {
	if err == nil {
		return http.StatusOK
	}
	switch classOf(err) {
	case permanent:
		return http.StatusUnprocessableEntity
	case conflict:
		return http.StatusConflict
	default:
		return http.StatusServiceUnavailable
	}
}

// Words is what the API server says of the error, without the names of the steps that led to it; Text if it says nothing. A refused
// eviction names the PodDisruptionBudget in its cause only.
func Words(err error) string {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) || answer.Status().Message == "" {
		return Text(err)
	}
	words := answer.Status().Message
	if cause, is := apierrors.StatusCause(err, "DisruptionBudget"); is && cause.Message != "" { // policy/v1 DisruptionBudgetCause
		words = strings.TrimSuffix(words, ".") + ": " + cause.Message
	}
	return words
}

// Text is what the error says; empty for none.
func Text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
