package model

import (
	"encoding/json"
	"regexp"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
)

// namespace holds every namespaced object.
const namespace = "shop"

// setName is the name of the only StatefulSet.
const setName = "web"

// object is any Kubernetes object of the model.
type object interface {
	metav1.Object
	runtime.Object
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

type key struct {
	kind plan.Resource
	name string
}

// entry is one version of an object. It is immutable: a write makes a new entry, so that worlds can share entries.
type entry struct {
	object object
	text   []byte // as JSON, without resourceVersion
	digest [16]byte

	sent     []byte // computed on first use, like the following
	manifest *unstructured.Unstructured
	record   *api.Resize
}

// asJSON returns the object as the API server sends it.
func (e *entry) asJSON() []byte {
	if e.sent == nil {
		e.sent, _ = json.Marshal(e.object)
	}
	return e.sent
}

// asManifest returns the object with all its fields, as restore reads it.
func (e *entry) asManifest(apiVersion, kind string) *unstructured.Unstructured {
	if e.manifest == nil {
		e.manifest, _ = api.ParseManifest(e.asJSON(), apiVersion, kind)
	}
	return e.manifest
}

func withoutVersion(o object) []byte {
	version := o.GetResourceVersion()
	o.SetResourceVersion("")
	text, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	o.SetResourceVersion(version)
	return text
}

// versions matches resourceVersions within annotations. They differ between paths to the same state.
var versions = regexp.MustCompile(`\bv[0-9]+\b`)

// removable reports whether the terminating object has no finalizer and no grace period left.
func removable(o object) bool {
	grace := o.GetDeletionGracePeriodSeconds()
	return o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 && (grace == nil || *grace == 0)
}
