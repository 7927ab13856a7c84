package build

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
)

// Claim builds a claim of StatefulSet web that is bound to volume pv-NAME.
func Claim(name, size string, options ...Option) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: meta(Namespace, name),
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: quantity(size)}},
			StorageClassName: ptr.To(Class),
		},
	}
	claim.Labels = map[string]string{"app": setOf(name)}
	claim.Finalizers = []string{"kubernetes.io/pvc-protection"}
	BoundTo("pv-" + name)(claim)
	return With(claim, options...)
}

// Target builds the temporary claim that a mover fills. It is bound to volume pv-new-CLAIM.
func Target(claim, size string, options ...Option) *corev1.PersistentVolumeClaim {
	target := Claim(api.TargetName(ID, claim, 0), size, Label("app", ""), Link(api.RoleTarget, claim), BoundTo("pv-new-"+claim))
	return With(target, options...)
}

// BoundTo binds a claim to the volume. With an empty name the claim is pending and has no volume.
func BoundTo(volume string) Option {
	return Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Spec.VolumeName, c.Status.Phase = volume, corev1.ClaimBound
		if volume == "" {
			c.Status.Phase = corev1.ClaimPending
		}
	})
}

// Pending makes a claim pending. It still names its volume.
func Pending() Option {
	return Edit(func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimPending })
}

// OfClass sets the StorageClass. An empty name removes it.
func OfClass(class string) Option {
	return Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Spec.StorageClassName = ptr.To(class)
		if class == "" {
			c.Spec.StorageClassName = nil
		}
	})
}

// provisionedBy is the annotation that a provisioner writes on its volumes.
const provisionedBy = "pv.kubernetes.io/provisioned-by"

// Static marks a volume as created by an administrator, not by a provisioner.
func Static() Option { return func(o metav1.Object) { delete(o.GetAnnotations(), provisionedBy) } }

// Unclaimed makes a volume available, without a claim.
func Unclaimed() Option {
	return Edit(func(v *corev1.PersistentVolume) { v.Status.Phase, v.Spec.ClaimRef = corev1.VolumeAvailable, nil })
}

// Volume builds a provisioned volume that is bound to the claim. Its reclaim policy is Delete.
func Volume(name string, claim *corev1.PersistentVolumeClaim, options ...Option) *corev1.PersistentVolume {
	volume := &corev1.PersistentVolume{
		ObjectMeta: meta("", name),
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: claim.Spec.AccessModes, Capacity: claim.Spec.Resources.Requests, StorageClassName: Class,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef:                      &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}
	volume.Annotations = map[string]string{provisionedBy: "kit.example.com"}
	return With(volume, options...)
}

// VolumeOf builds the claim's bound volume.
func VolumeOf(claim *corev1.PersistentVolumeClaim, options ...Option) *corev1.PersistentVolume {
	return Volume(claim.Spec.VolumeName, claim, options...)
}

// Retained sets a volume to Retain as an operation does, and links the volume to the operation.
func Retained(role api.Role, claim string) Option {
	return Edit(func(v *corev1.PersistentVolume) {
		With(v, Link(role, claim), Annotation(api.ReclaimPolicyAnnotation, string(v.Spec.PersistentVolumeReclaimPolicy)))
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	})
}

// Released makes a volume released: its claim is gone.
func Released() Option {
	return Edit(func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeReleased })
}

// Reserved reserves a volume for the claim in the manifest.
func Reserved(manifest *corev1.PersistentVolumeClaim) Option {
	return Edit(func(v *corev1.PersistentVolume) {
		v.Status.Phase = corev1.VolumeAvailable
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: manifest.Namespace, Name: manifest.Name}
		Annotation(api.ClaimManifestAnnotation, api.EncodeClaim(manifest))(v)
	})
}

// TakenBy binds a volume to the claim with the UID.
func TakenBy(claim string, uid types.UID) Option {
	return Edit(func(v *corev1.PersistentVolume) {
		v.Status.Phase = corev1.VolumeBound
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: Namespace, Name: claim, UID: uid}
	})
}
