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

// Node does for a World what machines do: it provisions volumes, schedules pods and runs them. And it keeps a model of
// the data: each volume has a version; a pod of a set that starts writes, so its volumes' version grows; a mover copies
// its source's version. A pod that starts on anything but the newest version of its claim's data breaks I1.
type Node struct {
	t      testing.TB
	w      *World
	cancel context.CancelFunc
	done   chan struct{}

	mu sync.Mutex
	// latest is the version that was written last, of whatever claim: no two are the same.
	latest int
	// versions of the data on a volume, by name; absent: the volume is destroyed.
	versions map[string]int
	// newest version of the data behind a claim's name.
	newest map[string]int
	// started and ended are the pods that have begun and finished their work. The watch may show older states.
	started, ended map[types.UID]bool
	// writers are the pods of sets that run.
	writers map[types.UID]writer
	// wanted is the volume with older data that a user wants behind a claim's name again.
	wanted     map[string]string
	violations []string
	// Warning is what every mover warns of; none if it is empty.
	Warning string
	// FailMovers makes every first pass end with a failure, FailFinal every final pass: that of a full target, unless Failure says another.
	FailMovers, FailFinal bool
	Failure               moverreport.MemberReport
	// NeverConverge: the first passes do not get short enough.
	NeverConverge bool
	// HoldWarm keeps first passes from ending, Hold final passes and cleanup pods.
	Hold, HoldWarm bool
	// HoldPods keeps the pods of sets from starting, as a database that waits for its operator; HoldStops keeps those that were told
	// to stop from ending.
	HoldPods, HoldStops bool
	// FailCleaners makes every run of a cleanup pod's container fail, EvictCleaners has the kubelet evict each cleanup pod.
	FailCleaners, EvictCleaners bool
	// Full: there is room for no pod that has to be on this very node.
	Full bool
	// Growth is how claims grow that ask for more, of a class that lets them.
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
			n.work(ctx)
			await(ctx, changed, idleLook)
		}
	}()
	return n
}

// idleLook is how long a node rests at most: a test may change its behavior at any time.
const idleLook = 100 * time.Millisecond

// work looks once and does what is to be done. What it sees may be old by a moment, as what a kubelet sees; every write is refused
// then, or changes nothing.
func (n *Node) work(ctx context.Context) {
	claims, _ := n.w.cluster.claims.PersistentVolumeClaims(n.w.Namespace).List(labels.Everything())
	pods, _ := n.w.cluster.pods.Pods(n.w.Namespace).List(labels.Everything())
	n.provision(ctx, claims, pods)
	n.grow(ctx, claims)
	n.modify(ctx, claims)
	n.watchClaims(claims)
	n.missPods(pods)
	n.runPods(ctx, pods)
	n.reclaim(ctx)
}

func (n *Node) stop() {
	n.cancel()
	<-n.done
}

// Set changes how the node behaves while it runs.
func (n *Node) Set(change func(*Node)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change(n)
}

// Violations are the breaches of I1 seen so far.
func (n *Node) Violations() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.violations...)
}

// Version is the version of the data on the volume, and the newest there is behind the claim's name.
func (n *Node) Version(volume, claim string) (has, newest int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.versions[volume], n.newest[claim]
}

// Recede says that a user wants the older data of the volume behind the claim's name again, and gives up all newer data.
func (n *Node) Recede(claim, volume string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wanted[claim] = volume
}

// Lost are the claims whose newest data is on no volume any more (I1).
func (n *Node) Lost() []string {
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

// provision makes a volume for every claim that waits for its first consumer and has one.
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

// reserved reports whether a volume waits for the claim: no provisioner is asked then. That none does has to be true now.
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
		ObjectMeta: metav1.ObjectMeta{Name: "pv-" + string(c.UID), Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": provisioner}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: c.Spec.Resources.Requests[corev1.ResourceStorage]},
			AccessModes: c.Spec.AccessModes, VolumeMode: c.Spec.VolumeMode, StorageClassName: *c.Spec.StorageClassName,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			VolumeAttributesClassName:     c.Spec.VolumeAttributesClassName,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: provisioner, FSType: "ext4", VolumeHandle: string(c.UID)}},
			ClaimRef: &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: c.Namespace, Name: c.Name, UID: c.UID},
		},
	}
}

// runPods schedules pods, runs them, and ends the deleted ones.
func (n *Node) runPods(ctx context.Context, pods []*corev1.Pod) {
	for _, pod := range pods {
		switch {
		case n.gone(pod):
		case pod.DeletionTimestamp != nil && pod.Spec.NodeName != "":
			n.endPod(ctx, pod)
		case pod.DeletionTimestamp != nil: // the API server ends it
		case pod.Spec.NodeName == "":
			if len(pod.Spec.SchedulingGates) == 0 && !n.waits(pod) {
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

// attachedElsewhere reports whether another machine has a volume of the pod's attached, since it runs a pod with the same claim. The
// attach/detach controller waits for its end (kubernetes pkg/controller/volume/attachdetach/reconciler).
func (n *Node) attachedElsewhere(pods []*corev1.Pod, pod *corev1.Pod) bool {
	return slices.ContainsFunc(pods, func(other *corev1.Pod) bool {
		done := other.Status.Phase == corev1.PodSucceeded || other.Status.Phase == corev1.PodFailed
		if done || other.Spec.NodeName == "" || other.Spec.NodeName == pod.Spec.NodeName || n.gone(other) {
			return false
		}
		return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil && mounts(other, v.PersistentVolumeClaim.ClaimName)
		})
	})
}

// waits reports whether the pod has a claim that is not bound, as far as is seen.
func (n *Node) waits(pod *corev1.Pod) bool {
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
	full := n.Full && len(requiredTerms(pod)) > 0 || n.elsewhere(pod)
	n.mu.Unlock()
	if full {
		return // as the scheduler does, which chooses a node before it has a volume provisioned there
	}
	if _, ok := n.volumesOf(ctx, pod, false); !ok {
		return
	}
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target: corev1.ObjectReference{Kind: "Node", Name: n.place()}}
	_ = n.w.Kube.CoreV1().Pods(pod.Namespace).Bind(ctx, binding, metav1.CreateOptions{})
}

// volumesOf returns the volumes behind the pod's claims by claim, if every claim is bound. The scheduler refuses a claim
// that is being deleted; the kubelet does when claim protection has let go of it.
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

// setStatus writes the kubelet's report. It reports false if the API server did not take it: then it is written at the next look.
func (n *Node) setStatus(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus) bool {
	pod = pod.DeepCopy()
	pod.Status = status
	_, err := n.w.Kube.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err == nil
}

// reclaim destroys released volumes whose policy says so.
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
