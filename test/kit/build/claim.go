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
	On("pv-" + name)(claim)
	return With(claim, options...)
}

// Target builds the temporary claim, bound to volume pv-new-CLAIM, that a mover fills.
func Target(claim, size string, options ...Option) *corev1.PersistentVolumeClaim {
	target := Claim(api.TargetName(ID, claim, 0), size, Label("app", ""), Link(api.RoleTarget, claim), On("pv-new-"+claim))
	return With(target, options...)
}

// On binds a claim to the volume; an empty name is a claim that has none yet.
func On(volume string) Option {
	return Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Spec.VolumeName, c.Status.Phase = volume, corev1.ClaimBound
		if volume == "" {
			c.Status.Phase = corev1.ClaimPending
		}
	})
}

// Pending is a claim that names its volume and is not bound to it yet.
func Pending() Option {
	return Edit(func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimPending })
}

// OfClass sets the StorageClass; an empty one is none.
func OfClass(class string) Option {
	return Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Spec.StorageClassName = ptr.To(class)
		if class == "" {
			c.Spec.StorageClassName = nil
		}
	})
}

// provisionedBy is what a provisioner writes on a volume that it makes.
const provisionedBy = "pv.kubernetes.io/provisioned-by"

// Static makes a volume one that an administrator created, not a provisioner.
func Static() Option { return func(o metav1.Object) { delete(o.GetAnnotations(), provisionedBy) } }

// Unclaimed is a volume that no claim has.
func Unclaimed() Option {
	return Edit(func(v *corev1.PersistentVolume) { v.Status.Phase, v.Spec.ClaimRef = corev1.VolumeAvailable, nil })
}

// Volume builds a provisioned volume with reclaim policy Delete that the claim has.
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

// VolumeOf builds the volume that the claim is bound to.
func VolumeOf(claim *corev1.PersistentVolumeClaim, options ...Option) *corev1.PersistentVolume {
	return Volume(claim.Spec.VolumeName, claim, options...)
}

// Retained is a volume that an operation has set to Retain.
func Retained(role api.Role, claim string) Option {
	return Edit(func(v *corev1.PersistentVolume) {
		With(v, Link(role, claim), Annotation(api.ReclaimPolicyAnnotation, string(v.Spec.PersistentVolumeReclaimPolicy)))
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	})
}

// Released is a volume whose claim is gone.
func Released() Option {
	return Edit(func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeReleased })
}

// Reserved is a volume that waits for the claim in the manifest.
func Reserved(manifest *corev1.PersistentVolumeClaim) Option {
	return Edit(func(v *corev1.PersistentVolume) {
		v.Status.Phase = corev1.VolumeAvailable
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: manifest.Namespace, Name: manifest.Name}
		Annotation(api.ClaimManifestAnnotation, api.EncodeClaim(manifest))(v)
	})
}

// TakenBy is a volume that is bound to the claim of the UID.
func TakenBy(claim string, uid types.UID) Option {
	return Edit(func(v *corev1.PersistentVolume) {
		v.Status.Phase = corev1.VolumeBound
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: Namespace, Name: claim, UID: uid}
	})
}
