package kit

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
)

// grow plays the resizer of a CSI driver (kubernetes-csi external-resizer).
func (n *Node) grow(ctx context.Context, claims []*corev1.PersistentVolumeClaim) {
	n.mu.Lock()
	growth := n.Growth
	n.mu.Unlock()
	if growth == GrowsLater {
		return
	}
	for _, seen := range claims {
		c := seen.DeepCopy()
		wants, has := c.Spec.Resources.Requests[corev1.ResourceStorage], c.Status.Capacity[corev1.ResourceStorage]
		if c.Status.Phase != corev1.ClaimBound || c.DeletionTimestamp != nil || wants.Cmp(has) <= 0 {
			continue
		}
		switch growth {
		case GrowsNever:
			n.refuseGrowth(ctx, c)
		case GrowsDetached:
			if !n.inUse(c.Name) {
				n.growVolume(ctx, c)
			}
		case GrowsWhenMounted:
			n.growVolume(ctx, c)
		default:
			n.growVolume(ctx, c)
			n.growFileSystem(ctx, c)
		}
	}
}

// inUse reports whether a pod uses the claim and has not ended, or has ended and still mounts it.
func (n *Node) inUse(claim string) bool {
	pods, _ := n.w.cluster.pods.Pods(n.w.Namespace).List(labels.Everything())
	return slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
		done := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		unmounted := done && pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0
		return mounts(pod, claim) && pod.Spec.NodeName != "" && !unmounted
	})
}

func (n *Node) growVolume(ctx context.Context, c *corev1.PersistentVolumeClaim) {
	volume, err := n.w.Kube.CoreV1().PersistentVolumes().Get(ctx, c.Spec.VolumeName, metav1.GetOptions{})
	wants := c.Spec.Resources.Requests[corev1.ResourceStorage]
	if has := volume.Spec.Capacity[corev1.ResourceStorage]; err != nil || has.Cmp(wants) >= 0 {
		return
	}
	volume.Spec.Capacity[corev1.ResourceStorage] = wants
	if _, err := n.w.Kube.CoreV1().PersistentVolumes().Update(ctx, volume, metav1.UpdateOptions{}); err != nil {
		return
	}
	c.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: corev1.PersistentVolumeClaimFileSystemResizePending,
		Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(), Message: "waiting for a pod to be started"}}
	if made, err := n.w.Kube.CoreV1().PersistentVolumeClaims(c.Namespace).UpdateStatus(ctx, c, metav1.UpdateOptions{}); err == nil {
		*c = *made
	}
}

func (n *Node) growFileSystem(ctx context.Context, c *corev1.PersistentVolumeClaim) {
	c.Status.Conditions, c.Status.AllocatedResources, c.Status.AllocatedResourceStatuses = nil, nil, nil
	c.Status.Capacity[corev1.ResourceStorage] = c.Spec.Resources.Requests[corev1.ResourceStorage]
	_, _ = n.w.Kube.CoreV1().PersistentVolumeClaims(c.Namespace).UpdateStatus(ctx, c, metav1.UpdateOptions{})
}

func (n *Node) refuseGrowth(ctx context.Context, c *corev1.PersistentVolumeClaim) {
	if c.Status.AllocatedResourceStatuses[corev1.ResourceStorage] != "" {
		return
	}
	c.Status.AllocatedResources = corev1.ResourceList{corev1.ResourceStorage: c.Spec.Resources.Requests[corev1.ResourceStorage]}
	c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{
		corev1.ResourceStorage: corev1.PersistentVolumeClaimControllerResizeInfeasible}
	c.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: corev1.PersistentVolumeClaimControllerResizeError,
		Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(), Message: "the pool has 80Mi left"}}
	_, _ = n.w.Kube.CoreV1().PersistentVolumeClaims(c.Namespace).UpdateStatus(ctx, c, metav1.UpdateOptions{})
}

// modify plays the resizer for a claim that asks for another VolumeAttributesClass. It grants any class, unless Growth is GrowsNever or
// GrowsLater.
func (n *Node) modify(ctx context.Context, claims []*corev1.PersistentVolumeClaim) {
	n.mu.Lock()
	growth := n.Growth
	n.mu.Unlock()
	for _, seen := range claims {
		c := seen.DeepCopy()
		asks, has := ptr.Deref(c.Spec.VolumeAttributesClassName, ""), ptr.Deref(c.Status.CurrentVolumeAttributesClassName, "")
		if c.Status.Phase != corev1.ClaimBound || c.DeletionTimestamp != nil || asks == has && c.Status.ModifyVolumeStatus == nil {
			continue
		}
		switch {
		case growth == GrowsLater:
			continue
		case asks == "":
			c.Status.ModifyVolumeStatus = nil
		case growth == GrowsNever:
			n.refuseAttributes(ctx, c, asks)
			continue
		default:
			n.giveAttributes(ctx, c.Spec.VolumeName, asks)
			c.Status.CurrentVolumeAttributesClassName, c.Status.ModifyVolumeStatus = &asks, nil
		}
		_, _ = n.w.Kube.CoreV1().PersistentVolumeClaims(c.Namespace).UpdateStatus(ctx, c, metav1.UpdateOptions{})
	}
}

func (n *Node) giveAttributes(ctx context.Context, name, class string) {
	volume, err := n.w.Kube.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return
	}
	volume.Spec.VolumeAttributesClassName = &class
	_, _ = n.w.Kube.CoreV1().PersistentVolumes().Update(ctx, volume, metav1.UpdateOptions{})
}

func (n *Node) refuseAttributes(ctx context.Context, c *corev1.PersistentVolumeClaim, class string) {
	if c.Status.ModifyVolumeStatus != nil {
		return
	}
	c.Status.ModifyVolumeStatus = &corev1.ModifyVolumeStatus{TargetVolumeAttributesClassName: class,
		Status: corev1.PersistentVolumeClaimModifyVolumeInfeasible}
	c.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: corev1.PersistentVolumeClaimVolumeModifyVolumeError,
		Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(), Message: "volumes have no attribute colour"}}
	_, _ = n.w.Kube.CoreV1().PersistentVolumeClaims(c.Namespace).UpdateStatus(ctx, c, metav1.UpdateOptions{})
}

// growMountedFileSystems plays the kubelet, which expands the file system of a larger volume when it mounts the volume.
func (n *Node) growMountedFileSystems(ctx context.Context, pod *corev1.Pod) {
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		c, err := n.w.Kube.CoreV1().PersistentVolumeClaims(pod.Namespace).Get(ctx, v.PersistentVolumeClaim.ClaimName, metav1.GetOptions{})
		if err == nil && len(c.Status.Conditions) > 0 &&
			c.Status.Conditions[0].Type == corev1.PersistentVolumeClaimFileSystemResizePending {
			n.growFileSystem(ctx, c)
		}
	}
}
