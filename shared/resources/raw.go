package resources

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

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
