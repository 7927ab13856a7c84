package world

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"drydock.dev/shared/api"
)

// Cluster has the facts outside of a StatefulSet that a preflight needs: the classes of the cluster, and the limits and permissions of the
// namespace.
type Cluster struct {
	Classes map[string]*storagev1.StorageClass
	// Attributes are the VolumeAttributesClasses. They are nil if the request names none.
	Attributes map[string]*storagev1.VolumeAttributesClass
	Quotas     []corev1.ResourceQuota
	Limits     []corev1.LimitRange
	// OwnerConsent is the consent of the namespace to changes of the custom resources that control its StatefulSets.
	OwnerConsent api.OwnerConsent
	// RootMovers is true if the namespace allows movers to run as root.
	RootMovers bool
	// NodeAccess is true if sets with access to their node may be created again in the namespace.
	NodeAccess bool
	// MoverConfig is the ConfigMap with the mover options of the namespace, or nil.
	MoverConfig *corev1.ConfigMap
}
