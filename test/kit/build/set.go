package build

import (
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
)

// Set builds an opted-in StatefulSet with one ready replica. It runs as user 1000 and has generation 5.
func Set(name string, options ...Option) *appsv1.StatefulSet {
	labels := map[string]string{"app": name}
	set := &appsv1.StatefulSet{
		ObjectMeta: meta(Namespace, name),
		Spec: appsv1.StatefulSetSpec{
			ServiceName: name,
			Selector:    &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					SecurityContext: &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](1000), FSGroup: ptr.To[int64](1000)},
					Containers:      []corev1.Container{{Name: "db", Image: "registry.example/db:1"}},
				},
			},
		},
	}
	set.Labels = map[string]string{api.ManagedLabel: "true"}
	set.Generation = 5
	Replicas(1)(set)
	With(set, options...)
	set.Status.ObservedGeneration += set.Generation
	return set
}

// Replicas sets the replica count. All replicas are ready.
func Replicas(n int32) Option {
	return Edit(func(s *appsv1.StatefulSet) {
		s.Spec.Replicas = &n
		s.Status.Replicas, s.Status.ReadyReplicas = n, n
	})
}

// ReplicaCounts sets the replicas and the ready replicas in the status.
func ReplicaCounts(n, ready int32) Option {
	return Edit(func(s *appsv1.StatefulSet) { s.Status.Replicas, s.Status.ReadyReplicas = n, ready })
}

// NotObserved makes the observed generation lag behind the spec.
func NotObserved() Option {
	return Edit(func(s *appsv1.StatefulSet) { s.Status.ObservedGeneration = -1 })
}

// Template adds a volumeClaimTemplate.
func Template(name, size, class string) Option {
	return Edit(func(s *appsv1.StatefulSet) {
		claim := Claim(name, size, OfClass(class))
		s.Spec.VolumeClaimTemplates = append(s.Spec.VolumeClaimTemplates,
			corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: claim.Spec.AccessModes, StorageClassName: claim.Spec.StorageClassName, Resources: claim.Spec.Resources}})
	})
}

// WhenScaled sets the retention policy for the claims of replicas that a scale-down removes.
func WhenScaled(policy appsv1.PersistentVolumeClaimRetentionPolicyType) Option {
	return Edit(func(s *appsv1.StatefulSet) {
		s.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenScaled: policy}
	})
}

// Status stores the record of a resize on the set.
func Status(status *api.Resize) Option {
	return Annotation(api.StatusAnnotation, status.Encode())
}

// GrowTo has grow-volumes raise the floors an hour ago, for example to "data=15Gi". over is the user's request at that time. Changes edit
// the stored document.
func GrowTo(floors, over string, changes ...func(*api.Growth)) Option {
	return func(o metav1.Object) {
		growth := &api.Growth{Version: api.GrowthVersion, Set: o.GetNamespace() + "/" + o.GetName(), Latest: map[string]api.RequestedGrowth{}}
		sizes := map[string]string{}
		for part := range strings.SplitSeq(over, ",") {
			template, size, _ := strings.Cut(part, "=")
			sizes[template] = size
		}
		for part := range strings.SplitSeq(floors, ",") {
			template, size, _ := strings.Cut(part, "=")
			before := sizes[template]
			growth.Latest[template] = api.RequestedGrowth{At: metav1.NewTime(Now.Add(-time.Hour)), Size: size, Cause: "it was full", Over: &before}
		}
		for _, change := range changes {
			change(growth)
		}
		Annotation(api.GrowToAnnotation, floors)(o)
		Annotation(api.GrowthAnnotation, growth.Encode())(o)
	}
}

// Resize requests a resize.
func Resize(request string) Option { return Annotation(api.ResizeAnnotation, request) }
