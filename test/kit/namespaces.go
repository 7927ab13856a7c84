package kit

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
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

// testKinds are the kinds of objects that tests create. Sets come first, because their controller would create the pods
// again.
var testKinds = []schema.GroupVersionResource{
	{Group: "drydock.dev", Version: "v1alpha1", Resource: "scalers"},
	{Group: "apps", Version: "v1", Resource: "statefulsets"},
	{Group: "batch", Version: "v1", Resource: "jobs"},
	{Version: "v1", Resource: "pods"},
	{Version: "v1", Resource: "persistentvolumeclaims"},
	{Group: "apps", Version: "v1", Resource: "controllerrevisions"},
	{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
}

// release removes all finalizers, because the controllers that own them do not run any more.
var release = []byte(`{"metadata":{"finalizers":null}}`)

// empty deletes the objects of a test from the namespace. It returns the objects that are not gone in time, or an
// error.
func (w *World) empty() string {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	all, err := metadata.NewForConfig(w.Config)
	if err != nil {
		return err.Error()
	}
	for _, kind := range testKinds {
		w.sweep(ctx, all.Resource(kind).Namespace(w.Namespace))
	}
	for _, v := range w.cluster.volumesOf(w.Namespace) {
		_, _ = w.Kube.CoreV1().PersistentVolumes().Patch(ctx, v.Name, types.MergePatchType, release, metav1.PatchOptions{})
		_ = w.Kube.CoreV1().PersistentVolumes().Delete(ctx, v.Name, metav1.DeleteOptions{})
	}
	for {
		left := w.remaining(ctx, all)
		if left == "" || ctx.Err() != nil {
			return left
		}
		await(ctx, w.changed, time.Second)
	}
}

// sweep deletes every object of a kind. The caller checks for remaining objects.
func (w *World) sweep(ctx context.Context, kind metadata.ResourceInterface) {
	now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0), PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
	_ = kind.DeleteCollection(ctx, now, metav1.ListOptions{})
}

// remaining returns the objects that still exist, and removes their finalizers.
func (w *World) remaining(ctx context.Context, all metadata.Interface) string {
	var left []string
	for _, resource := range testKinds {
		kind := all.Resource(resource).Namespace(w.Namespace)
		list, err := kind.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		for _, o := range list.Items {
			left = append(left, fmt.Sprintf("%s %s", resource.Resource, o.Name))
			if len(o.Finalizers) > 0 {
				_, _ = kind.Patch(ctx, o.Name, types.MergePatchType, release, metav1.PatchOptions{})
			}
		}
		if len(list.Items) > 0 {
			w.sweep(ctx, kind)
		}
	}
	return strings.Join(left, ", ")
}
