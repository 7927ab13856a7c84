package kit

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (n *Node) stop() {
	n.cancel()
	<-n.done
}

// AcceptOldData makes the older data of the volume the newest data of the claim, because its user has asked for it. Newer data
// is given up.
func (n *Node) AcceptOldData(claim, volume string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wanted[claim] = volume
}

// LostData returns the claims whose newest data is on no volume any more (I1).
func (n *Node) LostData() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	there := map[int]bool{}
	for _, version := range n.versions {
		there[version] = true
	}
	var lost []string
	for claim, newest := range n.newest {
		if newest > 0 && !there[newest] {
			lost = append(lost, fmt.Sprintf("version %d of claim %s is on no volume", newest, claim))
		}
	}
	return lost
}

// attachedElsewhere reports whether a pod on another machine uses one of the pod's claims, so that the volume is attached there. The
// attach/detach controller waits for the end of that pod (kubernetes pkg/controller/volume/attachdetach/reconciler).
func (n *Node) attachedElsewhere(pods []*corev1.Pod, pod *corev1.Pod) bool {
	return slices.ContainsFunc(pods, func(other *corev1.Pod) bool {
		done := other.Status.Phase == corev1.PodSucceeded || other.Status.Phase == corev1.PodFailed
		if done || other.Spec.NodeName == "" || other.Spec.NodeName == pod.Spec.NodeName || n.onLostMachine(other) {
			return false
		}
		return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil && mounts(other, v.PersistentVolumeClaim.ClaimName)
		})
	})
}

// hasUnboundClaim reports whether one of the pod's claims is not bound in the node's cache.
func (n *Node) hasUnboundClaim(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		if v.PersistentVolumeClaim == nil {
			return false
		}
		c, err := n.w.cluster.claims.PersistentVolumeClaims(pod.Namespace).Get(v.PersistentVolumeClaim.ClaimName)
		return err != nil || c.Status.Phase != corev1.ClaimBound
	})
}

func (n *Node) schedule(ctx context.Context, pod *corev1.Pod) {
	n.mu.Lock()
	full := n.Full && len(requiredTerms(pod)) > 0 || n.needsLostMachine(pod)
	n.mu.Unlock()
	if full {
		return // like the scheduler, which chooses a node before it has a volume provisioned there
	}
	if _, ok := n.volumesOf(ctx, pod, false); !ok {
		return
	}
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target: corev1.ObjectReference{Kind: "Node", Name: n.machineName()}}
	_ = n.w.Kube.CoreV1().Pods(pod.Namespace).Bind(ctx, binding, metav1.CreateOptions{})
}

// volumesOf returns the pod's volumes by claim, if every claim is bound. The scheduler refuses a claim that is being deleted. The kubelet
// refuses it when claim protection has removed its finalizer.
func (n *Node) volumesOf(ctx context.Context, pod *corev1.Pod, kubelet bool) (map[string]string, bool) {
	volumes := map[string]string{}
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		c, err := n.w.Kube.CoreV1().PersistentVolumeClaims(pod.Namespace).Get(ctx, v.PersistentVolumeClaim.ClaimName, metav1.GetOptions{})
		if err != nil || c.Status.Phase != corev1.ClaimBound {
			return nil, false
		}
		protected := strings.Contains(strings.Join(c.Finalizers, " "), "kubernetes.io/pvc-protection")
		if c.DeletionTimestamp != nil && (!kubelet || !protected) {
			return nil, false
		}
		volumes[c.Name] = c.Spec.VolumeName
	}
	return volumes, true
}

func mounts(pod *corev1.Pod, claim string) bool {
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim {
			return true
		}
	}
	return false
}
