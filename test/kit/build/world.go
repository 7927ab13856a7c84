package build

import (
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
	"drydock.dev/shared/world"
)

// World builds the observed world of StatefulSet web from the objects. Without a StatefulSet among them the set does
// not exist.
func World(objects ...metav1.Object) *world.Observed {
	o := &world.Observed{Now: Now, Name: "web", Volumes: map[string]*corev1.PersistentVolume{}, Nodes: map[string]*corev1.Node{},
		ClaimManifests: map[string]*unstructured.Unstructured{}}
	for _, object := range objects {
		switch object := object.(type) {
		case *appsv1.StatefulSet:
			o.Set, o.Name, o.SetJSON = object, object.Name, JSON(object)
		case *corev1.PersistentVolumeClaim:
			o.Claims = append(o.Claims, object)
			o.ClaimManifests[object.Name] = Untyped(object)
		case *corev1.PersistentVolume:
			o.Volumes[object.Name] = object
		case *corev1.Pod:
			o.Pods = append(o.Pods, object)
		case *batchv1.Job:
			o.Jobs = append(o.Jobs, object)
		case *appsv1.ControllerRevision:
			o.Journals = append(o.Journals, object)
		case *corev1.Node:
			o.Nodes[object.Name] = object
		case *storagev1.VolumeAttachment:
			o.Attachments = append(o.Attachments, object)
		default:
			panic(fmt.Sprintf("a world has no %T", object))
		}
	}
	return o
}

// Typed converts the object to a Go type, by its JSON.
func Typed[T any](object any) *T {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	typed := new(T)
	if err := json.Unmarshal(text, typed); err != nil {
		panic(err)
	}
	return typed
}

// Untyped converts a set or a claim to an unstructured object, as the API server returns it.
func Untyped(object metav1.Object) *unstructured.Unstructured {
	apiVersion, kind := "v1", "PersistentVolumeClaim"
	if _, ok := object.(*appsv1.StatefulSet); ok {
		apiVersion, kind = "apps/v1", "StatefulSet"
	}
	raw, err := api.ParseManifest(JSON(object), apiVersion, kind)
	if err != nil {
		panic(err)
	}
	return raw
}

// JSON returns the object as the API server sends it.
func JSON(object any) []byte {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return text
}
