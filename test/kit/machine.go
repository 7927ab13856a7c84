package kit

import (
	"context"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// heartbeats are the machines of this process that send heartbeats. The node lifecycle controller marks a machine as unreachable if it has
// not renewed its Lease for 50 s.
type heartbeats struct {
	mu      sync.Mutex
	beating map[string]bool
}

var machines = heartbeats{beating: map[string]bool{}}

const heartbeat = 10 * time.Second

// report creates the node if necessary, marks it as ready, and renews its Lease until the process ends or the machine
// is lost.
func (h *heartbeats) report(t testing.TB, kube kubernetes.Interface, name string) {
	t.Helper()
	h.mu.Lock()
	known := h.beating[name]
	h.beating[name] = true
	h.mu.Unlock()
	if known {
		return
	}
	ctx := context.Background()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := kube.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatalf("creating node %s: %v", name, err)
	}
	if err := SetNodeReady(ctx, kube, name, corev1.ConditionTrue); err != nil {
		t.Fatalf("node %s: %v", name, err)
	}
	go func() {
		for h.beats(name) {
			renewLease(ctx, kube, name)
			time.Sleep(heartbeat)
		}
	}()
}

func (h *heartbeats) beats(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.beating[name]
}

func (h *heartbeats) stop(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.beating, name)
}

// renewLease tells the node lifecycle controller that the kubelet is alive. The next heartbeat repeats a failed
// renewal.
func renewLease(ctx context.Context, kube kubernetes.Interface, name string) {
	leases, now := kube.CoordinationV1().Leases(corev1.NamespaceNodeLease), metav1.NowMicro()
	lease, err := leases.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: ptr.To[int32](40), RenewTime: &now}}
		_, _ = leases.Create(ctx, lease, metav1.CreateOptions{})
		return
	}
	if err == nil {
		lease.Spec.RenewTime = &now
		_, _ = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
}

// SetNodeReady writes the node's Ready condition, like a kubelet or the node lifecycle controller.
func SetNodeReady(ctx context.Context, kube kubernetes.Interface, name string, ready corev1.ConditionStatus) error {
	now := time.Now().UTC().Format(time.RFC3339)
	body := `{"status":{"conditions":[{"type":"Ready","status":"` + string(ready) + `","reason":"Kit","lastHeartbeatTime":"` + now +
		`","lastTransitionTime":"` + now + `"}]}}`
	_, err := kube.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{}, "status")
	return err
}

const nodeName = "kit"

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

// Trouble is a failure of a running mover. A held mover can fail, too.
type Trouble string

const (
	// Evicted: the kubelet reclaims its memory.
	Evicted Trouble = "evicted"
	// OutOfMemory: the kernel kills it at its own memory limit.
	OutOfMemory Trouble = "out of memory"
	// Deleted: a user deletes its pod.
	Deleted Trouble = "deleted"
)

// hazards are the failures of pods and machines that a Node plays.
type hazards struct {
	// Troubles are the failures of the next movers, one each, in this order.
	Troubles []Trouble
	// Trouble is the failure of every later mover.
	Trouble Trouble
	// NoImage: the movers' image cannot be pulled.
	NoImage bool
	// Sidecar keeps running in every mover's pod after the copy has ended.
	Sidecar bool

	fates   map[types.UID]Trouble
	machine string          // the machine of the pods; empty for the machine that all worlds share
	lost    map[string]bool // the lost machines
}

// playTrouble lets a running mover fail, and reports whether it has a failure to play. It repeats this until the end is
// observed.
func (n *Node) playTrouble(ctx context.Context, pod *corev1.Pod) bool {
	switch trouble := n.troubleOf(pod.UID); trouble {
	case "":
		return false
	case Deleted:
		_ = n.w.Kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{})
	default:
		n.setStatus(ctx, pod, troubledStatus(pod, trouble))
	}
	return true
}

// troubleOf returns the failure of the mover. A running mover without one may get the next failure.
func (n *Node) troubleOf(mover types.UID) Trouble {
	n.mu.Lock()
	defer n.mu.Unlock()
	if trouble, known := n.fates[mover]; known || n.ended[mover] {
		return trouble
	}
	trouble := n.Trouble
	if len(n.Troubles) > 0 {
		trouble, n.Troubles = n.Troubles[0], n.Troubles[1:]
	}
	if trouble != "" {
		if n.fates == nil {
			n.fates = map[types.UID]Trouble{}
		}
		n.fates[mover] = trouble
	}
	return trouble
}

// troubledStatus returns the status that the kubelet reports for a killed pod (kubernetes pkg/kubelet/eviction,
// pkg/kubelet/kuberuntime).
func troubledStatus(pod *corev1.Pod, trouble Trouble) corev1.PodStatus {
	ended := &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "Error", FinishedAt: metav1.Now()}
	status := *pod.Status.DeepCopy()
	status.Phase, status.Conditions = corev1.PodFailed, ready(corev1.ConditionFalse, "PodFailed")
	if len(status.InitContainerStatuses) == 0 { // it has just started
		status.InitContainerStatuses, status.ContainerStatuses = unstarted(pod.Spec.InitContainers), unstarted(pod.Spec.Containers)
		status.InitContainerStatuses[0].State.Running = &corev1.ContainerStateRunning{}
	}
	for _, all := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for i := range all {
			if all[i].State.Running != nil { // a waiting container keeps its state (kubernetes pkg/kubelet/status, TerminatePod)
				all[i].Ready, all[i].Started = false, nil
				all[i].State = corev1.ContainerState{Terminated: ended}
			}
		}
	}
	switch trouble {
	case OutOfMemory:
		ended.Reason = "OOMKilled"
		return status
	case Deleted:
		return status
	}
	status.Reason, status.Message = "Evicted", "The node was low on resource: memory."
	status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "TerminationByKubelet",
		Message: status.Message, LastTransitionTime: metav1.Now()}}
	return status
}

// unstarted returns container statuses without a state.
func unstarted(containers []corev1.Container) []corev1.ContainerStatus {
	var all []corev1.ContainerStatus
	for _, c := range containers {
		all = append(all, corev1.ContainerStatus{Name: c.Name, Image: c.Image})
	}
	return all
}

// withSidecar adds an injected, running container to a status.
func withSidecar(ended corev1.PodStatus) corev1.PodStatus {
	ended.ContainerStatuses = append(ended.ContainerStatuses, corev1.ContainerStatus{Name: "mesh-proxy",
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}})
	return ended
}
