package kit

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

func startNode(t testing.TB, w *World) *Node {
	ctx, cancel := context.WithCancel(context.Background())
	n := &Node{t: t, w: w, cancel: cancel, done: make(chan struct{}),
		versions: map[string]int{}, newest: map[string]int{}, started: map[types.UID]bool{}, ended: map[types.UID]bool{},
		writers: map[types.UID]writer{}, wanted: map[string]string{}, cleaners: newCleaners()}
	machines.report(t, w.Kube, nodeName)
	changed := w.cluster.changes(t, w.Namespace)
	go func() {
		defer close(n.done)
		for ctx.Err() == nil {
			n.step(ctx)
			await(ctx, changed, idlePause)
		}
	}()
	return n
}

// idlePause is the longest pause between two steps. A test may change the node's behaviour at any time.
const idlePause = 100 * time.Millisecond

// step reads the objects and does one step for each of them. Like a kubelet it may see an old state. Then the API
// server refuses the write,
// or the write changes nothing.
func (n *Node) step(ctx context.Context) {
	claims, _ := n.w.cluster.claims.PersistentVolumeClaims(n.w.Namespace).List(labels.Everything())
	pods, _ := n.w.cluster.pods.Pods(n.w.Namespace).List(labels.Everything())
	n.provision(ctx, claims, pods)
	n.grow(ctx, claims)
	n.modify(ctx, claims)
	n.watchClaims(claims)
	n.forgetDeletedPods(pods)
	n.runPods(ctx, pods)
	n.reclaim(ctx)
}

// runPods schedules pods, runs them, and ends the deleted pods.
func (n *Node) runPods(ctx context.Context, pods []*corev1.Pod) {
	for _, pod := range pods {
		switch {
		case n.onLostMachine(pod):
		case pod.DeletionTimestamp != nil && pod.Spec.NodeName != "":
			n.endPod(ctx, pod)
		case pod.DeletionTimestamp != nil: // the API server deletes it
		case pod.Spec.NodeName == "":
			if len(pod.Spec.SchedulingGates) == 0 && !n.hasUnboundClaim(pod) {
				n.schedule(ctx, pod)
			}
		case isMover(pod) && (pod.Status.Phase == corev1.PodPending || pod.Status.Phase == corev1.PodRunning):
			n.runMover(ctx, pod)
		case pod.Status.Phase == corev1.PodPending && n.attachedElsewhere(pods, pod):
		case pod.Status.Phase == corev1.PodPending:
			n.startPod(ctx, pod)
		case isCleaner(pod):
			n.runCleaner(ctx, pod)
		}
	}
}
