// Package fault sorts errors into the three classes that a Broker can act on, and maps them to HTTP in one place.
//
//	permanent   422   never retried; goes to the dead-letter sink immediately
//	conflict    409   another process wrote; retried
//	transient   503   not possible now; retried (every unknown error is transient)
//
// Knative retries transport errors, 5xx, 404, 408, 409 and 429 (knative.dev/eventing, pkg/kncloudevents/retries.go), so 404 is never used:
// a missing object is not an error here.
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

// Permanent marks an error that no retry can fix.
func Permanent(err error) error { return wrap(err, permanent) }

// Conflict marks a failed precondition. The decision must be made again.
func Conflict(err error) error { return wrap(err, conflict) }

func wrap(err error, c class) error {
	if err == nil {
		return nil
	}
	return classified{err, c}
}

type trial struct{ error }

func (t trial) Unwrap() error { return t.error }

// DryRun marks an error as the answer to a dry run. Nothing was written.
func DryRun(err error) error {
	if err == nil {
		return nil
	}
	return trial{err}
}

// IsDryRun reports whether the error is the answer to a dry run.
func IsDryRun(err error) bool {
	var t trial
	return errors.As(err, &t)
}

// budget is the refusal of a PodDisruptionBudget.
type budget struct{ error }

func (b budget) Unwrap() error { return b.error }

// Budget marks an error as the refusal of a PodDisruptionBudget. It is permanent for the event.
func Budget(err error) error { return Permanent(budget{err}) }

// IsBudget reports whether the error is the refusal of a PodDisruptionBudget.
func IsBudget(err error) bool {
	var b budget
	return errors.As(err, &b)
}

// IsNamespaceTerminating reports whether the API server creates nothing in the namespace because the namespace is being deleted (kubernetes
// apiserver pkg/admission/plugin/namespace/lifecycle).
func IsNamespaceTerminating(err error) bool {
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

// IsConflict reports whether a precondition failed.
func IsConflict(err error) bool { return classOf(err) == conflict }

// IsPermanent reports whether no retry can fix the error.
func IsPermanent(err error) bool { return err != nil && classOf(err) == permanent }

func classOf(err error) class {
	var c classified
	if errors.As(err, &c) {
		return c.class
	}
	return transient
}

// Status returns the HTTP status of a function's answer for the error.
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

// Words returns the API server's message, without the names of the steps that led to the error. It returns Text if there is no message. A
// refused eviction names the PodDisruptionBudget only in its cause, which is added.
func Words(err error) string {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) || answer.Status().Message == "" {
		return Text(err)
	}
	message := answer.Status().Message
	if cause, found := apierrors.StatusCause(err, "DisruptionBudget"); found && cause.Message != "" { // policy/v1 DisruptionBudgetCause
		message = strings.TrimSuffix(message, ".") + ": " + cause.Message
	}
	return message
}

// Text returns the text of the error, or "" without an error.
func Text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
