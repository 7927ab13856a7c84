package resources

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
)

var claimType = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}

// MakeTargetClaim builds the temporary claim for which the new volume is provisioned. It asks for what the source
// asks, but for what the operation changes. The source's annotations come along, since provisioners read parameters from them;
// its labels do not, since other tools select by them.
func MakeTargetClaim(source *corev1.PersistentVolumeClaim, c api.ClaimStatus, link api.Link) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{
		TypeMeta: claimType,
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   source.Namespace,
			Name:        CopyName(link.Operation, c.Name, link.Round),
			Annotations: usersAnnotations(source.Annotations),
			Labels:      map[string]string{api.OperationLabel: link.Operation},
		},
		Spec: claimSpec(source, c.Target()),
	}
	delete(claim.Annotations, corev1.LastAppliedConfigAnnotation)
	claim.Annotations[api.OperationAnnotation] = link.Encode()
	return claim
}

// MakeSuccessor builds the claim that takes the old one's name and is bound to the volume. Everything people wrote on
// the old claim comes along. References to the StatefulSet and its Pods do not: a re-created set has another UID, and
// the garbage collector deletes what only dead owners own; the StatefulSet controller writes its references anew.
// A data source does not either: the volume has the data.
func MakeSuccessor(old *corev1.PersistentVolumeClaim, volume string, target api.Target, link api.Link) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{
		TypeMeta: claimType,
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   old.Namespace,
			Name:        old.Name,
			Labels:      maps.Clone(old.Labels),
			Annotations: usersAnnotations(old.Annotations),
			Finalizers: slices.DeleteFunc(slices.Clone(old.Finalizers), func(f string) bool {
				return f == api.SwitchFinalizer || strings.HasPrefix(f, "kubernetes.io/")
			}),
			OwnerReferences: slices.DeleteFunc(slices.Clone(old.OwnerReferences), func(o metav1.OwnerReference) bool {
				return o.Kind == "StatefulSet" || o.Kind == "Pod"
			}),
		},
		Spec: claimSpec(old, target),
	}
	claim.Spec.VolumeName = volume
	if claim.Labels == nil {
		claim.Labels = map[string]string{}
	}
	claim.Labels[api.OperationLabel] = link.Operation
	claim.Annotations[api.OperationAnnotation] = link.Encode()
	return claim
}

func claimSpec(source *corev1.PersistentVolumeClaim, target api.Target) corev1.PersistentVolumeClaimSpec {
	spec := corev1.PersistentVolumeClaimSpec{
		AccessModes:               slices.Clone(source.Spec.AccessModes),
		Resources:                 corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: target.Size}},
		StorageClassName:          source.Spec.StorageClassName,
		VolumeMode:                source.Spec.VolumeMode,
		VolumeAttributesClassName: source.Spec.VolumeAttributesClassName,
	}
	if len(target.Modes) > 0 {
		spec.AccessModes = slices.Clone(target.Modes)
	}
	if target.Class != "" {
		spec.StorageClassName = &target.Class
		spec.VolumeAttributesClassName = nil // it is of the old class's driver
	}
	return spec
}

// usersAnnotations drops what the volume controllers and Drydock wrote about the old binding.
func usersAnnotations(all map[string]string) map[string]string {
	kept := map[string]string{}
	for key, value := range all {
		prefix, _, _ := strings.Cut(key, "/")
		switch prefix {
		case "pv.kubernetes.io", "volume.kubernetes.io", "volume.beta.kubernetes.io", "drydock.dev":
		default:
			kept[key] = value
		}
	}
	return kept
}
