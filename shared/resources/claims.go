package resources

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
)

var claimType = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}

// MakeTargetClaim returns the temporary claim of the new volume. Its spec is the source's spec with the changes of the operation. It gets
// the source's annotations, because provisioners read parameters from them. It does not get the source's labels, because other tools
// select by them.
func MakeTargetClaim(source *corev1.PersistentVolumeClaim, move *api.Move, link api.Link) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{
		TypeMeta: claimType,
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   source.Namespace,
			Name:        api.TargetName(link.Operation, move.Claim, move.Copies),
			Annotations: usersAnnotations(source.Annotations),
			Labels:      map[string]string{api.OperationLabel: link.Operation},
		},
		Spec: claimSpec(source, move.Target()),
	}
	delete(claim.Annotations, corev1.LastAppliedConfigAnnotation)
	claim.Annotations[api.OperationAnnotation] = link.Encode()
	return claim
}

// MakeSuccessor returns the claim that replaces the old claim under the same name and is bound to the volume. It keeps all fields of the
// old claim, including fields that this build does not know, except:
//   - references to the StatefulSet and its Pods: a set that is created again has another UID, and the garbage collector deletes objects
//     whose owners are all gone. The StatefulSet controller writes its references again;
//   - data sources and the selector: the volume already has the data, and the claim names the volume;
//   - the VolumeAttributesClass: it becomes the volume's class, because the volume controller binds no other volume.
//
// Its other owner references do not change. Use UnblockOwners before creating it, so that every account may do so.
func MakeSuccessor(old *unstructured.Unstructured, volume *corev1.PersistentVolume, target api.Target,
	link api.Link) *unstructured.Unstructured {
	claim := old.DeepCopy()
	delete(claim.Object, "status")
	dropServerFields(claim)
	claim.SetUID("")
	claim.SetResourceVersion("")
	claim.SetFinalizers(usersFinalizers(old.GetFinalizers()))
	metadata := child(claim.Object, "metadata")
	dropOwners(metadata)
	metadata["annotations"] = map[string]any{}
	for key, value := range usersAnnotations(old.GetAnnotations()) {
		setAnnotation(claim, key, value)
	}
	setLabel(claim, api.OperationLabel, link.Operation)
	setAnnotation(claim, api.OperationAnnotation, link.Encode())
	bindTo(child(claim.Object, "spec"), volume, target)
	return claim
}

// MakeClaim returns the claim that the StatefulSet controller creates from the set's template.
func MakeClaim(set *unstructured.Unstructured, template, name string) *unstructured.Unstructured {
	claim := &unstructured.Unstructured{Object: map[string]any{}}
	spec := child(set.DeepCopy().Object, "spec")
	for _, item := range list(spec["volumeClaimTemplates"]) {
		if found, ok := item.(map[string]any); ok && child(found, "metadata")["name"] == template {
			claim.Object = found
		}
	}
	claim.SetAPIVersion(claimType.APIVersion)
	claim.SetKind(claimType.Kind)
	claim.SetNamespace(set.GetNamespace())
	claim.SetName(name)
	selected, _, _ := unstructured.NestedStringMap(spec, "selector", "matchLabels")
	for key, value := range selected {
		setLabel(claim, key, value)
	}
	return claim
}

// UnblockOwners returns the claim without blockOwnerDeletion. If OwnerReferencesPermissionEnforcement is on, the API server denies that
// field to an account without rights on the owner.
func UnblockOwners(claim *unstructured.Unstructured) *unstructured.Unstructured {
	unblocked := claim.DeepCopy()
	unblockOwners(unblocked)
	return unblocked
}

// dropOwners removes the references to StatefulSets and Pods.
func dropOwners(metadata map[string]any) {
	kept := slices.DeleteFunc(list(metadata["ownerReferences"]), func(item any) bool {
		owner, ok := item.(map[string]any)
		return !ok || owner["kind"] == "StatefulSet" || owner["kind"] == "Pod"
	})
	if len(kept) == 0 {
		delete(metadata, "ownerReferences")
		return
	}
	metadata["ownerReferences"] = kept
}

// bindTo changes the spec so that the claim is bound to the volume.
func bindTo(spec map[string]any, volume *corev1.PersistentVolume, target api.Target) {
	for _, field := range []string{"dataSource", "dataSourceRef", "selector", "volumeAttributesClassName"} {
		delete(spec, field)
	}
	if class := volume.Spec.VolumeAttributesClassName; class != nil {
		spec["volumeAttributesClassName"] = *class
	}
	resources := child(spec, "resources")
	delete(resources, "limits")
	resources["requests"] = map[string]any{"storage": target.Size.String()}
	if len(target.Modes) > 0 {
		spec["accessModes"] = modes(target.Modes)
	}
	if target.Class != "" {
		spec["storageClassName"] = target.Class
	}
	spec["volumeName"] = volume.Name
}

// claimSpec returns the source's spec with the changes of the target.
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
		spec.VolumeAttributesClassName = nil // it belongs to the driver of the old class
	}
	if target.Attributes != nil {
		spec.VolumeAttributesClassName = nil
		if *target.Attributes != "" {
			spec.VolumeAttributesClassName = target.Attributes
		}
	}
	return spec
}

// usersFinalizers returns the finalizers without those of Kubernetes and Drydock, or nil.
func usersFinalizers(all []string) []string {
	var kept []string
	for _, finalizer := range all {
		if finalizer != api.FreezeFinalizer && !strings.HasPrefix(finalizer, "kubernetes.io/") {
			kept = append(kept, finalizer)
		}
	}
	return kept
}

// usersAnnotations returns the annotations without those of the volume controllers and Drydock, which describe the old binding. It keeps
// api.ReplicaOfAnnotation, because a replica uses the successor, too.
func usersAnnotations(all map[string]string) map[string]string {
	kept := map[string]string{}
	for key, value := range all {
		prefix, _, _ := strings.Cut(key, "/")
		if key == api.ReplicaOfAnnotation {
			prefix = ""
		}
		switch prefix {
		case "pv.kubernetes.io", "volume.kubernetes.io", "volume.beta.kubernetes.io", "drydock.dev":
		default:
			kept[key] = value
		}
	}
	return kept
}
