package resources

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
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
	link := header.Link(role, set.Namespace)
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

// SetFields changes the fields in the manifest of a set and returns the manifest.
func SetFields(set *unstructured.Unstructured, fields []api.Field) *unstructured.Unstructured {
	for _, f := range fields {
		setField(set, f)
	}
	return set
}

// setField changes one field in the manifest of a set.
func setField(set *unstructured.Unstructured, f api.Field) {
	spec := child(set.Object, "spec")
	switch f.Name {
	case api.FieldTemplate:
		spec["volumeClaimTemplates"] = templatesWith(list(spec["volumeClaimTemplates"]), f)
		if len(list(spec["volumeClaimTemplates"])) == 0 {
			delete(spec, "volumeClaimTemplates")
		}
	case api.FieldLabels, api.FieldAnnotations:
		for _, item := range list(spec["volumeClaimTemplates"]) {
			if isTemplate(item, f.Template) {
				setMetadata(child(item.(map[string]any), "metadata"), f) // isTemplate has checked it
			}
		}
	default:
		spec[string(f.Name)] = f.Value
	}
}

// setMetadata sets or removes a label or an annotation.
func setMetadata(metadata map[string]any, f api.Field) {
	values := child(metadata, string(f.Name))
	if values[f.Key] = f.Value; f.Removed {
		delete(values, f.Key)
	}
	if len(values) == 0 {
		delete(metadata, string(f.Name))
	}
}

// templatesWith returns the volumeClaimTemplates without the field's template or, unless the field removes it, with the template at the
// end.
func templatesWith(templates []any, f api.Field) []any {
	kept := slices.DeleteFunc(slices.Clone(templates), func(item any) bool { return isTemplate(item, f.Template) })
	if f.Removed {
		return kept
	}
	spec := map[string]any{"accessModes": modes(f.Ask.Modes),
		"resources": map[string]any{"requests": map[string]any{"storage": f.Ask.Size.String()}}}
	if f.Ask.Class != "" {
		spec["storageClassName"] = f.Ask.Class
	}
	if f.Ask.Attributes != nil {
		spec["volumeAttributesClassName"] = *f.Ask.Attributes
	}
	return append(kept, map[string]any{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": map[string]any{"name": f.Template},
		"spec": spec})
}

func isTemplate(item any, name string) bool {
	template, ok := item.(map[string]any)
	return ok && child(template, "metadata")["name"] == name
}

// serverFields are the fields of metadata that the API server writes. UID and resourceVersion are not among them: they identify the state
// that an object was made from.
var serverFields = []string{"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields",
	"selfLink"}

func dropServerFields(object *unstructured.Unstructured) {
	metadata := child(object.Object, "metadata")
	for _, field := range serverFields {
		delete(metadata, field)
	}
}

// unblockOwners sets blockOwnerDeletion of all owner references to false.
func unblockOwners(object *unstructured.Unstructured) {
	for _, item := range list(child(object.Object, "metadata")["ownerReferences"]) {
		if owner, ok := item.(map[string]any); ok && owner["blockOwnerDeletion"] == true {
			owner["blockOwnerDeletion"] = false
		}
	}
}

// child returns the map at the key. If there is none, it adds one.
func child(parent map[string]any, key string) map[string]any {
	if node, ok := parent[key].(map[string]any); ok {
		return node
	}
	node := map[string]any{}
	parent[key] = node
	return node
}

// list returns the node as a list, or nil if it is not a list.
func list(node any) []any {
	items, _ := node.([]any)
	return items
}

func modes(all []corev1.PersistentVolumeAccessMode) []any {
	var items []any
	for _, mode := range all {
		items = append(items, string(mode))
	}
	return items
}

func setLabel(object *unstructured.Unstructured, key, value string) {
	child(child(object.Object, "metadata"), "labels")[key] = value
}

func setAnnotation(object *unstructured.Unstructured, key, value string) {
	child(child(object.Object, "metadata"), "annotations")[key] = value
}
