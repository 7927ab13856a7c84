package cleanuppod

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// Input is what Decide decides on.
type Input struct {
	Now  time.Time
	Name string
	Set  *appsv1.StatefulSet // nil: it does not exist
	// Claims with a name of the set's.
	Claims []*corev1.PersistentVolumeClaim
	// Pods that clean up after a set of the name, have the name of a replica, or use one of the claims.
	Pods []*corev1.Pod
	// Revision is the ControllerRevision of the set's pods; read when the set is being deleted, nil if it is gone.
	Revision *appsv1.ControllerRevision
	// Records are the roles of the records that other operations keep of the set; read where the set is at zero or being deleted.
	Records []api.Role
	// Paused is true if a Scaler of the set is paused, or may just have been; read where the set is at zero.
	Paused bool
	// Denied is why the API server would refuse a pod of a new template; empty if it would not.
	Denied string
	// Doubt is why it would not let the pod be made now; empty if it would.
	Doubt string
	// Rejected is why the API server refused a write of this event for good; empty if it did not.
	Rejected string
	// NamespaceEnds is true if it did so because the namespace is being deleted.
	NamespaceEnds bool
	// Retry is true if the event asks to take up what has failed.
	Retry    bool
	Settings api.Settings
	// Trace is the traceparent of an operation that begins now; empty when tracing is off.
	Trace string
}

// Decide is pure. It takes one step. The cleanup pod has the name of the replica that is gone: as long as it is there, the set
// cannot start one on the claims that it works on.
func Decide(in Input) plan.Plan {
	if in.Set == nil {
		return in.letGoOfAll()
	}
	doc, err := api.LoadCleanup(in.Set)
	if err != nil {
		return plan.Do(api.StatusInvalid, plan.Record(in.Set.Namespace, in.Set.Name,
			plan.Note{Warning: true, Reason: api.StatusInvalid, Message: err.Error(), UID: in.Set.UID}))
	}
	if p := in.letGoOfStrays(doc); p.Kind == plan.KindDo {
		return p
	}
	if in.Set.DeletionTimestamp != nil {
		return in.deleted(doc)
	}
	if p := in.finalize(); p.Kind == plan.KindDo {
		return p
	}
	switch {
	case !statefulset.Managed(in.Set):
		return in.cancel(doc, api.NotManaged, "the StatefulSet is not opted in any more")
	case in.resizes() || in.sleeps() || in.scales() || in.paused():
		return plan.Noop(api.InProgress)
	case !statefulset.CleanupAsked(in.Set):
		return in.cancel(doc, api.NoCleanup, "the StatefulSet has no cleanup pod template any more")
	}
	if _, problem := in.template(doc); problem != nil {
		return in.refuse(doc, problem)
	}
	if in.aborted() && doc.Active() {
		return in.cancel(doc, api.Aborted, "aborted")
	}
	return in.cleanUp(doc)
}

// deleted is about a set that is being deleted. With our finalizer it is cleaned up as if it was scaled to nothing.
func (in Input) deleted(doc *api.Cleanup) plan.Plan {
	if !cleanup.Finalized(in.Set) {
		return in.cancel(doc, api.SetGone, "the StatefulSet is being deleted")
	}
	if why := in.unheld(doc); why != "" {
		return in.letGoOfSet(doc, why)
	}
	return in.cleanUp(doc)
}

// ordinals are the set's places.
func (in Input) ordinals() []cleanup.Ordinal {
	return cleanup.Ordinals(in.Set, in.Claims, in.Pods)
}

// resizes reports whether the set is being resized, or one of its claims is not whole.
func (in Input) resizes() bool {
	return operation.Of(in.Set).Resizing() || slices.Contains(in.Records, api.RoleJournal)
}

// sleeps reports whether the set is asleep: then its replicas are away and not gone. The records tell so also when somebody has
// removed the set's own document, which would make every claim one that a scale-down has left behind.
func (in Input) sleeps() bool {
	return operation.Of(in.Set).Sleeping() || slices.Contains(in.Records, api.RoleSleep) || slices.Contains(in.Records, api.RoleOwner)
}

// scales reports whether the set is being scaled, and the scaling does not wait for this cleanup.
func (in Input) scales() bool {
	r := operation.Of(in.Set)
	return r.Scaling() && !r.AwaitsCleanup()
}

// paused reports whether members of the set are away because its Scaler is paused, or was: they are not removed. The Scaler tells so also when
// the set's record was removed, and the record when the Scaler is gone, or when another client has started some of the members.
func (in Input) paused() bool {
	scale := operation.Of(in.Set).Scale
	return in.Paused && statefulset.Replicas(in.Set) == 0 || scale != nil && scale.Paused
}

// cleanUp takes the next step for the ordinals that are left behind.
func (in Input) cleanUp(doc *api.Cleanup) plan.Plan {
	ordinals := in.ordinals()
	if p := in.remember(ordinals); p.Kind == plan.KindDo {
		return p
	}
	left := in.left(doc, ordinals)
	if doc.Active() {
		return in.goOn(doc, ordinals, left)
	}
	switch pod := in.ending(ordinals); {
	case in.due(left) && in.begins(doc):
		return in.begin(doc, left)
	case len(left) == 0 && in.Set.DeletionTimestamp != nil:
		return plan.Do(api.FinalizerRemoved, append(unfinalize(plan.PatchOf(plan.StatefulSets, in.Set)).Actions(), in.tell(doc, in.reports(ordinals))...)...)
	case pod != "":
		return plan.Wait(api.ReplicaEnding, "pod %s is still there", pod)
	}
	return in.settle(doc, ordinals)
}

// remember writes down of which claims it was seen that a replica uses them.
func (in Input) remember(ordinals []cleanup.Ordinal) plan.Plan {
	var actions []plan.Action
	for _, c := range cleanup.Seen(in.Set, ordinals) {
		actions = append(actions, plan.PatchOf(plan.Claims, c).Annotate(api.ReplicaOfAnnotation, string(in.Set.UID)).Actions()...)
	}
	return plan.Do(api.ReplicasSeen, actions...)
}
