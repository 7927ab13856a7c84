package kit

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/metrics"
)

// APIEnv names the environment variable with the kubeconfig of a real API server, with controllers but without nodes.
const APIEnv = "DRYDOCK_TEST_API"

// Attributes and OtherAttributes are the VolumeAttributesClasses of a World.
const (
	Attributes      = "world-gold"
	OtherAttributes = "world-silver"
)

// Class, OtherClass and GrowingClass are the StorageClasses of a World. GrowingClass allows volume expansion.
const (
	Class        = "world"
	OtherClass   = "world-2"
	GrowingClass = "world-growing"
)

// World is a namespace on a real API server with the real StatefulSet, Job, volume and garbage collection controllers.
// A Node plays the
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

// BorrowWorld is NewWorld in a namespace that tests use one after the other, because deleting a namespace costs the API
// server as much as a
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

// namespaces is a pool of unused namespaces.
type namespaces struct {
	mu   sync.Mutex
	free []string
}

var spare namespaces

func (n *namespaces) take() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.free) == 0 {
		return ""
	}
	last := n.free[len(n.free)-1]
	n.free = n.free[:len(n.free)-1]
	return last
}

func (n *namespaces) give(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.free = append(n.free, name)
}

var prepared sync.Once

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

func (w *World) createClasses() {
	w.T.Helper()
	for _, name := range []string{Class, OtherClass, GrowingClass} {
		mode := storagev1.VolumeBindingWaitForFirstConsumer
		_, err := w.Kube.StorageV1().StorageClasses().Create(context.Background(),
			&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name},
				Provisioner: provisioner, VolumeBindingMode: &mode, AllowVolumeExpansion: ptr.To(
					name == GrowingClass)}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			w.T.Fatalf("creating class %s: %v", name, err)
		}
	}
	for _, name := range []string{Attributes, OtherAttributes} {
		_, err := w.Kube.StorageV1().VolumeAttributesClasses().Create(context.Background(), &storagev1.VolumeAttributesClass{
			ObjectMeta: metav1.ObjectMeta{Name: name}, DriverName: provisioner, Parameters: map[string]string{
				"name": name}}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			w.T.Fatalf("creating VolumeAttributesClass %s: %v", name, err)
		}
	}
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
	return &World{T: t, Config: config, Kube: kubernetes.NewForConfigOrDie(quick), Settings: Settings()}
}

func newWorld(t testing.TB, config *rest.Config) *World {
	t.Helper()
	w := connect(t, config)
	w.createNamespace()
	return w
}

func (w *World) createNamespace() {
	w.T.Helper()
	ns, err := w.Kube.CoreV1().Namespaces().Create(context.Background(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "world-"}}, metav1.CreateOptions{})
	if err != nil {
		w.T.Fatalf("creating a namespace: %v", err)
	}
	w.Namespace = ns.Name
}

// APIPath returns the path of the kubeconfig of the API server for tests.
func APIPath(t testing.TB) string {
	if path := os.Getenv(APIEnv); path != "" {
		return path
	}
	return filepath.Join(Root(t), ".cluster", "control-plane", "kubeconfig")
}

// APIConfig returns the configuration of the API server for tests.
func APIConfig(t testing.TB) *rest.Config {
	t.Helper()
	return configOf(t, APIPath(t))
}

func configOf(t testing.TB, path string) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatalf("reading kubeconfig %s: %v; start the control plane with: make cluster SIZE=control-plane", path, err)
	}
	return config
}

// Root returns the folder of the repository.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "func.yaml")); err == nil {
			return dir
		}
	}
	t.Fatal("no func.yaml above the working folder")
	return ""
}

// Settings returns the default settings with shorter times, which a busy machine can still meet. A test of a limit sets
// its own.
func Settings() api.Settings {
	return api.Settings{
		Image: "dev.local/drydock:dev", AllowTags: true, Parallelism: 4, Retention: time.Hour, ShrinkMargin: 7,
		PlanTimeout: 5 * time.Minute, ExpandTimeout: 5 * time.Minute, ExpandPatience: time.Minute, CopyTimeout: 15 * time.Minute,
		QuiesceTimeout: 5 * time.Minute, StartTimeout: 5 * time.Minute, SwitchTimeout: 5 * time.Minute, ReadyTimeout: 5 * time.Minute,
		ProgressPeriod: 10 * time.Second, ProgressTimeout: time.Minute, SleepRetry: 10 * time.Minute, ProbeTimeout: 5 * time.Second,
		CleanupTries: 3, CleanupBackoff: time.Second, CleanupTimeout: time.Minute, CleanupPods: 3,
	}
}

