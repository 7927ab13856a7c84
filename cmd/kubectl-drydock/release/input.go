package release

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
)

// Input has the facts about one StatefulSet, or about the remaining objects of a deleted set.
type Input struct {
	Now             time.Time
	Namespace, Name string
	Set             *appsv1.StatefulSet // nil if it is deleted
	// Stops, Journals and Owners are the records of operations on the set.
	Stops, Journals []*appsv1.ControllerRevision
	Owners          []Owner
	// Held are the pods of the set with a hold. Claims are the claims of the namespace if there are such pods.
	Held   []*corev1.Pod
	Claims []*corev1.PersistentVolumeClaim
	// Holds says that no function runs any more, so that holds are removed although an operation is active.
	Holds bool
}

// Owner is a custom resource that an operation has paused, and the record of the pause.
type Owner struct {
	Record    *appsv1.ControllerRevision
	Operation string
	Set       string // of the operation
	Doc       *api.PausedOwner
	Resource  plan.Resource
	Object    *unstructured.Unstructured // nil if it is deleted
	Err       error                      // the record or the resource is unreadable
}
