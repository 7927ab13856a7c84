package kube

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/plan"
)

// Trial is what the API server answers to a dry run.
type Trial string

const (
	// Accepted: it would take the write.
	Accepted Trial = "Accepted"
	// Denied: a quota, a policy, a webhook or its validation would refuse the write.
	Denied Trial = "Denied"
	// Untried: the write could not be tried.
	Untried Trial = "Unchecked"
)

// Try has the API server judge a write with its admission and validation, and not carry it out. TrialOf sorts the error.
func (c *Client) Try(ctx context.Context, write plan.Action) error {
	switch write.Verb {
	case plan.VerbCreate:
		return c.Create(ctx, write.Resource, write.Namespace, write.Object, true)
	case plan.VerbPatch:
		body, err := json.Marshal(write.Ops)
		if err != nil {
			return err
		}
		return c.TryPatch(ctx, write.Resource, write.Namespace, write.Name, body)
	}
	return fmt.Errorf("a %s cannot be tried", write.Verb)
}

// TrialOf sorts the error of a dry run. The API server looks last whether a name is taken, when it has found nothing else against the
// object (kubernetes staging apiserver pkg/registry/generic/registry/store.go), so AlreadyExists is consent. A webhook that knows no dry
// run answers BadRequest; one that refuses has its own code, and mostly no reason.
func TrialOf(err error) Trial {
	switch reason := apierrors.ReasonForError(err); {
	case err == nil, reason == metav1.StatusReasonAlreadyExists:
		return Accepted
	case reason == metav1.StatusReasonForbidden, reason == metav1.StatusReasonInvalid, reason == metav1.StatusReasonRequestEntityTooLarge:
		return Denied
	case reason == metav1.StatusReasonUnknown && isClientError(err):
		return Denied
	}
	return Untried
}

// isClientError reports whether the API server has answered that the request is at fault.
func isClientError(err error) bool {
	status, ok := err.(apierrors.APIStatus) //nolint:errorlint // the client does not wrap it
	return ok && status.Status().Code >= 400 && status.Status().Code < 500
}
