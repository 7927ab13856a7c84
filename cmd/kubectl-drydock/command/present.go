package command

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"drydock.dev/cmd/kubectl-drydock/install"
	"drydock.dev/shared/api"
)

// markers are the objects that show an installation.
var markers = map[install.Mode]struct {
	resource schema.GroupVersionResource
	name     string
}{
	install.Standalone: {schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, "drydock-standalone"},
	install.Knative:    {schema.GroupVersionResource{Group: "serving.knative.dev", Version: "v1", Resource: "services"}, "detect-resize"},
}

// installed returns the marker of the installation in the mode, or nil if Drydock is not installed in it.
func (c *target) installed(ctx context.Context, mode install.Mode) (*unstructured.Unstructured, error) {
	marker := markers[mode]
	object, err := c.objects.Resource(marker.resource).Namespace(install.Namespace).Get(ctx, marker.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking for an installation (%s): %w", mode, err)
	}
	return object, nil
}

// refuseBoth returns an error if Drydock is installed in the other mode. Both would work on the same sets.
func (c *target) refuseBoth(ctx context.Context, mode install.Mode) error {
	for other := range markers {
		if other == mode {
			continue
		}
		found, err := c.installed(ctx, other)
		if err != nil {
			return err
		}
		if found != nil {
			return fmt.Errorf("an installation of Drydock with --mode %s exists, and both would work on the same sets. Remove it first: "+
				"kubectl drydock uninstall", other)
		}
	}
	return nil
}

// moverImage returns the image of the movers of the present installation, or "" if there is none. If an upgrade to the next image did not
// end, its Role has that image, and the one before.
func (c *target) moverImage(ctx context.Context, next string, allowTags bool) (string, error) {
	roles := schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}
	object, err := c.objects.Resource(roles).Namespace(install.Namespace).Get(ctx, install.MoverRole, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading Role %s/%s: %w", install.Namespace, install.MoverRole, err)
	}
	role := &rbacv1.Role{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, role); err != nil {
		return "", fmt.Errorf("reading Role %s/%s: %w", install.Namespace, install.MoverRole, err)
	}
	for _, rule := range role.Rules {
		for _, image := range rule.ResourceNames {
			if fault, _ := api.ImageFault(image, allowTags); image != next && fault == "" {
				return image, nil
			}
		}
	}
	return "", nil
}
