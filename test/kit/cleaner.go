package kit

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// runCleaner ends a cleanup pod. On success, the data of its claims counts as moved elsewhere.
func (n *Node) runCleaner(ctx context.Context, pod *corev1.Pod) {
	if pod.Status.Phase != corev1.PodRunning {
		return
	}
	volumes, ok := n.volumesOf(ctx, pod, true)
	n.mu.Lock()
	if n.Hold || !ok {
		n.mu.Unlock()
		return
	}
	status := pod.Status.DeepCopy()
	if n.EvictCleaners != "" {
		n.mu.Unlock()
		const message = "The node was low on resource: memory."
		status.Phase = n.EvictCleaners
		if status.Phase == corev1.PodFailed {
			status.Reason, status.Message = "Evicted", message
		}
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
			Reason: corev1.PodReasonTerminationByKubelet, Message: message, LastTransitionTime: metav1.Now()})
		n.setStatus(ctx, pod, *status)
		return
	}
	if n.FailCleaners {
		early := time.Since(n.crashed[pod.UID]) < crashPause
		if !early {
			n.crashed[pod.UID] = time.Now()
		}
		n.mu.Unlock()
		if early {
			return
		}
		n.failCleaner(ctx, pod, status)
		return
	}
	if !n.ended[pod.UID] {
		n.order = append(n.order, pod.Name)
	}
	n.ended[pod.UID] = true
	n.mu.Unlock()
	for claim := range volumes {
		if c, err := n.w.Kube.CoreV1().PersistentVolumeClaims(pod.Namespace).Get(ctx, claim, metav1.GetOptions{}); err == nil {
			n.Set(func(n *Node) { n.cleaned[c.UID] = true })
		}
	}
	status.Phase = corev1.PodSucceeded
	status.ContainerStatuses = []corev1.ContainerStatus{{Name: pod.Spec.Containers[0].Name,
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: SettledEnd()}}}}
	n.setStatus(ctx, pod, *status)
}

// SettledEnd returns the end of a container that is old enough to be judged at once.
func SettledEnd() metav1.Time { return metav1.NewTime(time.Now().Add(-10 * time.Second)) }

// crashPause is the time between two runs of a failing container. The kubelet waits for ten seconds and more. Without a pause, a client
// that deletes the pod would never find it unchanged.
const crashPause = 400 * time.Millisecond

// failCleaner writes the kubelet's status for a container that has failed and will be restarted.
func (n *Node) failCleaner(ctx context.Context, pod *corev1.Pod, status *corev1.PodStatus) {
	runs := int32(0)
	if len(status.ContainerStatuses) > 0 {
		runs = status.ContainerStatuses[0].RestartCount + 1
	}
	status.ContainerStatuses = []corev1.ContainerStatus{{Name: pod.Spec.Containers[0].Name, RestartCount: runs,
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3,
			Message: "connecting to db-0\nno route to host\n", FinishedAt: metav1.Now()}}}}
	n.setStatus(ctx, pod, *status)
}

// watchClaims records deleted claims.
func (n *Node) watchClaims(seen []*corev1.PersistentVolumeClaim) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seeClaims(n.last, seen)
	n.last = map[types.UID]string{}
	for _, c := range seen {
		n.last[c.UID] = c.Name
	}
}

// seeClaims records the present claims, and the claims that have disappeared since before.
func (n *Node) seeClaims(before map[types.UID]string, now []*corev1.PersistentVolumeClaim) {
	there := map[types.UID]bool{}
	for _, c := range now {
		n.claims[c.UID] = c.Name
		there[c.UID] = true
		if c.DeletionTimestamp != nil {
			n.lose(c.UID, c.Name)
		}
	}
	for uid, name := range before {
		if !there[uid] {
			n.lose(uid, name)
		}
	}
}

func (n *Node) lose(uid types.UID, name string) {
	if n.deleted[uid] {
		return
	}
	n.deleted[uid] = true
	if n.cleaned[uid] {
		n.newest[name] = 0 // a new pod of the same member needs another cleanup
	} else if n.GuardClaims {
		n.violations = append(n.violations, fmt.Sprintf("claim %s was deleted and no cleanup pod had succeeded on it", name))
	}
}

// CleanedPods returns the names of the cleanup pods that have succeeded, in order.
func (n *Node) CleanedPods() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.order)
}

// DeletedClaims returns the sorted names of the deleted claims. It lists the claims at once, because on a busy machine the node's latest
// step may be older than the event that a test waits for.
func (n *Node) DeletedClaims() []string {
	n.mu.Lock()
	before := maps.Clone(n.claims)
	n.mu.Unlock()
	list, err := n.w.Kube.CoreV1().PersistentVolumeClaims(n.w.Namespace).List(context.Background(), metav1.ListOptions{})
	n.w.must(err)
	now := make([]*corev1.PersistentVolumeClaim, len(list.Items))
	for i := range list.Items {
		now[i] = &list.Items[i]
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seeClaims(before, now)
	var names []string
	for uid := range n.deleted {
		names = append(names, n.claims[uid])
	}
	slices.Sort(names)
	return names
}
