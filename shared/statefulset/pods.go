package statefulset

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/resource"

	"drydock.dev/shared/api"
)

// Mounts reports whether the claim is one of the pod's volumes.
func Mounts(pod *corev1.Pod, claim string) bool {
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim {
			return true
		}
	}
	return false
}

// Done reports whether the pod's containers have ended and will not start again.
func Done(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// PodReady reports whether the pod is ready according to its status.
func PodReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// Consumers returns the pods with the claim, without finished pods. A pod that is being deleted counts until it is gone, because the
// kubelet removes it only after it has unmounted its volumes.
func Consumers(pods []*corev1.Pod, claim string) []*corev1.Pod {
	var using []*corev1.Pod
	for _, p := range pods {
		if !Done(p) && Mounts(p, claim) {
			using = append(using, p)
		}
	}
	return using
}

// IsPodOf reports whether the StatefulSet controls the pod. It also returns true for an orphaned pod that matches the set's selector: a set
// that was deleted with orphan propagation and created again adopts its pods.
func IsPodOf(pod *corev1.Pod, set *appsv1.StatefulSet) bool {
	owner := metav1.GetControllerOf(pod)
	if owner == nil { // orphaned: the next owner with a matching selector adopts it
		return Selects(set, pod.Labels)
	}
	return owner.UID == set.UID
}

// Selects reports whether the set's selector matches the labels. The StatefulSet controller treats a pod with these labels as a pod of the
// set.
func Selects(set *appsv1.StatefulSet, labels map[string]string) bool {
	return set.Spec.Selector != nil && selects(set.Spec.Selector, labels)
}

// SelectorOf returns the set's selector as text. An unreadable selector yields a text that selects no pod.
func SelectorOf(set *appsv1.StatefulSet) string {
	s, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil || set.Spec.Selector == nil {
		return "drydock.dev/none,!drydock.dev/none"
	}
	return s.String()
}

func selects(selector *metav1.LabelSelector, present map[string]string) bool {
	s, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && !s.Empty() && s.Matches(labels.Set(present))
}

// ReadySince returns when the pod's condition Ready became true.
func ReadySince(pod *corev1.Pod) (since time.Time, ready bool) {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time, true
		}
	}
	return time.Time{}, false
}

// IsPrimary reports whether the pod has the label of the set's primary, see api.PrimaryAnnotation.
func IsPrimary(set *appsv1.StatefulSet, pod *corev1.Pod) bool {
	key, value, ok := api.PrimaryLabel(set)
	return ok && pod != nil && pod.Labels[key] == value
}

// Ordered reports whether the pods of the set end one after the other, the highest ordinal first.
func Ordered(set *appsv1.StatefulSet) bool {
	return set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement
}

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

// PodRequests returns what a pod with the spec requests from its node, as the scheduler counts it. A request that a LimitRange adds is
// missing.
func PodRequests(spec *corev1.PodSpec) corev1.ResourceList {
	pod := &corev1.Pod{Spec: *spec.DeepCopy()}
	if pod.Spec.Resources != nil {
		requestLimits(pod.Spec.Resources)
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			requestLimits(&containers[i].Resources)
		}
	}
	return resource.PodRequests(pod, resource.PodResourcesOptions{})
}

// requestLimits makes each limit without a request the request, as the API server does in pods (kubernetes pkg/apis/core/v1
// SetDefaults_Pod). It does not do so in templates of pods.
func requestLimits(of *corev1.ResourceRequirements) {
	for name, limit := range of.Limits {
		if _, found := of.Requests[name]; !found {
			if of.Requests == nil {
				of.Requests = corev1.ResourceList{}
			}
			of.Requests[name] = limit
		}
	}
}
