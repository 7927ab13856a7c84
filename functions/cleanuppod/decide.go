package cleanuppod

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/events"
	"drydock.dev/shared/members"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/podend"
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
	// Kills has the Events about the ends of the cleanup pods whose success they decide.
	Kills podend.Kills
	// Revision is the ControllerRevision of the set's pods. It is read if the set is being deleted, and nil if it is gone.
	Revision *appsv1.ControllerRevision
	// Journal is true if a resize of the set has a journal, so that claims may be incomplete. It is read if the set is being deleted.
	Journal bool
	// PodRejected says why the API server would reject a pod of a new template. It is empty if it would accept the pod.
	PodRejected string
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

// ordinals returns the set's ordinals.
func (in Input) ordinals() []cleanup.Ordinal {
	return cleanup.Ordinals(in.Set, in.Claims, in.Pods)
}

// isRetried reports whether the user requests a retry of a failed or refused cleanup.
func (in Input) isRetried(record *api.Cleanup) bool {
	return operation.CleanupRetried(in.Set, record) || in.Retry && operation.CleanupRests(record)
}

// isAborted reports whether the user requests an abort.
func (in Input) isAborted() bool {
	_, asked := in.Set.Annotations[api.AbortAnnotation]
	return asked
}

// Decide is pure. It takes one step. A cleanup pod has the name of the removed replica. While the pod exists, the set cannot start
// that replica on the claims that are being cleaned up.
func Decide(in Input) plan.Plan {
	if in.Set == nil {
		return in.cancelling().removeAllPods()
	}
	record, err := api.LoadCleanup(in.Set)
	if err != nil {
		return plan.Do(api.StatusInvalid, plan.Event(in.Set.Namespace, in.Set.Name,
			plan.Note{Warning: true, Reason: api.StatusInvalid, Message: err.Error(), UID: in.Set.UID}))
	}
	if p := in.cancelling().removeStrayPods(record); p.Kind == plan.KindDo {
		return p
	}
	if in.Set.DeletionTimestamp != nil {
		return in.handleDeletion(record)
	}
	if p := in.cancelling().reconcileFinalizer(); p.Kind == plan.KindDo {
		return p
	}
	switch {
	case !statefulset.Managed(in.Set):
		return in.cancelling().cancel(record, api.NotManaged, "the StatefulSet is no longer opted in")
	case operation.Of(in.Set).Busy(api.KindCleanup):
		return plan.Noop(api.InProgress)
	case members.Keeps(in.Set) && !members.Current(in.Set): // its order may be outdated
		return plan.Wait(api.MembersCounted, "the pods of the set are not counted yet")
	case !statefulset.CleanupAsked(in.Set):
		return in.cancelling().cancel(record, api.NoCleanup, "the StatefulSet no longer has a cleanup pod template")
	}
	if _, problem := in.round().template(record); problem != nil {
		return in.refuse(record, problem)
	}
	if in.isAborted() && record.Active() {
		return in.cancelling().cancel(record, api.Aborted, "aborted at the user's request")
	}
	return in.cleanUp(record)
}

// handleDeletion handles a set that is being deleted. With our finalizer, all its ordinals are cleaned up, as after a scale-down to
// zero.
func (in Input) handleDeletion(record *api.Cleanup) plan.Plan {
	if !cleanup.HasFinalizer(in.Set) {
		return in.cancelling().cancel(record, api.SetGone, "the StatefulSet is being deleted")
	}
	if why := in.cancelling().releaseReason(record); why != "" {
		return in.cancelling().releaseSet(record, why)
	}
	return in.cleanUp(record)
}

// cleanUp returns the next step for the ordinals that a scale-down left behind.
func (in Input) cleanUp(record *api.Cleanup) plan.Plan {
	ordinals := in.ordinals()
	if p := in.markClaims(ordinals); p.Kind == plan.KindDo {
		return p
	}
	left := in.leftBehind(record, ordinals)
	if record.Active() {
		return in.round().continueCleanup(record, ordinals, left)
	}
	switch pod := in.replicaToStop(ordinals); {
	case in.hasWork(left) && in.startsAgain(record):
		return in.accounts().startCleanup(record, left)
	case len(left) == 0 && in.Set.DeletionTimestamp != nil:
		return plan.Do(api.FinalizerRemoved, append(removeFinalizer(plan.PatchOf(plan.StatefulSets, in.Set)).Actions(),
			in.accounts().newReportEvents(record, in.accounts().reports(ordinals))...)...)
	case pod != "":
		return plan.Wait(api.MemberEnding, "pod %s has not ended yet", pod)
	}
	return in.accounts().refreshRecord(record, ordinals)
}

// markClaims marks the claims that replicas are seen to use.
func (in Input) markClaims(ordinals []cleanup.Ordinal) plan.Plan {
	var actions []plan.Action
	for _, c := range cleanup.NewlySeen(in.Set, ordinals) {
		actions = append(actions, plan.PatchOf(plan.Claims, c).Annotate(api.ReplicaOfAnnotation, string(in.Set.UID)).Actions()...)
	}
	return plan.Do(api.MembersSeen, actions...)
}

