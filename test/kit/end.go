package kit

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
)

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
