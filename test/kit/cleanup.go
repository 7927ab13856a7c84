package kit

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
)

// CleanupTemplate is the cleanup pod template of a user.
const CleanupTemplate = `
metadata:
  labels: {app: cleanup}
spec:
  containers:
    - name: move
      image: dev.local/busybox:1
      volumeMounts: [{name: data, mountPath: /data}]
`

// SetWithCleanup returns a WorldSet with a cleanup pod template, and guards its claims.
func (w *World) SetWithCleanup(name string, replicas int32, templates ...string) *appsv1.StatefulSet {
	if len(templates) == 0 {
		templates = []string{"data"}
	}
	set := WorldSet(name, replicas, "64Mi", templates...)
	set.Spec.PodManagementPolicy = appsv1.OrderedReadyPodManagement
	set.Annotations[api.CleanupTemplateAnnotation] = CleanupTemplate
	w.Node.Set(func(n *Node) { n.GuardClaims = true })
	return set
}

// UntilCounted ticks until the set's ledger has so many pods, and its template has been accepted.
func (w *World) UntilCounted(d *Drive, name string, pods int) {
	w.T.Helper()
	w.UntilCleanup(d, name, api.Succeeded, api.CleanupReady)
	w.Eventually(fmt.Sprintf("%d pods of %s are counted", pods, name), func() string {
		if err := d.Tick(context.Background()); err != nil {
			return err.Error()
		}
		if l := api.LoadLedger(w.Set(name)); l == nil || l.Count != pods || !l.Complete {
			return fmt.Sprintf("the ledger is %+v", l)
		}
		return ""
	})
}

// Cleanup reads the record of the set's latest cleanup, or returns nil.
func (w *World) Cleanup(name string) *api.Cleanup {
	w.T.Helper()
	set := w.Set(name)
	if set == nil {
		return nil
	}
	doc, err := api.LoadCleanup(set)
	w.must(err)
	return doc
}

// UntilCleanup ticks until the set's cleanup has the phase, and the reason unless it is empty.
func (w *World) UntilCleanup(d *Drive, name string, phase api.Phase, reason api.Reason) *api.Cleanup {
	w.T.Helper()
	var doc *api.Cleanup
	w.Eventually(fmt.Sprintf("the cleanup of %s is %s %s", name, phase, reason), func() string {
		if err := d.Tick(context.Background()); err != nil {
			return err.Error()
		}
		if doc = w.Cleanup(name); doc == nil {
			return "there is none"
		}
		if doc.Phase != phase || reason != "" && doc.Reason != reason {
			return fmt.Sprintf("%s %s: %s; %+v", doc.Phase, doc.Reason, doc.Message, doc.Ordinals)
		}
		return ""
	})
	return doc
}

// CreateClaim creates a claim as a user would, with a volume, and waits until it is bound.
func (w *World) CreateClaim(name string, labels map[string]string) *corev1.PersistentVolumeClaim {
	w.T.Helper()
	claim := WorldSet("web", 1, "64Mi", "data").Spec.VolumeClaimTemplates[0].DeepCopy()
	claim.Namespace, claim.Name, claim.Labels = w.Namespace, name, labels
	made, err := w.Kube.CoreV1().PersistentVolumeClaims(w.Namespace).Create(context.Background(), claim,
		metav1.CreateOptions{FieldManager: "kubectl"})
	w.must(err)
	_, err = w.Kube.CoreV1().PersistentVolumes().Create(context.Background(), makeVolume(made), metav1.CreateOptions{})
	w.must(err)
	w.Eventually("claim "+name+" is bound", func() string {
		if made = w.Claim(name); made.Status.Phase != corev1.ClaimBound {
			return string(made.Status.Phase)
		}
		return ""
	})
	return made
}

// ClaimUIDs returns the claims of the world with their UIDs, so that a test notices a replaced claim.
func (w *World) ClaimUIDs() string {
	w.T.Helper()
	claims, err := w.Kube.CoreV1().PersistentVolumeClaims(w.Namespace).List(context.Background(), metav1.ListOptions{})
	w.must(err)
	var uids []string
	for _, c := range claims.Items {
		uids = append(uids, fmt.Sprintf("%s=%s deleted %t", c.Name, c.UID, c.DeletionTimestamp != nil))
	}
	slices.Sort(uids)
	return strings.Join(uids, " ")
}

// Kubectl runs kubectl in the world's namespace.
func (w *World) Kubectl(args ...string) string {
	w.T.Helper()
	command := exec.Command(Kubectl(w.T), append([]string{"--kubeconfig", APIPath(w.T), "--namespace", w.Namespace}, args...)...)
	output, err := command.CombinedOutput()
	if err != nil {
		w.T.Fatalf("kubectl %v: %v: %s", args, err, output)
	}
	return string(output)
}

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

// cleaners is a Node's knowledge of cleanup pods and their claims.
type cleaners struct {
	// GuardClaims makes the deletion of a claim a violation unless a cleanup pod has succeeded on the claim.
	GuardClaims bool

	claims  map[types.UID]string // every observed claim, by name
	last    map[types.UID]string // the claims at the node's latest step
	deleted map[types.UID]bool
	cleaned map[types.UID]bool
	crashed map[types.UID]time.Time // the latest failure of the cleanup pod's container
	order   []string                // the pods that succeeded
}

func newCleaners() *cleaners {
	return &cleaners{claims: map[types.UID]string{}, last: map[types.UID]string{}, deleted: map[types.UID]bool{},
		cleaned: map[types.UID]bool{}, crashed: map[types.UID]time.Time{}}
}

func isCleaner(pod *corev1.Pod) bool {
	link, err := api.LoadLink(pod)
	return err == nil && link != nil && link.Role == api.RoleCleaner
}
