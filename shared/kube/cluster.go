package kube

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"drydock.dev/shared/api"
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
