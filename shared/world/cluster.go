package world

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// Cluster has the facts beyond a StatefulSet that a preflight needs: the cluster's classes, and the limits and permissions of its
// namespace.
type Cluster struct {
	Classes map[string]*storagev1.StorageClass
	// Attributes are the VolumeAttributesClasses; nil where the request names none.
	Attributes map[string]*storagev1.VolumeAttributesClass
	Quotas     []corev1.ResourceQuota
	Limits     []corev1.LimitRange
	// RootMovers are allowed in the namespace.
	RootMovers bool
	// NodeAccess: sets whose pods get hold of their node may be created again in the namespace.
	NodeAccess bool
	// MoverConfig says how movers run in the namespace; nil if nothing does.
	MoverConfig *corev1.ConfigMap
}
