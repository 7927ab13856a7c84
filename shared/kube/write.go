package kube

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
)

const fieldManager = api.FieldManager

// Patch sends a JSON patch.
func (c *Client) Patch(ctx context.Context, resource plan.Resource, namespace, name string, body []byte) error {
	return c.patch(ctx, resource, namespace, name, body, metav1.PatchOptions{FieldManager: fieldManager})
}

// TryPatch has the API server judge a JSON patch, and not carry it out.
func (c *Client) TryPatch(ctx context.Context, resource plan.Resource, namespace, name string, body []byte) error {
	return c.patch(ctx, resource, namespace, name, body, metav1.PatchOptions{FieldManager: fieldManager, DryRun: []string{metav1.DryRunAll}})
}

func (c *Client) patch(ctx context.Context, resource plan.Resource, namespace, name string, body []byte, options metav1.PatchOptions) error {
	client, err := c.rest(resource)
	if err != nil {
		return err
	}
	return client.Patch(types.JSONPatchType).NamespaceIfScoped(namespace, namespace != "").Resource(plural(resource)).Name(name).
		SpecificallyVersionedParams(&options, parameters, schema.GroupVersion{Version: "v1"}).Body(body).Do(ctx).Error()
}

// Delete removes the object if its UID and resourceVersion are as given. Dependents are orphaned or deleted in the
// background.
func (c *Client) Delete(ctx context.Context, resource plan.Resource, namespace, name string, uid types.UID, version string, orphan bool) error {
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
		Preconditions:     &metav1.Preconditions{UID: ptr.To(uid), ResourceVersion: ptr.To(version)},
	}
	return client.Delete().NamespaceIfScoped(namespace, namespace != "").Resource(plural(resource)).Name(name).Body(options).Do(ctx).Error()
}
