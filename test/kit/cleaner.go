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

// cleaners is what a Node knows of cleanup pods and of the claims that they are run on.
type cleaners struct {
	// GuardClaims makes it a violation that a claim is deleted on which no cleanup pod has succeeded.
	GuardClaims bool

	claims  map[types.UID]string // every claim that was seen, by name
	last    map[types.UID]string // those of the node's own last look
	deleted map[types.UID]bool
	cleaned map[types.UID]bool
	crashed map[types.UID]time.Time // when the container of a cleanup pod has failed last
	order   []string                // of the pods that succeeded
}

func newCleaners() *cleaners {
	return &cleaners{claims: map[types.UID]string{}, last: map[types.UID]string{}, deleted: map[types.UID]bool{}, cleaned: map[types.UID]bool{}, crashed: map[types.UID]time.Time{}}
}

func isCleaner(pod *corev1.Pod) bool {
	link, err := api.LoadLink(pod)
	return err == nil && link != nil && link.Role == api.RoleCleaner
}

// runCleaner lets a cleanup pod come to its end: the data on its claims has found another place.
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
	if n.EvictCleaners {
		n.mu.Unlock()
		status.Phase, status.Reason, status.Message = corev1.PodFailed, "Evicted", "The node was low on resource: memory."
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
	n.setStatus(ctx, pod, *status)
}

// crashPause is between two runs of a container that fails. The kubelet waits for ten seconds and more: who deletes the pod meanwhile
// has to have a chance to find it as it was read.
const crashPause = 400 * time.Millisecond

// failCleaner is what the kubelet reports of a container that has failed and will be started again.
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

// watchClaims notices claims that are deleted.
func (n *Node) watchClaims(seen []*corev1.PersistentVolumeClaim) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seeClaims(n.last, seen)
	n.last = map[types.UID]string{}
	for _, c := range seen {
		n.last[c.UID] = c.Name
	}
}

// seeClaims notices which claims are there, and which of those that were there before are not any more.
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
		n.newest[name] = 0 // a replica that comes back begins anew
	} else if n.GuardClaims {
		n.violations = append(n.violations, fmt.Sprintf("claim %s was deleted and no cleanup pod had succeeded on it", name))
	}
}

// Cleaned are the names of the cleanup pods that have succeeded, in order.
func (n *Node) Cleaned() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.order)
}

// DeletedClaims are the names of the claims that were deleted, in order of their names. It looks at this moment: on a
// busy machine the node's own last look may be older than what a test waits for.
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

// CleanupTemplate is a cleanup pod template as a user writes it.
const CleanupTemplate = `
metadata:
  labels: {app: cleanup}
spec:
  containers:
    - name: move
      image: dev.local/busybox:1
      volumeMounts: [{name: data, mountPath: /data}]
`

// CleanedSet is a WorldSet with a cleanup pod template; its claims are guarded.
func (w *World) CleanedSet(name string, replicas int32, templates ...string) *appsv1.StatefulSet {
	if len(templates) == 0 {
		templates = []string{"data"}
	}
	set := WorldSet(name, replicas, "64Mi", templates...)
	set.Spec.PodManagementPolicy = appsv1.OrderedReadyPodManagement
	set.Annotations[api.CleanupTemplateAnnotation] = CleanupTemplate
	w.Node.Set(func(n *Node) { n.GuardClaims = true })
	return set
}

// Cleanup reads the document of the set's latest cleanup; nil if it has none.
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

// UntilCleanup ticks until the set's cleanup is in the phase, with the reason unless it is empty.
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

// CreateClaim creates a claim as a user would, and with it a volume: it is bound.
func (w *World) CreateClaim(name string, labels map[string]string) *corev1.PersistentVolumeClaim {
	w.T.Helper()
	claim := WorldSet("web", 1, "64Mi", "data").Spec.VolumeClaimTemplates[0].DeepCopy()
	claim.Namespace, claim.Name, claim.Labels = w.Namespace, name, labels
	made, err := w.Kube.CoreV1().PersistentVolumeClaims(w.Namespace).Create(context.Background(), claim, metav1.CreateOptions{FieldManager: "kubectl"})
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

// ClaimUIDs tells the claims of the world apart from others of the same names.
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
