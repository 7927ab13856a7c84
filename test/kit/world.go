package kit

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/test/kit/metrics"
)

// World is a namespace on a real API server with the real StatefulSet, Job, volume and garbage collection controllers. A Node plays the
// machines: scheduling, running pods, provisioning.
type World struct {
	T         testing.TB
	Namespace string
	Config    *rest.Config
	Kube      kubernetes.Interface
	Node      *Node
	Settings  api.Settings
	// cluster watches the API server. changed gets a value for each change in this world. Both are nil for a cluster
	// with machines.
	cluster *cluster
	changed <-chan struct{}
	// Patience is the time limit of Eventually. Zero means three minutes.
	Patience time.Duration
	// scaled has the latest count of TryScale. scaledLate has the counts for a set that was being deleted.
	scaled, scaledLate []int32
	answers            *answers
}

// NewRealWorld creates a namespace on a cluster with machines. It ends with the test, together with the old volumes.
func NewRealWorld(t testing.TB, config *rest.Config) *World {
	t.Helper()
	w := newWorld(t, config)
	t.Cleanup(func() {
		w.releaseVolumes()
		w.end(metav1.DeletePropagationForeground)
	})
	return w
}

// NewWorldIn uses a permanent namespace on a cluster with machines, and creates it if necessary. Its content ends with
// the test.
func NewWorldIn(t testing.TB, config *rest.Config, namespace string, labels map[string]string) *World {
	t.Helper()
	w := connect(t, config)
	w.Namespace = namespace
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: labels}}
	if _, err := w.Kube.CoreV1().Namespaces().Create(context.Background(), ns, metav1.CreateOptions{}); err != nil &&
		!apierrors.IsAlreadyExists(err) {
		t.Fatalf("creating namespace %s: %v", namespace, err)
	}
	w.clear()
	t.Cleanup(w.clear)
	return w
}

func connect(t testing.TB, config *rest.Config) *World {
	config = rest.CopyConfig(config)
	config.QPS = -1
	quick := rest.CopyConfig(config)
	quick.ContentType = runtime.ContentTypeProtobuf
	return &World{T: t, Config: config, Kube: kubernetes.NewForConfigOrDie(quick), Settings: Settings(), answers: &answers{}}
}

func newWorld(t testing.TB, config *rest.Config) *World {
	t.Helper()
	w := connect(t, config)
	w.createNamespace()
	return w
}

// Node plays the machines of a World: it provisions volumes, schedules pods and runs them. It also keeps a model of the data. Each volume
// has a version. A member that starts writes, so the version of its volumes grows. A mover copies its source's version. A pod that starts
// on any other version than the newest of its claim breaks I1.
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
	// HoldPods keeps the pods of sets from starting, like a database that waits for its operator. HoldStops keeps terminating pods from
	// ending.
	HoldPods, HoldStops bool
	// FailCleaners makes every run of a cleanup pod's container fail.
	FailCleaners bool
	// Full: the shared machine has no room for a pod that requires it.
	Full bool
	// Growth is how the storage expands claims of a class that allows it.
	Growth Growth

	*cleaners
	hazards
}

// writer is a running pod of a set, which writes to the volumes of its claims.
type writer struct {
	name   string
	claims map[string]string // volume by claim
}

// Set changes the behaviour of the running node.
func (n *Node) Set(change func(*Node)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change(n)
}

// NewWorld creates a namespace and starts its Node. Both end with the test.
func NewWorld(t testing.TB) *World {
	t.Helper()
	w := newWorld(t, APIConfig(t))
	w.start()
	t.Cleanup(func() {
		w.empty()
		w.Node.stop()
		w.end(metav1.DeletePropagationBackground)
	})
	return w
}

// BorrowWorld is NewWorld in a namespace that tests use one after the other, because deleting a namespace costs the API server as much as a
// resize. It is for tests that leave only a set with its claims.
func BorrowWorld(t testing.TB) *World {
	t.Helper()
	w := connect(t, APIConfig(t))
	if w.Namespace = spare.take(); w.Namespace == "" {
		w.createNamespace()
	}
	w.start()
	t.Cleanup(func() {
		left := w.empty()
		w.Node.stop()
		if left == "" {
			spare.give(w.Namespace)
			return
		}
		t.Logf("namespace %s is given up: %s", w.Namespace, left)
		w.end(metav1.DeletePropagationBackground)
	})
	return w
}

// EndBorrowed deletes the namespaces of BorrowWorld.
func EndBorrowed() {
	for name := spare.take(); name != ""; name = spare.take() {
		_ = watched.kube.CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{})
	}
}

// start prepares the cluster and starts the world's Node.
func (w *World) start() {
	w.T.Helper()
	prepared.Do(func() {
		installRights(w.T)
		metrics.RemoveStale(w.Config)
		w.createClasses()
	})
	w.cluster = watchCluster(w.T, w.Kube)
	w.changed = w.cluster.changes(w.T, w.Namespace)
	w.Node = startNode(w.T, w)
}

var prepared sync.Once

// WorldSet builds an opted-in StatefulSet for a World, with one volumeClaimTemplate of the size for each name.
func WorldSet(name string, replicas int32, size string, templates ...string) *appsv1.StatefulSet {
	labels := map[string]string{"app": name}
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{api.ManagedLabel: "true"},
			Annotations: map[string]string{"team": "data"}},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: name, PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					SecurityContext: &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](1000), FSGroup: ptr.To[int64](1000)},
					Containers:      []corev1.Container{{Name: "db", Image: "dev.local/busybox:1"}},
				},
			},
		},
	}
	for _, t := range templates {
		set.Spec.VolumeClaimTemplates = append(set.Spec.VolumeClaimTemplates, corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: t},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: ptr.To(Class),
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
			},
		})
	}
	return set
}

// Quantity parses an amount.
func Quantity(text string) *resource.Quantity {
	q := resource.MustParse(text)
	return &q
}

// Eventually calls check until it returns an empty string. After the time limit it fails the test with the latest text
// of check.
func (w *World) Eventually(what string, check func() string) {
	w.T.Helper()
	deadline, longest := time.Now().Add(cmp.Or(w.Patience, 3*time.Minute)), 100*time.Millisecond
	if w.changed != nil {
		longest = 400 * time.Millisecond // changes wake it
	}
	for pause := 20 * time.Millisecond; ; pause = min(pause*5/4, longest) {
		problem := check()
		if problem == "" {
			return
		}
		if time.Now().After(deadline) {
			w.T.Fatalf("waited for: %s; still: %s\n%s", what, problem, w.dump())
		}
		await(context.Background(), w.changed, pause)
	}
}

// Throughout calls check again and again for the duration, and after each change. It fails the test as soon as check returns a text.
func (w *World) Throughout(what string, d time.Duration, check func() string) {
	w.T.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); await(context.Background(), w.changed, 500*time.Millisecond) {
		if problem := check(); problem != "" {
			w.T.Fatalf("it is no longer so that %s: %s\n%s", what, problem, w.dump())
		}
	}
}

// Finish ticks until the operation on the set has ended, and returns its record.
func (w *World) Finish(d *Drive, name string) *api.Resize {
	w.T.Helper()
	var status *api.Resize
	w.Eventually("the operation ends", func() string {
		if err := d.Tick(context.Background()); err != nil {
			return err.Error()
		}
		if status = w.Status(name); status == nil {
			return "there is no status"
		}
		if !status.Phase.Terminal() {
			return fmt.Sprintf("phase %s: %s", status.Phase, status.Message)
		}
		return ""
	})
	return status
}
