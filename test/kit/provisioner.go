package kit

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
)

const provisioner = "kit.drydock.dev"

// provision creates a volume for every unbound claim with a consumer.
func (n *Node) provision(ctx context.Context, claims []*corev1.PersistentVolumeClaim, pods []*corev1.Pod) {
	for _, c := range claims {
		if c.Spec.VolumeName != "" || c.DeletionTimestamp != nil || !used(pods, c.Name) || n.reserved(ctx, c) {
			continue
		}
		volume := makeVolume(c)
		if _, err := n.w.Kube.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{}); err == nil {
			n.Set(func(n *Node) { n.versions[volume.Name] = 0 })
		}
	}
}

func used(pods []*corev1.Pod, claim string) bool {
	for _, pod := range pods {
		if mounts(pod, claim) && pod.DeletionTimestamp == nil {
			return true
		}
	}
	return false
}

// reserved reports whether a volume is reserved for the claim. Then no provisioner is asked. It asks the API server
// before it answers no.
func (n *Node) reserved(ctx context.Context, c *corev1.PersistentVolumeClaim) bool {
	waits := func(v *corev1.PersistentVolume) bool {
		ref := v.Spec.ClaimRef
		return ref != nil && ref.Namespace == c.Namespace && ref.Name == c.Name && (ref.UID == "" || ref.UID == c.UID)
	}
	if slices.ContainsFunc(n.w.cluster.volumesOf(n.w.Namespace), waits) {
		return true
	}
	volumes, err := n.w.Kube.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return true
	}
	return slices.ContainsFunc(volumes.Items, func(v corev1.PersistentVolume) bool { return waits(&v) })
}

func makeVolume(c *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv-" + string(c.UID),
			Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": provisioner}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: c.Spec.Resources.Requests[corev1.ResourceStorage]},
			AccessModes: c.Spec.AccessModes, VolumeMode: c.Spec.VolumeMode, StorageClassName: *c.Spec.StorageClassName,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			VolumeAttributesClassName:     c.Spec.VolumeAttributesClassName,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: provisioner, FSType: "ext4", VolumeHandle: string(c.UID)}},
			ClaimRef: &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: c.Namespace, Name: c.Name,
				UID: c.UID},
		},
	}
}

// reclaim destroys released volumes with the reclaim policy Delete.
func (n *Node) reclaim(ctx context.Context) {
	for _, v := range n.w.cluster.volumesOf(n.w.Namespace) {
		if v.Status.Phase != corev1.VolumeReleased || v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
			continue
		}
		if err := n.w.Kube.CoreV1().PersistentVolumes().Delete(ctx, v.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &v.UID, ResourceVersion: &v.ResourceVersion}}); err == nil {
			n.Set(func(n *Node) { delete(n.versions, v.Name) })
		}
	}
}

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