func (w *World) end(propagation metav1.DeletionPropagation) {
	if err := w.Kube.CoreV1().Namespaces().Delete(context.Background(), w.Namespace,
		metav1.DeleteOptions{PropagationPolicy: &propagation}); err != nil {
		w.T.Logf("deleting namespace %s: %v", w.Namespace, err)
	}
}

// releaseVolumes sets the reclaim policy of the retained volumes to Delete.
func (w *World) releaseVolumes() {
	for _, v := range w.Volumes() {
		if v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain {
			_, err := w.Kube.CoreV1().PersistentVolumes().Patch(context.Background(), v.Name, types.MergePatchType,
				[]byte(`{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`), metav1.PatchOptions{})
			if err != nil {
				w.T.Logf("releasing volume %s: %v", v.Name, err)
			}
		}
	}
}

// clear deletes the StatefulSets, the objects of operations, the claims and the volumes, and waits until they are gone.
func (w *World) clear() {
	w.T.Helper()
	ctx, in := context.Background(), w.Namespace
	now, all, ours := metav1.DeletePropagationForeground, metav1.ListOptions{}, metav1.ListOptions{LabelSelector: api.OperationLabel}
	options := metav1.DeleteOptions{PropagationPolicy: &now}
	w.must(w.Kube.AppsV1().StatefulSets(in).DeleteCollection(ctx, options, all))
	w.must(w.Kube.BatchV1().Jobs(in).DeleteCollection(ctx, options, all))
	w.must(w.Kube.AppsV1().ControllerRevisions(in).DeleteCollection(ctx, options, ours))
	w.releaseVolumes()
	w.must(w.Kube.CoreV1().PersistentVolumeClaims(in).DeleteCollection(ctx, options, all))
	w.Eventually("the namespace is cleared", func() string {
		sets, err := w.Kube.AppsV1().StatefulSets(in).List(ctx, all)
		w.must(err)
		pods, err := w.Kube.CoreV1().Pods(in).List(ctx, all)
		w.must(err)
		claims, err := w.Kube.CoreV1().PersistentVolumeClaims(in).List(ctx, all)
		w.must(err)
		if n := len(sets.Items) + len(pods.Items) + len(claims.Items) + len(w.Volumes()); n > 0 {
			return fmt.Sprintf("%d StatefulSets, pods, claims and volumes are there", n)
		}
		return ""
	})
}

// LabelNamespace labels the world's namespace.
func (w *World) LabelNamespace(key, value string) {
	w.T.Helper()
	body, _ := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]string{key: value}}})
	_, err := w.Kube.CoreV1().Namespaces().Patch(context.Background(), w.Namespace, types.MergePatchType, body, metav1.PatchOptions{})
	w.must(err)
}

// Drive creates functions that see only this world. They reach the API server through the saboteur, if there is one.
func (w *World) Drive(wrap *Saboteur) *Drive { return w.drive(wrap, w.Namespace) }

// DriveIn creates functions for the namespaces.
func (w *World) DriveIn(namespaces ...string) *Drive { return w.drive(nil, namespaces...) }

func (w *World) drive(wrap *Saboteur, namespaces ...string) *Drive {
	config := rest.CopyConfig(w.Config)
	if wrap != nil {
		config.Wrap(wrap.Wrap)
	}
	level := slog.LevelWarn
	if testing.Verbose() && os.Getenv("DRYDOCK_TEST_LOG") != "" {
		level = slog.LevelInfo
	}
	log := slog.New(slog.NewTextHandler(testWriter{w.T}, &slog.HandlerOptions{Level: level}))
	settings := w.Settings
	settings.Namespaces = namespaces
	return NewDrive(config, settings, log)
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", p)
	return len(p), nil
}

