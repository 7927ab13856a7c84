package kube

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"drydock.dev/shared/fault"
	"drydock.dev/shared/plan"
)

// GetCustom reads a custom resource. If the API server no longer serves the version, for example of an old owner reference, it reads the
// preferred version. The returned resource has the version that was read. It returns nil if the object or its kind does not exist.
func (c *Client) GetCustom(
	ctx context.Context, resource plan.Resource, namespace, name string,
) (*unstructured.Unstructured, plan.Resource, error) {
	object, err := c.getCustom(ctx, resource, namespace, name)
	if apierrors.IsNotFound(err) && apierrors.IsUnexpectedServerError(err) { // a 404 of the path, not of the object
		if resource, err = c.preferred(ctx, resource); err == nil {
			object, err = c.getCustom(ctx, resource, namespace, name)
		}
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, resource, nil
	case err != nil:
		return nil, resource, fmt.Errorf("reading %s %s: %w", resource, name, fault.FromAPI(err))
	}
	return object, resource, nil
}

func (c *Client) getCustom(ctx context.Context, resource plan.Resource, namespace, name string) (*unstructured.Unstructured, error) {
	client, err := c.rest(resource)
	if err != nil {
		return nil, err
	}
	text, err := client.Get().NamespaceIfScoped(namespace, namespace != "").Resource(plural(resource)).Name(name).DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(text); err != nil {
		return nil, fault.Permanent(err)
	}
	return object, nil
}

// preferred returns the resource in the version that the API server prefers.
func (c *Client) preferred(ctx context.Context, resource plan.Resource) (plan.Resource, error) {
	custom, _ := resource.Custom()
	client, err := c.rest(resource)
	if err != nil {
		return resource, err
	}
	group := &metav1.APIGroup{}
	if err := client.Get().AbsPath("/apis/" + custom.Group).Do(ctx).Into(group); err != nil {
		return resource, err
	}
	version := schema.GroupVersion{Group: custom.Group, Version: group.PreferredVersion.Version}
	return plan.CustomResource(custom.Resource, version), nil
}
