package kit

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/ptr"
)

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
