package pauseowner

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/turns"
	"drydock.dev/shared/world"
)

// Input is everything that Decide depends on. Of the set's namespace, the embedded Observed contains only the journals of operations.
type Input struct {
	*world.Observed
	Namespace string
	Settings  api.Settings
	// Owners must be paused before the planned operation: the custom resource that controls the set, and the resources that scale it.
	Owners []Owner
	// Controller is the custom resource that controls a set without operations, if its operator may have changed the metadata of the set; nil:
	// it was not read.
	Controller *Owner
	// OptInAdvice says how a set that has lost its label stays opted in; empty: its operator does not remove the label.
	OptInAdvice string
	// Siblings are the other sets that the same resource controls. They are read only for a sleep.
	Siblings []*appsv1.StatefulSet
	// OwnerRecords are the records of owners that operations on this set have paused or were about to pause.
	OwnerRecords []OwnerRecord
	// Consent is what the namespace lets Drydock change in owners. It is read if an owner disagrees that Drydock is to change.
	Consent api.OwnerConsent
	// Turns is the list of turns. It is nil if no limit applies, or if the list does not matter.
	Turns *turns.List
	// Rejected is the error if the API server permanently rejected a write of this event or a dry run, else nil.
	Rejected error
	// Untried is true if the dry run of a write to an owner was not possible. Only the sleep's next try shows the API server's answer.
	Untried bool
	// NotForeseen is true if the API server rejects a real write, but not its dry run. Later dry runs cannot show when the cause is gone, so
	// only the sleep's next try does.
	NotForeseen bool
	// Failures are the failed writes of this event.
	Failures plan.Failures
}

// Owner is a custom resource that would undo the changes of an operation to a StatefulSet.
type Owner struct {
	Ref      metav1.OwnerReference
	Row      owners.Row
	Resource plan.Resource
	Object   *unstructured.Unstructured // nil: the owner is gone
	// Allowed is true if the namespace allows Drydock to pause and stop the resource.
	Allowed bool
	// Problem says why the owner cannot be paused.
	Problem string
}

// autoscalerKind is the kind of Kubernetes' own autoscaler. An owner of this kind has no operator's resource behind it.
const autoscalerKind = "HorizontalPodAutoscaler"

// OwnerRecord is a record of a paused owner, with the owner as it is now.
type OwnerRecord struct {
	Revision *appsv1.ControllerRevision
	Link     *api.Link
	Owner    *api.PausedOwner
	Row      owners.Row // empty: no row names the kind any more
	Resource plan.Resource
	Object   *unstructured.Unstructured // nil: the owner is gone
	Err      error                      // why the record cannot be read
	Denied   error                      // why pause-owner must not read the owner
	// Controls is true if the owner disagrees with the set after a resize, and still controls the set. Sets are then the owner's opted-in
	// sets, with this one.
	Controls bool
	Sets     []*appsv1.StatefulSet
}
