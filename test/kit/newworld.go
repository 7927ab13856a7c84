package kit

import (
	"context"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/test/kit/metrics"
)

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
