package kit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/moverreport"
)

const (
	provisioner = "kit.drydock.dev"
	nodeName    = "kit"
)

// Node plays the machines of a World: it provisions volumes, schedules pods and runs them. It also keeps a model of the
// data. Each volume has
// a version. A member that starts writes, so the version of its volumes grows. A mover copies its source's version. A
// pod that starts on
// any other version than the newest of its claim breaks I1.
type Node struct {
	t      testing.TB
	w      *World
	cancel context.CancelFunc
	done   chan struct{}

	mu sync.Mutex
	// latest is the version of the last write to any claim. Versions are unique.
	latest int
	// versions of the data, by volume name. A destroyed volume has none.
	versions map[string]int
	// newest version of the data, by claim name.
	newest map[string]int
	// started and ended are the pods that have begun and finished their work. The watch may show an older state.
	started, ended map[types.UID]bool
	// writers are the running pods of sets.
	writers map[types.UID]writer
	// wanted is the volume to whose older data a user has returned, by claim name.
	wanted     map[string]string
	violations []string
	// Warning is the warning of every mover. It may be empty.
	Warning string
	// FailMovers makes every first pass fail, FailFinal every final pass. The target is full, unless Failure has
	// another cause.
	FailMovers, FailFinal bool
	Failure               moverreport.MemberReport
	// NeverConverge: the first passes never get short enough.
	NeverConverge bool
	// HoldFirstPass keeps first passes from ending. Hold keeps final passes and cleanup pods from ending.
	Hold, HoldFirstPass bool
	// HoldPods keeps the pods of sets from starting, like a database that waits for its operator. HoldStops keeps
	// terminating pods from
	// ending.
	HoldPods, HoldStops bool
	// FailCleaners makes every run of a cleanup pod's container fail. EvictCleaners evicts each cleanup pod.
	FailCleaners, EvictCleaners bool
	// Full: the shared machine has no room for a pod that requires it.
	Full bool
	// Growth is how the storage expands claims of a class that allows it.
	Growth Growth

	*cleaners
	hazards
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

func (n *Node) stop() {
	n.cancel()
	<-n.done
}

// Set changes the behaviour of the running node.
func (n *Node) Set(change func(*Node)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change(n)
}

// Violations returns the breaches of I1 so far.
func (n *Node) Violations() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.violations...)
}

// Version returns the version of the data on the volume, and the newest version of the claim.
func (n *Node) Version(volume, claim string) (has, newest int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.versions[volume], n.newest[claim]
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

// attachedElsewhere reports whether a pod on another machine uses one of the pod's claims, so that the volume is
// attached there. The
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

// volumesOf returns the pod's volumes by claim, if every claim is bound. The scheduler refuses a claim that is being
// deleted. The kubelet
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

// setStatus writes the kubelet's report, and reports whether the API server has accepted it. The next step repeats a
// failed write.
func (n *Node) setStatus(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus) bool {
	pod = pod.DeepCopy()
	pod.Status = status
	_, err := n.w.Kube.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err == nil
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

func mounts(pod *corev1.Pod, claim string) bool {
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim {
			return true
		}
	}
	return false
}
