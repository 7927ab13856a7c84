package kit

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
