package resources

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"drydock.dev/shared/api"
)

// MakeSet builds the StatefulSet that replaces set: all its fields, the claim templates as given, and the record. It works on the
// set as the API server has it, so that fields of a newer Kubernetes survive. Its UID and resourceVersion are still those of the
// set that it was made from. No owner has blockOwnerDeletion: where OwnerReferencesPermissionEnforcement is on, the API server
// refuses that to an account without rights on the owner. See api.SetMetadata for the writes after the creation.
func MakeSet(set *unstructured.Unstructured, templates []api.TemplateTarget, record *api.Resize) *unstructured.Unstructured {
	made := set.DeepCopy()
	delete(made.Object, "status")
	dropServerFields(made)
	setAnnotation(made, api.StatusAnnotation, record.Encode())
	unblockOwners(made)
	for _, item := range list(child(made.Object, "spec")["volumeClaimTemplates"]) {
		template, _ := item.(map[string]any)
		for _, target := range templates {
			if template != nil && child(template, "metadata")["name"] == target.Name {
				retarget(template, target)
			}
		}
	}
	return made
}

// AddCleanupFinalizer has cleanup-pod hold the set when it is deleted.
func AddCleanupFinalizer(set *unstructured.Unstructured) *unstructured.Unstructured {
	if finalizers := set.GetFinalizers(); !slices.Contains(finalizers, api.CleanupFinalizer) {
		set.SetFinalizers(append(finalizers, api.CleanupFinalizer))
	}
	setLabel(set, api.FinalizerLabel, api.FinalizerForCleanup)
	return set
}

func retarget(template map[string]any, target api.TemplateTarget) {
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

// setAttributes has the spec name the VolumeAttributesClass, or none if it is empty; nil keeps what it names.
func setAttributes(spec map[string]any, class *string) {
	switch {
	case class == nil:
	case *class == "":
		delete(spec, "volumeAttributesClassName")
	default:
		spec["volumeAttributesClassName"] = *class
	}
}

// MakeJournal builds the operation's durable record. A ControllerRevision is Kubernetes' own place for such data: it
// cannot be changed once written, and users that may read StatefulSets may usually read it too.
func MakeJournal(set *appsv1.StatefulSet, status *api.Resize) *appsv1.ControllerRevision {
	journal := api.Journal{Version: api.RecordVersion, Record: *status}
	return record(set, &status.Header, api.RoleJournal, api.JournalName(status.Operation), journal.Encode())
}

// MakeSleepRecord builds the durable record of a sleep, in case the set's own document is lost.
func MakeSleepRecord(set *appsv1.StatefulSet, sleep *api.Sleep) *appsv1.ControllerRevision {
	data := api.SleepRecord{Version: api.RecordVersion, Sleep: *sleep}
	return record(set, &sleep.Header, api.RoleSleep, api.SleepRecordName(sleep.Operation), data.Encode())
}

// MakeOwnerRecord builds the durable record of an owner that the operation pauses or stops.
func MakeOwnerRecord(set *appsv1.StatefulSet, of interface{ Head() *api.Header }, owner api.PausedOwner) *appsv1.ControllerRevision {
	return record(set, of.Head(), api.RoleOwner, api.OwnerRecordName(of.Head().Operation, owner.UID), owner.Encode())
}

func record(set *appsv1.StatefulSet, status *api.Header, role api.Role, name string, data []byte) *appsv1.ControllerRevision {
	link := api.Link{Operation: status.Operation, Role: role, Namespace: set.Namespace, Set: status.Set}
	return &appsv1.ControllerRevision{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ControllerRevision"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   set.Namespace,
			Name:        name,
			Labels:      map[string]string{api.OperationLabel: status.Operation},
			Annotations: map[string]string{api.OperationAnnotation: link.Encode()},
		},
		Data:     runtime.RawExtension{Raw: data},
		Revision: 1,
	}
}
