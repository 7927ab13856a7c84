package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/fault"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/sts"
)

// observeSet reads the StatefulSet once, as JSON: what is created again from it must keep the fields that this build does not know.
func (c *Client) observeSet(ctx context.Context, ref events.Ref, o *sts.Observed) error {
	text, err := c.getJSON(ctx, plan.StatefulSets, ref.Namespace, ref.Name)
	if err != nil || text == nil {
		return err
	}
	set := &appsv1.StatefulSet{}
	if err := json.Unmarshal(text, set); err != nil {
		return fmt.Errorf("reading StatefulSet %s: %w", ref, err)
	}
	manifest, err := api.ParseManifest(text, "apps/v1", "StatefulSet")
	if err != nil {
		return err
	}
	o.Set, o.Manifest = set, manifest
	follow(ctx, set)
	return nil
}

// observeManifests reads, as JSON, the claims that only our finalizer holds: restore makes their successors from them. A claim whose
// volume is reserved already has its successor.
func (c *Client) observeManifests(ctx context.Context, namespace string, o *sts.Observed) error {
	for _, claim := range o.Claims {
		if claim.DeletionTimestamp == nil || !slices.Contains(claim.Finalizers, api.SwitchFinalizer) || reservedFor(o, claim.Name) {
			continue
		}
		text, err := c.getJSON(ctx, plan.Claims, namespace, claim.Name)
		if err != nil {
			return err
		}
		if text == nil {
			continue
		}
		manifest, err := api.ParseManifest(text, "v1", "PersistentVolumeClaim")
		if err != nil {
			return err
		}
		if o.ClaimManifests == nil {
			o.ClaimManifests = map[string]*unstructured.Unstructured{}
		}
		o.ClaimManifests[claim.Name] = manifest
	}
	return nil
}

// reservedFor reports whether a volume is reserved for the claim's name.
func reservedFor(o *sts.Observed, claim string) bool {
	for _, volume := range o.Volumes {
		if is := volume.Spec.ClaimRef; is != nil && is.Name == claim && volume.Annotations[api.ClaimManifestAnnotation] != "" {
			return true
		}
	}
	return false
}

// getJSON reads an object as the API server has it; nil if there is none.
func (c *Client) getJSON(ctx context.Context, resource plan.Resource, namespace, name string) ([]byte, error) {
	client, err := c.rest(resource)
	if err != nil {
		return nil, err
	}
	result := client.Get().NamespaceIfScoped(namespace, namespace != "").Resource(plural(resource)).Name(name).
		SetHeader("Accept", runtime.ContentTypeJSON).Do(ctx)
	if err := result.Error(); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", resource, name, fault.FromAPI(err))
	}
	return result.Raw()
}
