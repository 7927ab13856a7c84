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

// Input holds everything that Decide needs: the observed objects, the time, the settings and the event.
type Input struct {
	Now  time.Time
	Name string
	Set  *appsv1.StatefulSet // nil if it does not exist
	// Claims holds the claims whose names belong to the set.
	Claims []*corev1.PersistentVolumeClaim
	// Pods holds the cleanup pods of a set of this name, pods with a replica's name, and pods that use one of the claims.
	Pods []*corev1.Pod
	// Revision is the ControllerRevision of the set's pods. It is read if the set is being deleted, and nil if it is gone.
	Revision *appsv1.ControllerRevision
	// Records holds the roles of the ControllerRevisions that other operations keep for the set. They are read if the set is at zero
	// or is being deleted.
	Records []api.Role
	// Paused is true if a Scaler of the set is paused, or may have been paused until now. It is read if the set is at zero.
	Paused bool
	// Denied says why the API server would reject a pod of a new template. It is empty if it would accept the pod.
	Denied string
	// Doubt says why the API server would reject the pod only at present, for example because of a quota. Otherwise it is empty.
	Doubt string
	// Rejected says why the API server permanently rejected a write of this event. It is empty if it did not.
	Rejected string
	// NamespaceEnds is true if the write was rejected because the namespace is being deleted.
	NamespaceEnds bool
	// Retry is true if the event requests a retry.
	Retry    bool
	Settings api.Settings
	// Trace is the traceparent of an operation that starts now. It is empty when tracing is off.
	Trace string
}

// Decide is pure. It takes one step. A cleanup pod has the name of the removed replica. While the pod exists, the set cannot start
// that replica on the claims that are being cleaned up.
func Decide(in Input) plan.Plan {
	if in.Set == nil {
		return in.removeAllPods()
	}
	record, err := api.LoadCleanup(in.Set)
	if err != nil {
		return plan.Do(api.StatusInvalid, plan.Record(in.Set.Namespace, in.Set.Name,
			plan.Note{Warning: true, Reason: api.StatusInvalid, Message: err.Error(), UID: in.Set.UID}))
	}
	if p := in.removeStrayPods(record); p.Kind == plan.KindDo {
		return p
	}
	if in.Set.DeletionTimestamp != nil {
		return in.handleDeletion(record)
	}
	if p := in.reconcileFinalizer(); p.Kind == plan.KindDo {
		return p
	}
	switch {
	case !statefulset.Managed(in.Set):
		return in.cancel(record, api.NotManaged, "the StatefulSet is no longer opted in")
	case in.isResizing() || in.isAsleep() || in.isScaling() || in.isPaused():
		return plan.Noop(api.InProgress)
	case !statefulset.CleanupAsked(in.Set):
		return in.cancel(record, api.NoCleanup, "the StatefulSet no longer has a cleanup pod template")
	}
	if _, problem := in.template(record); problem != nil {
		return in.refuse(record, problem)
	}
	if in.isAborted() && record.Active() {
		return in.cancel(record, api.Aborted, "aborted at the user's request")
	}
	return in.cleanUp(record)
}

// handleDeletion handles a set that is being deleted. With our finalizer, all its ordinals are cleaned up, as after a scale-down to
// zero.
func (in Input) handleDeletion(record *api.Cleanup) plan.Plan {
	if !cleanup.HasFinalizer(in.Set) {
		return in.cancel(record, api.SetGone, "the StatefulSet is being deleted")
	}
	if why := in.releaseReason(record); why != "" {
		return in.releaseSet(record, why)
	}
	return in.cleanUp(record)
}

// ordinals returns the set's ordinals.
func (in Input) ordinals() []cleanup.Ordinal {
	return cleanup.Ordinals(in.Set, in.Claims, in.Pods)
}

// isResizing reports whether the set is being resized, or one of its claims is incomplete.
func (in Input) isResizing() bool {
	return operation.Of(in.Set).Resizing() || slices.Contains(in.Records, api.RoleJournal)
}

// isAsleep reports whether the set is asleep. Its replicas are then expected back, so their claims must be kept. The records show a
// sleep even if another client removed the set's annotation.
func (in Input) isAsleep() bool {
	return operation.Of(in.Set).Sleeping() || slices.Contains(in.Records, api.RoleSleep) || slices.Contains(in.Records, api.RoleOwner)
}

// isScaling reports whether the set is being scaled and the scaling does not wait for this cleanup.
func (in Input) isScaling() bool {
	r := operation.Of(in.Set)
	return r.Scaling() && !r.AwaitsCleanup()
}

// isPaused reports whether members of the set are stopped by a pause of its Scaler, so they are not removed. The Scaler shows the
// pause if the set's record was lost. The record shows it if the Scaler is gone, or another client started some members.
func (in Input) isPaused() bool {
	scale := operation.Of(in.Set).Scale
	return in.Paused && statefulset.Replicas(in.Set) == 0 || scale != nil && scale.Paused
}

// cleanUp returns the next step for the ordinals that a scale-down left behind.
func (in Input) cleanUp(record *api.Cleanup) plan.Plan {
	ordinals := in.ordinals()
	if p := in.markClaims(ordinals); p.Kind == plan.KindDo {
		return p
	}
	left := in.leftBehind(record, ordinals)
	if record.Active() {
		return in.continueCleanup(record, ordinals, left)
	}
	switch pod := in.replicaToStop(ordinals); {
	case in.hasWork(left) && in.startsAgain(record):
		return in.startCleanup(record, left)
	case len(left) == 0 && in.Set.DeletionTimestamp != nil:
		return plan.Do(api.FinalizerRemoved, append(removeFinalizer(plan.PatchOf(plan.StatefulSets, in.Set)).Actions(),
			in.newReportEvents(record, in.reports(ordinals))...)...)
	case pod != "":
		return plan.Wait(api.ReplicaEnding, "pod %s has not ended yet", pod)
	}
	return in.refreshRecord(record, ordinals)
}

// markClaims marks the claims that replicas are seen to use.
func (in Input) markClaims(ordinals []cleanup.Ordinal) plan.Plan {
	var actions []plan.Action
	for _, c := range cleanup.NewlySeen(in.Set, ordinals) {
		actions = append(actions, plan.PatchOf(plan.Claims, c).Annotate(api.ReplicaOfAnnotation, string(in.Set.UID)).Actions()...)
	}
	return plan.Do(api.ReplicasSeen, actions...)
}
