package kit

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
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
	// EvictCleaners, if not empty, ends each cleanup pod early in this phase: Failed if its containers exit with an error, and Succeeded if
	// they exit with 0, as kubelets before 1.38 report it.
	EvictCleaners corev1.PodPhase
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
