package kit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/moverreport"
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

// setStatus writes the kubelet's report, and reports whether the API server has accepted it. The next step repeats a
// failed write.
func (n *Node) setStatus(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus) bool {
	pod = pod.DeepCopy()
	pod.Status = status
	_, err := n.w.Kube.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err == nil
}

func ready(status corev1.ConditionStatus, reason string) []corev1.PodCondition {
	return []corev1.PodCondition{{Type: corev1.PodReady, Status: status, Reason: reason, LastTransitionTime: metav1.Now()}}
}

// moverStatus returns the status of a mover whose pin has not started.
func moverStatus(phase corev1.PodPhase, first, final corev1.ContainerStatus) corev1.PodStatus {
	return corev1.PodStatus{Phase: phase, StartTime: ptr.To(metav1.Now()), InitContainerStatuses: []corev1.ContainerStatus{first, final},
		ContainerStatuses: []corev1.ContainerStatus{waiting(moverreport.PinContainer)}, Conditions: ready(corev1.ConditionFalse,
			"ContainersNotInitialized")}
}

// failed returns the status of a mover whose running container has ended with the report.
func failed(pod *corev1.Pod, report moverreport.MemberReport) corev1.PodStatus {
	if report.Stage == moverreport.FirstContainer {
		return moverStatus(corev1.PodFailed, ended(moverreport.FirstContainer, report), waiting(moverreport.FinalContainer))
	}
	return moverStatus(corev1.PodFailed, pod.Status.InitContainerStatuses[0], ended(moverreport.FinalContainer, report))
}

func running(container string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: container, Ready: true, Started: ptr.To(true),
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}}
}

func waiting(container string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: container,
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}}
}

func ended(container string, report moverreport.MemberReport) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: container, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: int32(report.Code), Message: string(
			report.Encode(moverreport.TerminationLogLimit)), StartedAt: metav1.Now(), FinishedAt: metav1.Now()}}}
}
