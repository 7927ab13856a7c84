package kit

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/statefulset"
)

// PatchClaim merges a patch into a claim.
func (w *World) PatchClaim(name, body string) {
	w.T.Helper()
	_, err := w.Kube.CoreV1().PersistentVolumeClaims(w.Namespace).Patch(context.Background(), name, types.MergePatchType, []byte(body),
		metav1.PatchOptions{})
	w.must(err)
}

// DeleteClaim deletes a claim as a user would.
func (w *World) DeleteClaim(name string) {
	w.T.Helper()
	w.must(w.Kube.CoreV1().PersistentVolumeClaims(w.Namespace).Delete(context.Background(), name, metav1.DeleteOptions{}))
}

// CreatePodOn creates a pod that uses the claim and belongs to no set.
func (w *World) CreatePodOn(name, claim string) {
	w.T.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "sh", Image: "dev.local/busybox:1"}},
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}},
		},
	}
	_, err := w.Kube.CoreV1().Pods(w.Namespace).Create(context.Background(), pod, metav1.CreateOptions{})
	w.must(err)
}

// CreateQuota sets the namespace's quota for a resource and waits until it is in force.
func (w *World) CreateQuota(name corev1.ResourceName, hard string) {
	w.T.Helper()
	ctx, limit := context.Background(), resource.MustParse(hard)
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "quota"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{name: limit}}}
	_, err := w.Kube.CoreV1().ResourceQuotas(w.Namespace).Create(ctx, quota, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		patch := fmt.Sprintf(`{"spec":{"hard":{%q:%q}}}`, name, hard)
		_, err = w.Kube.CoreV1().ResourceQuotas(w.Namespace).Patch(ctx, "quota", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	}
	w.must(err)
	w.Eventually("the quota is in force", func() string {
		now, err := w.Kube.CoreV1().ResourceQuotas(w.Namespace).Get(ctx, "quota", metav1.GetOptions{})
		w.must(err)
		if is := now.Status.Hard[name]; is.Cmp(limit) != 0 || now.Status.Used == nil {
			return "it is not"
		}
		return ""
	})
}

// CreateLimit limits the size of claims.
func (w *World) CreateLimit(largest string) {
	w.T.Helper()
	limits := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "limits"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypePersistentVolumeClaim, Max: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(largest)}}}}}
	_, err := w.Kube.CoreV1().LimitRanges(w.Namespace).Create(context.Background(), limits, metav1.CreateOptions{})
	w.must(err)
}

// ClaimVersions returns every claim and volume of the world with its resourceVersion.
func (w *World) ClaimVersions() string {
	w.T.Helper()
	var lines []string
	claims, err := w.Kube.CoreV1().PersistentVolumeClaims(w.Namespace).List(context.Background(), metav1.ListOptions{})
	w.must(err)
	for _, c := range claims.Items {
		lines = append(lines, c.Name+"@"+c.ResourceVersion)
	}
	for _, v := range w.Volumes() {
		lines = append(lines, v.Name+"@"+v.ResourceVersion)
	}
	return strings.Join(lines, " ")
}

// AddController creates a ConfigMap and makes it the controller of the StatefulSet.
func (w *World) AddController(set string) {
	w.T.Helper()
	owner, err := w.Kube.CoreV1().ConfigMaps(w.Namespace).Create(context.Background(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "operator"}}, metav1.CreateOptions{})
	w.must(err)
	w.patchSet(set, []byte(fmt.Sprintf(
		`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"operator","uid":%q,"controller":true}]}}`,
		owner.UID)))
}

// LabelPod labels a pod.
func (w *World) LabelPod(name, key, value string) {
	w.T.Helper()
	body := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, key, value)
	_, err := w.Kube.CoreV1().Pods(w.Namespace).Patch(context.Background(), name, types.StrategicMergePatchType, []byte(body),
		metav1.PatchOptions{})
	w.must(err)
}

// ForceDeletePod deletes a pod like `kubectl delete --force`. The pod may be missing.
func (w *World) ForceDeletePod(name string) {
	w.T.Helper()
	err := w.Kube.CoreV1().Pods(w.Namespace).Delete(context.Background(), name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
	if err != nil && !apierrors.IsNotFound(err) {
		w.T.Errorf("deleting pod %s: %v", name, err)
	}
}

// ReleasePod removes every finalizer of a pod. The pod may be missing.
func (w *World) ReleasePod(name string) {
	w.T.Helper()
	_, err := w.Kube.CoreV1().Pods(w.Namespace).Patch(context.Background(), name, types.MergePatchType, release, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		w.T.Errorf("releasing pod %s: %v", name, err)
	}
}

// TryDeleteClaim deletes a claim as a user would. The claim may be missing.
func (w *World) TryDeleteClaim(name string) {
	w.T.Helper()
	err := w.Kube.CoreV1().PersistentVolumeClaims(w.Namespace).Delete(context.Background(), name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		w.T.Errorf("deleting claim %s: %v", name, err)
	}
}

// HeldPods returns the names of the held pods.
func (w *World) HeldPods() []string {
	w.T.Helper()
	pods, err := w.Kube.CoreV1().Pods(w.Namespace).List(context.Background(), metav1.ListOptions{})
	w.must(err)
	var held []string
	for i := range pods.Items {
		if statefulset.Held(&pods.Items[i]) {
			held = append(held, pods.Items[i].Name)
		}
	}
	return held
}

// PodRuns reports whether the pod has started and is not terminating.
func (w *World) PodRuns(name string) bool {
	w.T.Helper()
	pod, err := w.Kube.CoreV1().Pods(w.Namespace).Get(context.Background(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false
	}
	w.must(err)
	return pod.DeletionTimestamp == nil && statefulset.Started(pod)
}