// CreateSet creates the StatefulSet and waits until it is ready.
func (w *World) CreateSet(set *appsv1.StatefulSet) *appsv1.StatefulSet {
	w.T.Helper()
	set.Namespace = w.Namespace
	made, err := w.Kube.AppsV1().StatefulSets(w.Namespace).Create(context.Background(), set, metav1.CreateOptions{})
	if err != nil {
		w.T.Fatalf("creating set: %v", err)
	}
	w.Eventually("set is ready", func() string {
		made = w.Set(set.Name)
		if made.Status.ObservedGeneration < made.Generation || made.Status.ReadyReplicas != *made.Spec.Replicas {
			return fmt.Sprintf("%d of %d replicas are ready", made.Status.ReadyReplicas, *made.Spec.Replicas)
		}
		return ""
	})
	return made
}

// Set reads the StatefulSet. It returns nil if the set does not exist.
func (w *World) Set(name string) *appsv1.StatefulSet {
	w.T.Helper()
	set, err := w.Kube.AppsV1().StatefulSets(w.Namespace).Get(context.Background(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.T.Fatalf("reading set %s: %v", name, err)
	}
	return set
}

// Status reads the record of the StatefulSet's resize. It returns nil if there is none.
func (w *World) Status(name string) *api.Resize {
	w.T.Helper()
	set := w.Set(name)
	if set == nil {
		return nil
	}
	status, err := api.LoadResize(set)
	if err != nil {
		w.T.Fatal(err)
	}
	return status
}

// Annotate writes annotations on the StatefulSet as a user would.
func (w *World) Annotate(name string, annotations map[string]string) {
	w.T.Helper()
	body, _ := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	w.patchSet(name, body)
}

// Scale sets the replicas as a user or an autoscaler would.
func (w *World) Scale(name string, replicas int) {
	w.T.Helper()
	w.patchSet(name, []byte(fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)))
}

// TryScale is Scale for a set that may be missing for a moment.
func (w *World) TryScale(name string, replicas int) {
	w.T.Helper()
	body := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	set, err := w.Kube.AppsV1().StatefulSets(w.Namespace).Patch(context.Background(), name, types.MergePatchType, body,
		metav1.PatchOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		w.T.Errorf("scaling set %s: %v", name, err)
	case set.DeletionTimestamp != nil: // it may be gone before a function has read the count
		w.scaledLate = append(w.scaledLate, int32(replicas))
	default:
		w.scaled, w.scaledLate = []int32{int32(replicas)}, nil
	}
}

// PossibleReplicas returns the replica counts that the set may have now. It was created with made replicas, and since then scaled
// only by TryScale.
func (w *World) PossibleReplicas(made int32) []int32 {
	if len(w.scaled) == 0 {
		return append([]int32{made}, w.scaledLate...)
	}
	return append(w.scaled[:1:1], w.scaledLate...)
}

// PatchSet merges a patch into the StatefulSet.
func (w *World) PatchSet(name, body string) {
	w.T.Helper()
	w.patchSet(name, []byte(body))
}

func (w *World) patchSet(name string, body []byte) {
	w.T.Helper()
	if err := w.tryPatchSet(name, body); err != nil {
		w.T.Fatalf("patching set %s: %v", name, err)
	}
}

func (w *World) tryPatchSet(name string, body []byte) error {
	_, err := w.Kube.AppsV1().StatefulSets(w.Namespace).Patch(context.Background(), name, types.MergePatchType, body, metav1.PatchOptions{})
	return err
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

// DeleteSet deletes the StatefulSet and waits until it is gone.
func (w *World) DeleteSet(name string, propagation metav1.DeletionPropagation) {
	w.T.Helper()
	err := w.Kube.AppsV1().StatefulSets(w.Namespace).Delete(context.Background(), name,
		metav1.DeleteOptions{PropagationPolicy: &propagation})
	if err != nil {
		w.T.Fatalf("deleting set %s: %v", name, err)
	}
	w.Eventually("set is gone", func() string {
		if w.Set(name) != nil {
			return "it is there"
		}
		return ""
	})
}
