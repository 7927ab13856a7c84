package kube

import (
	"context"
	"encoding/json"
	"fmt"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
)

const fieldManager = api.FieldManager

// metadataOnly requests an answer without spec and status. An API server behind the aggregation layer may support only whole objects.
const metadataOnly = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"

// Patch sends a JSON patch and returns the object's new resourceVersion.
func (c *Client) Patch(ctx context.Context, resource plan.Resource, namespace, name string, body []byte) (version string, err error) {
	return c.patch(ctx, resource, namespace, name, body, metav1.PatchOptions{FieldManager: fieldManager})
}

// DryRunPatch lets the API server check a JSON patch without carrying it out.
func (c *Client) DryRunPatch(ctx context.Context, resource plan.Resource, namespace, name string, body []byte) error {
	options := metav1.PatchOptions{FieldManager: fieldManager, DryRun: []string{metav1.DryRunAll}}
	_, err := c.patch(ctx, resource, namespace, name, body, options)
	return err
}

func (c *Client) patch(
	ctx context.Context, resource plan.Resource, namespace, name string, body []byte, options metav1.PatchOptions,
) (string, error) {
	client, err := c.rest(resource)
	if err != nil {
		return "", err
	}
	request := client.Patch(types.JSONPatchType).SetHeader("Accept", metadataOnly).NamespaceIfScoped(namespace, namespace != "").
		Resource(plural(resource)).Name(name)
	if _, part := resource.Subresource(); part != "" {
		request = request.SubResource(part)
	}
	result := request.SpecificallyVersionedParams(&options, parameters, schema.GroupVersion{Version: "v1"}).Body(body).Do(ctx)
	written, err := metadataOf(result)
	if err != nil {
		return "", err
	}
	return written.ResourceVersion, nil
}

// Version returns the UID and the resourceVersion of an object.
func (c *Client) Version(ctx context.Context, resource plan.Resource, namespace, name string) (types.UID, string, error) {
	client, err := c.rest(resource)
	if err != nil {
		return "", "", err
	}
	result := client.Get().SetHeader("Accept", metadataOnly).NamespaceIfScoped(namespace, namespace != "").
		Resource(plural(resource)).Name(name).Do(ctx)
	found, err := metadataOf(result)
	if err != nil {
		return "", "", fmt.Errorf("reading %s %s: %w", resource, name, err)
	}
	return found.UID, found.ResourceVersion, nil
}

// metadataOf reads an answer to a request with metadataOnly.
func metadataOf(result rest.Result) (*metav1.PartialObjectMetadata, error) {
	if err := result.Error(); err != nil { // Raw and DoRaw would lose the API server's message, for example of a webhook
		return nil, err
	}
	answer, err := result.Raw()
	if err != nil {
		return nil, err
	}
	object := &metav1.PartialObjectMetadata{}
	return object, json.Unmarshal(answer, object)
}

// Delete deletes the object if it has the UID and, unless version is empty, the resourceVersion. Dependents are orphaned, or deleted in the
// background.
func (c *Client) Delete(
	ctx context.Context, resource plan.Resource, namespace, name string, uid types.UID, version string, orphan bool,
) error {
	client, err := c.rest(resource)
	if err != nil {
		return err
	}
	propagation := metav1.DeletePropagationBackground
	if orphan {
		propagation = metav1.DeletePropagationOrphan
	}
	options := &metav1.DeleteOptions{
		PropagationPolicy: &propagation,
		Preconditions:     &metav1.Preconditions{UID: ptr.To(uid)},
	}
	if version != "" {
		options.Preconditions.ResourceVersion = ptr.To(version)
	}
	return client.Delete().NamespaceIfScoped(namespace, namespace != "").Resource(plural(resource)).Name(name).Body(options).Do(ctx).Error()
}

// Evict deletes the pod with the UID if the PodDisruptionBudgets allow it. It does not retry after a refusal.
func (c *Client) Evict(ctx context.Context, namespace, name string, uid types.UID, dryRun bool) error {
	client, err := c.rest(plan.Pods)
	if err != nil {
		return err
	}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(uid)}}}
	if dryRun {
		eviction.DeleteOptions.DryRun = []string{metav1.DryRunAll}
	}
	return client.Post().Namespace(namespace).Resource(plural(plan.Pods)).Name(name).SubResource("eviction").MaxRetries(0).
		Body(eviction).Do(ctx).Error()
}

// Create creates an object.
func (c *Client) Create(ctx context.Context, resource plan.Resource, namespace string, object runtime.Object, dryRun bool) error {
	client, err := c.rest(resource)
	if err != nil {
		return err
	}
	options := metav1.CreateOptions{FieldManager: fieldManager}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	return client.Post().NamespaceIfScoped(namespace, namespace != "").Resource(plural(resource)).
		VersionedParams(&options, parameters).Body(object).Do(ctx).Error()
}

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
