package kube

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/plan"
)

// DryRunResult is the result of a dry run.
type DryRunResult string

const (
	// Accepted: the API server would accept the write.
	Accepted DryRunResult = "Accepted"
	// Denied: a quota, a policy, a webhook or the validation would reject the write.
	Denied DryRunResult = "Denied"
	// Untried: the dry run was not possible.
	Untried DryRunResult = "Unchecked"
)

// DryRun lets the API server check a write with its admission and validation, without carrying it out. DryRunResultOf classifies the error.
func (c *Client) DryRun(ctx context.Context, write plan.Action) error {
	switch write.Verb {
	case plan.VerbCreate:
		return c.Create(ctx, write.Resource, write.Namespace, write.Object, true)
	case plan.VerbPatch:
		body, err := json.Marshal(write.Ops)
		if err != nil {
			return err
		}
		return c.DryRunPatch(ctx, write.Resource, write.Namespace, write.Name, body)
	}
	return fmt.Errorf("a %s cannot be tried", write.Verb)
}

// DryRunResultOf classifies the error of a dry run. The API server checks last whether the name is taken (kubernetes staging apiserver
// pkg/registry/generic/registry/store.go), so AlreadyExists means that the object is acceptable. A webhook that does not support dry runs
// answers BadRequest. A webhook that rejects the object has its own code, and usually no reason.
func DryRunResultOf(err error) DryRunResult {
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

// isClientError reports whether the API server has answered with a status from 400 to 499.
func isClientError(err error) bool {
	status, ok := err.(apierrors.APIStatus) // the client does not wrap it
	return ok && status.Status().Code >= 400 && status.Status().Code < 500
}
