package statefulset

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
)

// Held reports whether the pod has Drydock's finalizer, which keeps its object after it has stopped. While the object exists, the
// StatefulSet controller creates no replacement.
func Held(pod *corev1.Pod) bool {
	return pod != nil && slices.Contains(pod.Finalizers, api.HoldFinalizer)
}

// Started reports whether the pod has run on its node. A pod that has not run is never held: its claims may not exist yet, and its
// controller creates them (kubernetes pkg/controller/statefulset, processReplica).
func Started(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && pod.Status.Phase != "" && pod.Status.Phase != corev1.PodPending
}

// WhyNotStopped returns why there is no proof that the held pod's processes have ended and that none will start. It returns "" if there is
// proof. The proof is the report of each container by the kubelet of the pod's own node. Other clients can write everything else about an
// ended pod:
//   - deletionGracePeriodSeconds 0 proves nothing, because a forced deletion sets it while processes run;
//   - the phase alone proves nothing, because the garbage collector of pods sets Failed without the node (kubernetes pkg/controller/podgc);
//   - ContainerStatusUnknown is a kubelet's report of a container whose end it has not seen (kubernetes pkg/kubelet,
//     convertToAPIContainerStatuses).
func WhyNotStopped(pod *corev1.Pod, node *corev1.Node) string {
	switch {
	case pod == nil || !Held(pod):
		return "its pod is not held"
	case pod.DeletionTimestamp == nil:
		return fmt.Sprintf("pod %s has not been told to stop", pod.Name)
	case !Done(pod):
		why := fmt.Sprintf("pod %s is still %s", pod.Name, strings.ToLower(string(pod.Status.Phase)))
		if node != nil && !NodeReady(node) { // the end is not reported before the node is back
			why += fmt.Sprintf(", and its node %s does not report", node.Name)
		}
		return why
	case byGarbageCollector(pod):
		return fmt.Sprintf("the garbage collector deleted pod %s without a report from its node %s", pod.Name, pod.Spec.NodeName)
	case node == nil:
		return fmt.Sprintf("node %s of pod %s does not exist", pod.Spec.NodeName, pod.Name)
	case !NodeReady(node):
		return fmt.Sprintf("node %s of pod %s does not report", node.Name, pod.Name)
	}
	for _, group := range []struct {
		expected int
		reported []corev1.ContainerStatus
	}{
		{len(pod.Spec.InitContainers), pod.Status.InitContainerStatuses},
		{len(pod.Spec.Containers), pod.Status.ContainerStatuses},
		{len(pod.Spec.EphemeralContainers), pod.Status.EphemeralContainerStatuses},
	} {
		if len(group.reported) != group.expected {
			return fmt.Sprintf("the node has not reported all containers of pod %s", pod.Name)
		}
		for _, c := range group.reported {
			switch {
			case c.State.Terminated == nil:
				return fmt.Sprintf("container %s of pod %s has not ended", c.Name, pod.Name)
			case c.State.Terminated.Reason == "ContainerStatusUnknown":
				return fmt.Sprintf("the node does not know how container %s of pod %s has ended", c.Name, pod.Name)
			}
		}
	}
	return ""
}

// byGarbageCollector reports whether the garbage collector of pods ended the pod, without its node
// (kubernetes pkg/controller/podgc, since 1.26 with a condition).
func byGarbageCollector(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == "DeletionByPodGC"
	})
}

// NodeReady reports whether the node is ready according to its status.
func NodeReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// ofDisk matches file systems on disks, which a node mounts once. Drivers of network file systems and of FUSE use other types. They may run
// a process with its own cache for each pod.
var ofDisk = regexp.MustCompile(`^(ext[234]|xfs|btrfs|f2fs|zfs)$`)

// SharesPages reports whether all pods of a node see the volume through one file system of that node's kernel. The next process then reads
// everything that an ended one has written. Every other volume must be unmounted first.
func SharesPages(volume *corev1.PersistentVolume) bool {
	if slices.Contains(volume.Spec.AccessModes, corev1.ReadWriteMany) || slices.Contains(volume.Spec.AccessModes, corev1.ReadOnlyMany) {
		return false
	}
	s := volume.Spec.PersistentVolumeSource
	if s.CSI != nil {
		return ofDisk.MatchString(s.CSI.FSType)
	}
	return s.Local != nil || s.HostPath != nil || s.AWSElasticBlockStore != nil || s.GCEPersistentDisk != nil ||
		s.AzureDisk != nil || s.ISCSI != nil || s.FC != nil || s.RBD != nil || s.Cinder != nil
}

// Unmounted reports whether the kubelet has unmounted the volumes of a stopped pod. Only then does it delete the pod (kubernetes
// pkg/kubelet, SyncTerminatedPod and canBeDeleted), which leaves a held pod without a grace period.
func Unmounted(pod *corev1.Pod) bool {
	return pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0
}
