package kube

import (
	"context"
	"errors"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"drydock.dev/shared/api"
	"drydock.dev/shared/fault"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/world"
)

// Cluster reads the facts outside of a StatefulSet that a preflight needs.
func (c *Client) Cluster(ctx context.Context, namespace string) (*world.Cluster, error) {
	cluster := &world.Cluster{Classes: map[string]*storagev1.StorageClass{}}
	err := Pages(ctx, c, StorageClasses, "", "", &storagev1.StorageClassList{}, func(l *storagev1.StorageClassList) {
		for i := range l.Items {
			cluster.Classes[l.Items[i].Name] = &l.Items[i]
		}
	})
	if err != nil {
		return nil, err
	}
	err = Pages(ctx, c, Quotas, namespace, "", &corev1.ResourceQuotaList{}, func(l *corev1.ResourceQuotaList) {
		cluster.Quotas = append(cluster.Quotas, l.Items...)
	})
	if err != nil {
		return nil, err
	}
	err = Pages(ctx, c, LimitRanges, namespace, "", &corev1.LimitRangeList{}, func(l *corev1.LimitRangeList) {
		cluster.Limits = append(cluster.Limits, l.Items...)
	})
	if err != nil {
		return nil, err
	}
	labels, err := c.namespaceLabels(ctx, namespace)
	if err != nil {
		return nil, err
	}
	cluster.OwnerConsent = api.ConsentOf(labels)
	cluster.RootMovers, cluster.NodeAccess = labels[api.RootMoverLabel] == api.AllowValue, labels[api.NodeAccessLabel] == api.AllowValue
	cluster.MoverConfig, err = c.MoverConfig(ctx, namespace)
	return cluster, err
}

// AttributesClasses reads the cluster's VolumeAttributesClasses. It returns none if the cluster does not serve them, before Kubernetes
// 1.34.
func (c *Client) AttributesClasses(ctx context.Context) (map[string]*storagev1.VolumeAttributesClass, error) {
	classes := map[string]*storagev1.VolumeAttributesClass{}
	err := Pages(ctx, c, AttributesClasses, "", "", &storagev1.VolumeAttributesClassList{}, func(l *storagev1.VolumeAttributesClassList) {
		for i := range l.Items {
			classes[l.Items[i].Name] = &l.Items[i]
		}
	})
	if apierrors.IsNotFound(err) {
		return classes, nil
	}
	return classes, err
}

// MoverConfig returns the namespace's ConfigMap with options for movers, or nil.
func (c *Client) MoverConfig(ctx context.Context, namespace string) (*corev1.ConfigMap, error) {
	config := &corev1.ConfigMap{}
	found, err := c.Get(ctx, plan.ConfigMaps, namespace, api.MoverConfigMap, config)
	if err != nil || !found {
		return nil, err
	}
	return config, nil
}

// TurnsConfig returns the ConfigMap with the list of turns, or nil. Without a limit for movers, nothing is read.
func (c *Client) TurnsConfig(ctx context.Context, settings api.Settings) (*corev1.ConfigMap, error) {
	if settings.Movers <= 0 {
		return nil, nil
	}
	config := &corev1.ConfigMap{}
	found, err := c.Get(ctx, plan.ConfigMaps, api.HomeNamespace, api.TurnsConfigMap, config)
	if err != nil || !found {
		return nil, err
	}
	return config, nil
}

// RootMovers reports whether the namespace allows movers that run as root.
func (c *Client) RootMovers(ctx context.Context, namespace string) (bool, error) {
	labels, err := c.namespaceLabels(ctx, namespace)
	return labels[api.RootMoverLabel] == api.AllowValue, err
}

// OwnerConsent returns the consent of the namespace to changes of the owners of its StatefulSets.
func (c *Client) OwnerConsent(ctx context.Context, namespace string) (api.OwnerConsent, error) {
	labels, err := c.namespaceLabels(ctx, namespace)
	return api.ConsentOf(labels), err
}

// NamespaceTerminating reports whether the namespace is being deleted.
func (c *Client) NamespaceTerminating(ctx context.Context, namespace string) (bool, error) {
	ns := &corev1.Namespace{}
	found, err := c.Get(ctx, Namespaces, "", namespace, ns)
	return found && ns.DeletionTimestamp != nil, err
}

// namespaceLabels returns the labels of the namespace, or none if it does not exist.
func (c *Client) namespaceLabels(ctx context.Context, namespace string) (map[string]string, error) {
	ns := &corev1.Namespace{}
	if _, err := c.Get(ctx, Namespaces, "", namespace, ns); err != nil {
		return nil, err
	}
	return ns.Labels, nil
}

// MayPatchSet returns nil if the API server accepts the token and its user may patch the StatefulSet. An empty name stands for every
// StatefulSet of the namespace. Otherwise the error is permanent. It does not quote the token.
func (c *Client) MayPatchSet(ctx context.Context, token, namespace, name string) error {
	sender := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	if err := c.review(ctx, tokenReviews, sender); err != nil {
		return fmt.Errorf("reviewing the sender's token: %w", err)
	}
	if !sender.Status.Authenticated {
		return fault.Permanent(errors.New("the API server does not accept the token of the event's sender; send a valid token"))
	}
	user := sender.Status.User
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	access := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, Groups: user.Groups, UID: user.UID, Extra: extra,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "patch", Group: "apps", Version: "v1", Resource: "statefulsets", Namespace: namespace, Name: name,
		},
	}}
	if err := c.review(ctx, accessReviews, access); err != nil {
		return fmt.Errorf("asking whether %s may patch StatefulSet %s/%s: %w", user.Username, namespace, name, err)
	}
	if !access.Status.Allowed {
		return fault.Permanent(fmt.Errorf("user %s may not patch StatefulSet %s/%s, so the event is refused; grant the right or send the event "+
			"as another user", user.Username, namespace, name))
	}
	return nil
}

// review creates a review object and reads the answer into it. If Drydock lacks the right to ask, that says nothing about the sender.
func (c *Client) review(ctx context.Context, resource plan.Resource, object runtime.Object) error {
	client, err := c.rest(resource)
	if err != nil {
		return err
	}
	return client.Post().Resource(string(resource)).VersionedParams(&metav1.CreateOptions{}, parameters).Body(object).Do(ctx).Into(object)
}

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
