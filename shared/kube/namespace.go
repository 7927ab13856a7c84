package kube

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
)

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
