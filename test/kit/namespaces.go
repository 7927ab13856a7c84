package kit

import (
	"context"
	"encoding/json"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

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

func (w *World) createNamespace() {
	w.T.Helper()
	ns, err := w.Kube.CoreV1().Namespaces().Create(context.Background(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "world-"}}, metav1.CreateOptions{})
	if err != nil {
		w.T.Fatalf("creating a namespace: %v", err)
	}
	w.Namespace = ns.Name
}

// LabelNamespace labels the world's namespace.
func (w *World) LabelNamespace(key, value string) {
	w.T.Helper()
	body, _ := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]string{key: value}}})
	_, err := w.Kube.CoreV1().Namespaces().Patch(context.Background(), w.Namespace, types.MergePatchType, body, metav1.PatchOptions{})
	w.must(err)
}