// leftBehind returns the ordinals to clean up, the highest first: ordinals above the replica count whose claims were used, and
// ordinals with a running cleanup pod.
func (in Input) leftBehind(record *api.Cleanup, ordinals []cleanup.Ordinal) []cleanup.Ordinal {
	return slices.DeleteFunc(slices.Clone(ordinals), func(o cleanup.Ordinal) bool {
		switch {
		case in.hasCleanupPod(record, o):
			return false
		case o.Wanted || !members.Removes(in.Set, o.Number):
			return true
		case in.Set.DeletionTimestamp != nil && o.Pod != nil && statefulset.IsPodOf(o.Pod, in.Set):
			return false // cleanup-pod itself stops the replicas of a set that is being deleted
		}
		return len(o.Kept()) == 0 || o.Unknown(in.Set) != ""
	})
}

// hasWork reports whether an ordinal can be cleaned up now: its replica is gone, or cleanup-pod has to stop it. While the
// StatefulSet controller stops replicas there is no work, so other operations need not wait for a cleanup.
func (in Input) hasWork(left []cleanup.Ordinal) bool {
	return in.Set.DeletionTimestamp != nil && len(left) > 0 || slices.ContainsFunc(left, func(o cleanup.Ordinal) bool {
		return o.Pod == nil || !statefulset.IsPodOf(o.Pod, in.Set)
	})
}

// replicaToStop returns the name of a replica that the StatefulSet controller has to stop, or "".
func (in Input) replicaToStop(ordinals []cleanup.Ordinal) string {
	for _, o := range ordinals {
		if in.Set.DeletionTimestamp == nil && !o.Wanted && o.Pod != nil && statefulset.IsPodOf(o.Pod, in.Set) {
			return o.Pod.Name
		}
	}
	return ""
}

// hasCleanupPod reports whether the ordinal has a pod of this cleanup.
func (in Input) hasCleanupPod(record *api.Cleanup, o cleanup.Ordinal) bool {
	return o.Pod != nil && in.isOurs(record, o.Pod)
}

// isOurs reports whether the set's running cleanup created the pod.
func (in Input) isOurs(record *api.Cleanup, pod *corev1.Pod) bool {
	link := cleanup.LinkOf(pod, in.Name)
	return link != nil && record.Active() && link.Operation == record.Operation && link.Set.UID == in.Set.UID
}

// isOrdered reports whether the ledger orders the removal of the cleanup pod's ordinal. While the ledger is outdated, nothing is known.
func (in Input) isOrdered(pod *corev1.Pod) bool {
	ordinal, named := statefulset.ParsePodName(in.Set, pod.Name)
	return named && (members.Removes(in.Set, ordinal) || in.Set.DeletionTimestamp == nil && !members.Current(in.Set))
}

// startsAgain reports whether a cleanup may start: the last one did not fail, or the set, its template or a retry request changed
// since.
func (in Input) startsAgain(record *api.Cleanup) bool {
	switch {
	case !operation.CleanupRests(record):
		return true
	case in.isRetried(record), cleanup.RetriedByScaling(operation.Of(in.Set)):
		return true
	case record.Request != cleanup.Digest(in.Set), record.Order != members.OrderNumber(in.Set):
		return true
	}
	return in.Set.DeletionTimestamp != nil && !in.Set.DeletionTimestamp.Before(record.Finished) // times have whole seconds
}

// mayStart reports whether the event may start a cleanup.
func (in Input) mayStart() bool {
	if in.Set == nil || !statefulset.Managed(in.Set) || !statefulset.CleanupAsked(in.Set) {
		return false
	}
	record, err := api.LoadCleanup(in.Set)
	return err == nil && !record.Active() && in.hasWork(in.leftBehind(record, in.ordinals())) && in.startsAgain(record)
}

// Tally returns the number of ordinals that wait for a cleanup pod, and the number of ordinals with one.
func (in Input) Tally() (pending, running int) {
	if in.Set == nil {
		return 0, 0
	}
	record, err := api.LoadCleanup(in.Set)
	if err != nil || !statefulset.Managed(in.Set) || !statefulset.CleanupAsked(in.Set) ||
		operation.Of(in.Set).Busy(api.KindCleanup) {
		return 0, 0
	}
	for _, o := range in.leftBehind(record, in.ordinals()) {
		if in.hasCleanupPod(record, o) {
			running++
		} else {
			pending++
		}
	}
	return pending, running
}

// refuse stores why the set cannot be cleaned up, and reports it once. It cancels a running cleanup.
func (in Input) refuse(record *api.Cleanup, problem *cleanup.Problem) plan.Plan {
	if record.Active() {
		return in.cancelling().cancel(record, problem.Reason, problem.Message)
	}
	if in.round().isRefused(record) {
		return plan.Noop(api.AlreadyRefused)
	}
	next := in.accounts().newRecord(record, api.Refused, problem.Reason, problem.Message)
	// A retry names the refusal that it repeats, so with the same id it would count for ever.
	next.Attempt++
	next.Operation = api.OperationID(in.Set.UID, string(api.Refused)+next.Request, next.Attempt) // differs from every real cleanup
	next.Finished = operation.Moment(in.Now)
	return plan.Do(problem.Reason, append(in.accounts().store(next).Actions(), operation.NoteOf(in.Set, next, true))...).
		Then(events.OperationFailed, next.Operation).For(api.KindCleanup)
}
