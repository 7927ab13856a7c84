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

// A sweep remembers every opted-in set until it has read all of them, and a tenant can make a set as large as 1.5 MiB. It therefore
// remembers only the fields that it needs later, whose size does not depend on the tenant.

// unmetRequest is a set whose claims must be compared with its resize request.
type unmetRequest struct {
	notice  notice
	set     *appsv1.StatefulSet // only the name, and the names of the templates
	targets map[string]api.Target
}

// unmetRequestOf returns the set's request if only a comparison with its claims can show that the request is unmet. Otherwise it returns
// nil.
func unmetRequestOf(c operation.Change) *unmetRequest {
	set := c.Set
	if !resize.ClaimsMayLag(c) {
		return nil
	}
	reduced := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name}}
	for i := range set.Spec.VolumeClaimTemplates {
		reduced.Spec.VolumeClaimTemplates = append(reduced.Spec.VolumeClaimTemplates, corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: set.Spec.VolumeClaimTemplates[i].Name}})
	}
	return &unmetRequest{notice: noticeOf(set, []api.Function{api.DetectResize}), set: reduced,
		targets: world.EffectiveTargets(set, c.Records.Resize)}
}

// isUnmetBy reports whether one of the set's claims differs from the request.
func (l *unmetRequest) isUnmetBy(claims []*corev1.PersistentVolumeClaim) bool {
	for _, c := range statefulset.ClaimsOf(l.set, claims) {
		if target, named := l.targets[c.Template]; named && statefulset.NeedsChange(c.PersistentVolumeClaim, target) {
			return true
		}
	}
	return false
}
