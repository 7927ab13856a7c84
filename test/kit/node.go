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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
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
	// started and ended are the pods that have begun and finished their work: what is seen may be older.
	started, ended map[types.UID]bool
	violations     []string
	// Warning is what every mover warns of, in JSON; none if it is empty.
	Warning string
	// FailMovers makes every mover exit with a failure: that of a full target, unless FailCode and FailReason say another.
	FailMovers bool
	FailCode   int32
	FailReason string
	// Hold keeps movers and cleanup pods running, HoldWarm the movers that copy beside the pods.
	Hold, HoldWarm bool
	// HoldPods keeps the pods of sets from starting, as a database that waits for its operator.
	HoldPods bool
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
		versions: map[string]int{}, newest: map[string]int{}, started: map[types.UID]bool{}, ended: map[types.UID]bool{}, cleaners: newCleaners()}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}
	if _, err := w.Kube.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatalf("creating node: %v", err)
	}
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

// idleLook is how long a node rests at most: a test that changes how it behaves tells nobody.
const idleLook = 100 * time.Millisecond

// work looks once and does what is to be done. What it sees may be old by a moment, as what a kubelet sees; every write is refused
// then, or changes nothing.
func (n *Node) work(ctx context.Context) {
	claims, _ := n.w.cluster.claims.PersistentVolumeClaims(n.w.Namespace).List(labels.Everything())
	pods, _ := n.w.cluster.pods.Pods(n.w.Namespace).List(labels.Everything())
	n.provision(ctx, claims, pods)
	n.grow(ctx, claims)
	n.watchClaims(claims)
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

// Recede makes what the volume has the newest data of the claim: somebody wants it back, and gives up what came after.
func (n *Node) Recede(claim, volume string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.newest[claim] = n.versions[volume]
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
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: provisioner, VolumeHandle: string(c.UID)}},
			ClaimRef: &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: c.Namespace, Name: c.Name, UID: c.UID},
		},
	}
}

// runPods schedules what can run, lets it run, and lets go of what is to end.
func (n *Node) runPods(ctx context.Context, pods []*corev1.Pod) {
	for _, pod := range pods {
		switch {
		case n.gone(pod):
		case pod.DeletionTimestamp != nil:
			n.endPod(ctx, pod)
		case pod.Spec.NodeName == "":
			if !n.waits(pod) {
				n.schedule(ctx, pod)
			}
		case pod.Status.Phase == corev1.PodPending:
			n.startPod(ctx, pod)
		case isCleaner(pod):
			n.runCleaner(ctx, pod)
		case pod.Status.Phase == corev1.PodRunning && pod.Labels[api.OperationLabel] != "":
			n.endMover(ctx, pod)
		}
	}
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

// startPod runs a pod. One of a set finds its data and writes.
func (n *Node) startPod(ctx context.Context, pod *corev1.Pod) {
	volumes, ok := n.volumesOf(ctx, pod, true)
	if !ok || n.lacksImage(ctx, pod) {
		return
	}
	n.mu.Lock()
	if n.HoldPods && pod.Labels[api.OperationLabel] == "" {
		n.mu.Unlock()
		return
	}
	if !n.started[pod.UID] && pod.Labels[api.OperationLabel] == "" {
		for claim, volume := range volumes {
			has, exists := n.versions[volume]
			if !exists || has != n.newest[claim] {
				n.violations = append(n.violations, fmt.Sprintf("I1: pod %s started on volume %s with version %d (exists %t) of claim %s, whose newest version is %d",
					pod.Name, volume, has, exists, claim, n.newest[claim]))
			}
			n.latest++
			n.versions[volume], n.newest[claim] = n.latest, n.latest
		}
	}
	n.started[pod.UID] = true
	n.mu.Unlock()
	n.mountGrown(ctx, pod)
	n.setStatus(ctx, pod, corev1.PodStatus{Phase: corev1.PodRunning, StartTime: ptr.To(metav1.Now()),
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}})
}

// endMover ends a copy.
func (n *Node) endMover(ctx context.Context, pod *corev1.Pod) {
	if len(pod.Status.ContainerStatuses) > 1 || n.befalls(ctx, pod) { // only its sidecar is left
		return
	}
	volumes, ok := n.volumesOf(ctx, pod, true)
	warm := slices.Contains(pod.Spec.Containers[0].Args, "--warm")
	n.mu.Lock()
	if n.Hold && !warm || n.HoldWarm && warm || !ok || n.lost[pod.Spec.NodeName] {
		n.mu.Unlock()
		return
	}
	code, phase, message := int32(0), corev1.PodSucceeded, `{"result":"copied","bytes":1,"files":1,"digest":"d"}`
	if n.Warning != "" {
		message = `{"result":"copied","bytes":1,"files":1,"digest":"d","warnings":[` + n.Warning + `]}`
	}
	if n.FailMovers {
		code, phase, message = 4, corev1.PodFailed, `{"result":"failed","reason":"NoSpace","message":"no space left on the target"}`
		if n.FailReason != "" {
			code, message = n.FailCode, n.FailReason
		}
	} else if !n.ended[pod.UID] {
		source, target := pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName, pod.Spec.Volumes[1].PersistentVolumeClaim.ClaimName
		n.versions[volumes[target]] = n.versions[volumes[source]]
		if warm {
			n.versions[volumes[target]] = -1 // a copy of a volume that is written to is none yet
		}
	}
	n.ended[pod.UID] = true
	sidecar := n.Sidecar
	n.mu.Unlock()
	status := corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{{Name: pod.Spec.Containers[0].Name,
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message, FinishedAt: metav1.Now()}}}}}
	if sidecar {
		status = withSidecar(status)
	}
	n.setStatus(ctx, pod, status)
}

func (n *Node) setStatus(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus) {
	pod = pod.DeepCopy()
	pod.Status = status
	_, _ = n.w.Kube.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
}

func (n *Node) endPod(ctx context.Context, pod *corev1.Pod) {
	n.reportEnd(ctx, pod)
	_ = n.w.Kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0),
		Preconditions: &metav1.Preconditions{UID: &pod.UID}})
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
