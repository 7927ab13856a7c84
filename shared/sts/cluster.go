package sts

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// Cluster is what has to be known beyond a StatefulSet before its volumes are touched: what the cluster offers, and what its
// namespace allows.
type Cluster struct {
	Classes map[string]*storagev1.StorageClass
	Quotas  []corev1.ResourceQuota
	Limits  []corev1.LimitRange
	// RootMovers are allowed in the namespace.
	RootMovers bool
	// NodeAccess: sets whose pods get hold of their node may be created again in the namespace.
	NodeAccess bool
	// MoverConfig says how movers run in the namespace; nil if nothing does.
	MoverConfig *corev1.ConfigMap
}
