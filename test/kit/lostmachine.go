package kit

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UseMachine puts the world's pods on a machine of their own, which can be lost.
func (w *World) UseMachine() {
	w.T.Helper()
	name, ctx := "machine-of-"+w.Namespace, context.Background()
	machines.report(w.T, w.Kube, name)
	w.T.Cleanup(func() {
		machines.stop(name)
		_ = w.Kube.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
	})
	w.Node.Set(func(n *Node) { n.machine = name })
}

// LoseMachine removes the machine with everything that runs on it, as a cloud does. Its volumes can be attached
// elsewhere. The pod garbage
// collector needs a minute to delete the pods (kubernetes pkg/controller/podgc).
func (w *World) LoseMachine() {
	w.T.Helper()
	name := ""
	w.Node.Set(func(n *Node) {
		name, n.machine = n.machine, ""
		n.lost = map[string]bool{name: true}
	})
	machines.stop(name)
	if err := w.Kube.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		w.T.Fatalf("deleting node %s: %v", name, err)
	}
}

// machineName returns the machine of new pods.
func (n *Node) machineName() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.machine != "" {
		return n.machine
	}
	return nodeName
}

// onLostMachine reports whether the pod's machine is lost. Then nothing runs there, and no kubelet ends the pod.
func (n *Node) onLostMachine(pod *corev1.Pod) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lost[pod.Spec.NodeName]
}

// needsLostMachine reports whether the pod must run on a lost machine. The caller has locked the node.
func (n *Node) needsLostMachine(pod *corev1.Pod) bool {
	for _, term := range requiredTerms(pod) {
		for _, field := range term.MatchFields {
			if n.lost[field.Values[0]] {
				return true
			}
		}
	}
	return false
}

// requiredTerms returns the required terms of the pod's node affinity.
func requiredTerms(pod *corev1.Pod) []corev1.NodeSelectorTerm {
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	return affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
}
