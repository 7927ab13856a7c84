package resources

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"drydock.dev/shared/api"
)

// MakeSet returns the StatefulSet that replaces the set. It has all fields of the set, the given claim templates and the record. It works
// on the manifest from the API server, so that fields of a newer Kubernetes survive. UID and resourceVersion are still those of the
// replaced set.
//
// No owner has blockOwnerDeletion: if OwnerReferencesPermissionEnforcement is on, the API server denies that field to an account without
// rights on the owner. See api.SetMetadata for the writes after the creation.
func MakeSet(set *unstructured.Unstructured, templates []api.TemplateTarget, record *api.Resize) *unstructured.Unstructured {
	replacement := set.DeepCopy()
	delete(replacement.Object, "status")
	dropServerFields(replacement)
	setAnnotation(replacement, api.StatusAnnotation, record.Encode())
	unblockOwners(replacement)
	for _, item := range list(child(replacement.Object, "spec")["volumeClaimTemplates"]) {
		template, _ := item.(map[string]any)
		for _, target := range templates {
			if template != nil && child(template, "metadata")["name"] == target.Name {
				retargetTemplate(template, target)
			}
		}
	}
	return replacement
}

// AddCleanupFinalizer adds the finalizer that keeps a deleted set until cleanup-pod has cleaned up, and returns the set.
func AddCleanupFinalizer(set *unstructured.Unstructured) *unstructured.Unstructured {
	if finalizers := set.GetFinalizers(); !slices.Contains(finalizers, api.CleanupFinalizer) {
		set.SetFinalizers(append(finalizers, api.CleanupFinalizer))
	}
	setLabel(set, api.FinalizerLabel, api.FinalizerForCleanup)
	return set
}

// retargetTemplate changes a volumeClaimTemplate to the target.
func retargetTemplate(template map[string]any, target api.TemplateTarget) {
	spec := child(template, "spec")
	resources := child(spec, "resources")
	delete(resources, "limits")
	resources["requests"] = map[string]any{"storage": target.Size.String()}
	if len(target.Modes) > 0 {
		spec["accessModes"] = modes(target.Modes)
	}
	if target.Class != "" && spec["storageClassName"] != target.Class {
		spec["storageClassName"] = target.Class
		delete(spec, "volumeAttributesClassName") // it belongs to the driver of the old class
	}
	setAttributes(spec, target.Attributes)
}

// setAttributes sets the VolumeAttributesClass in the spec. Empty removes the class, and nil keeps the present class.
func setAttributes(spec map[string]any, class *string) {
	switch {
	case class == nil:
	case *class == "":
		delete(spec, "volumeAttributesClassName")
	default:
		spec["volumeAttributesClassName"] = *class
	}
}

// MakeJournal returns the journal of the operation. A ControllerRevision is Kubernetes' own kind for such data: its content is immutable,
// and users that may read StatefulSets can usually read it, too.
func MakeJournal(set *appsv1.StatefulSet, record *api.Resize) *appsv1.ControllerRevision {
	journal := api.Journal{Version: api.RecordVersion, Record: *record}
	return makeRevision(set, &record.Header, api.RoleJournal, api.JournalName(record.Operation), journal.Encode())
}

// MakeStopRecord returns the durable copy of a stop, in case the annotation on the set is lost. It leaves out the retention policy: the
// manifest that removed the annotation may have set it, and Retain deletes nothing.
func MakeStopRecord(set *appsv1.StatefulSet, stop *api.Stop) *appsv1.ControllerRevision {
	header := &api.Header{Operation: stop.Operation, Set: stop.Set}
	data := api.StopRecord{Version: api.RecordVersion, Stop: *stop}
	data.Stop.WhenScaled = ""
	return makeRevision(set, header, api.RoleStop, api.StopRecordName(stop.Operation), data.Encode())
}

// MakeOwnerRecord returns the durable record of an owner that the operation pauses or stops.
func MakeOwnerRecord(set *appsv1.StatefulSet, of interface{ Head() *api.Header }, owner api.PausedOwner) *appsv1.ControllerRevision {
	return makeRevision(set, of.Head(), api.RoleOwner, api.OwnerRecordName(of.Head().Operation, owner.UID), owner.Encode())
}

// makeRevision returns a ControllerRevision that is linked to the operation.
func makeRevision(set *appsv1.StatefulSet, header *api.Header, role api.Role, name string, data []byte) *appsv1.ControllerRevision {
	link := api.Link{Operation: header.Operation, Role: role, Namespace: set.Namespace, Set: header.Set}
	return &appsv1.ControllerRevision{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ControllerRevision"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   set.Namespace,
			Name:        name,
			Labels:      map[string]string{api.OperationLabel: header.Operation},
			Annotations: map[string]string{api.OperationAnnotation: link.Encode()},
		},
		Data:     runtime.RawExtension{Raw: data},
		Revision: 1,
	}
}
