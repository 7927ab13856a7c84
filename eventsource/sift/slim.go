package sift

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
)

// A sweep keeps something of every opted-in set until it has read all of them, and tenants decide how large their sets are: up to
// 1.5 MiB each. So it keeps what is judged later and no more; the size of that does not depend on what a tenant writes.

// slimSet returns the set with only what a judgement of its group reads.
func slimSet(set *appsv1.StatefulSet) *appsv1.StatefulSet {
	slim := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: set.Namespace, Name: set.Name, UID: set.UID, ResourceVersion: set.ResourceVersion, Generation: set.Generation,
		CreationTimestamp: set.CreationTimestamp, DeletionTimestamp: set.DeletionTimestamp,
		Labels: map[string]string{}, Annotations: map[string]string{},
	}}
	for _, key := range []string{api.ManagedLabel, api.GroupLabel} {
		if value, ok := set.Labels[key]; ok {
			slim.Labels[key] = value
		}
	}
	if operation.Aborted(set) {
		slim.Annotations[api.AbortAnnotation] = "" // only its presence counts
	}
	slim.Spec.Replicas = set.Spec.Replicas
	slim.Status = set.Status
	slim.Status.Conditions = nil
	return slim
}

// lagging is a set whose claims are to be compared with its request.
type lagging struct {
	look    look
	set     *appsv1.StatefulSet // its name and those of its templates
	targets map[string]api.Target
}

// lags returns nil if the set has no request that only a comparison of its claims can find unmet.
func lags(c operation.Change) *lagging {
	set, text := c.Set, c.Set.Annotations[api.ResizeAnnotation]
	if !resize.MayLag(c) {
		return nil
	}
	request, err := api.ParseRequest(text)
	if err != nil {
		return nil // resize.Concerned has seen that
	}
	slim := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name}}
	for i := range set.Spec.VolumeClaimTemplates {
		slim.Spec.VolumeClaimTemplates = append(slim.Spec.VolumeClaimTemplates, corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: set.Spec.VolumeClaimTemplates[i].Name}})
	}
	return &lagging{look: lookOf(set, []api.Function{api.DetectResize}), set: slim, targets: world.Wanted(set, text, request, c.Records.Resize)}
}

// behind reports whether one of the claims is not as the request says.
func (l *lagging) behind(claims []*corev1.PersistentVolumeClaim) bool {
	for _, c := range statefulset.ClaimsOf(l.set, claims) {
		if target, named := l.targets[c.Template]; named && statefulset.Lags(c.PersistentVolumeClaim, target) {
			return true
		}
	}
	return false
}
