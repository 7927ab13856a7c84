package model

import (
	"encoding/json"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
)

// object is any Kubernetes object of the model.
type object interface {
	metav1.Object
	runtime.Object
}

type key struct {
	kind plan.Resource
	name string
}

// entry is one state of an object. It never changes: a write makes another one, so that worlds can share them.
type entry struct {
	object object
	text   []byte // as JSON, without resourceVersion
	digest [16]byte

	manifest *unstructured.Unstructured // made when it is asked for
	record   *api.Resize
}

// asManifest is the object with all its fields, as restore reads it.
func (e *entry) asManifest(apiVersion, kind string) *unstructured.Unstructured {
	if e.manifest == nil {
		text, _ := json.Marshal(e.object)
		e.manifest, _ = api.ParseManifest(text, apiVersion, kind)
	}
	return e.manifest
}

// fresh returns an empty object of the kind.
func fresh(kind plan.Resource) object {
	switch kind {
	case plan.StatefulSets:
		return &appsv1.StatefulSet{}
	case plan.ControllerRevisions:
		return &appsv1.ControllerRevision{}
	case plan.Claims:
		return &corev1.PersistentVolumeClaim{}
	case plan.Volumes:
		return &corev1.PersistentVolume{}
	case plan.Jobs:
		return &batchv1.Job{}
	}
	return &corev1.Pod{}
}
