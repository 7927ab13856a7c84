package restore

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/sts"
)

// Input is the input of Decide.
type Input struct {
	*sts.Observed
	Namespace string
	Settings  api.Settings
	// Waited is for how long this event has waited for the same thing.
	Waited time.Duration
	// Rejected is why the API server refused a write of this event for good; empty if it did not.
	Rejected string
	// Refused is why the API server would not create the StatefulSet again, as a dry run tells; empty if it would, or was not asked.
	Refused string
	// Failing is the API server's error for a write of this event that it could not carry out; empty if there was none.
	Failing string
}

// Decide is pure. Each call plans the next step only; the executor comes back until there is none.
func Decide(in Input) plan.Plan {
	status, err := in.Status()
	if err != nil {
		return plan.Noop(api.StatusInvalid) // detect-resize says so on the set
	}
	for _, revision := range in.Journals {
		journal, manifest, err := read(revision)
		switch {
		case err != nil && status == nil:
			return plan.Do(api.LinkInvalid, tell(in, api.LinkInvalid, err.Error()))
		case err != nil || status != nil && owns(status, revision):
			continue
		}
		return leftover(confine(in, &journal.Status), revision, journal, manifest)
	}
	if status == nil {
		return rest(in, status)
	}
	if in.Failing != "" && !operation.Overdue(status, in.Now) {
		return plan.Noop(api.Rejected) // the event fails, and is delivered again
	}
	if in.Set.DeletionTimestamp != nil {
		return leaving(in, status)
	}
	switch status.Phase {
	case api.Switching, api.Starting, api.RollingBack:
		return proceed(in, status)
	}
	return rest(in, status)
}

// rest handles a set without a running operation. One that is frozen all the same lost its status, or is made
// from the manifest of a set that was.
func rest(in Input, status *api.Resize) plan.Plan {
	if in.Set != nil && in.Set.DeletionTimestamp == nil && !status.Active() && !status.Held() {
		if thaw := plan.PatchOf(plan.StatefulSets, in.Set).Thaw(); !thaw.Empty() {
			return plan.Do(api.CleaningUp, thaw.Actions()...)
		}
	}
	return retire(in, status)
}

// owns reports whether the journal is of the set's own operation and still of use.
func owns(status *api.Resize, revision *appsv1.ControllerRevision) bool {
	return api.Linked(revision, status.Operation, api.RoleJournal) && (status.Active() || status.Held())
}

// starting waits until the set is ready, then tidies up.
func starting(in Input, status *api.Resize) plan.Plan {
	ready, late := sts.Ready(in.Set), operation.Overdue(status, in.Now)
	if ready && status.Ready == nil {
		next := status.Clone()
		next.Ready = operation.Moment(in.Now)
		return plan.Do(api.WaitingForReady, operation.Store(in.Set, next).Actions()...)
	}
	if !ready && status.Ready == nil && !late {
		return plan.Wait(api.WaitingForReady, "%d of %d replicas are ready", in.Set.Status.ReadyReplicas, sts.Replicas(in.Set))
	}
	later, p := clearUp(in, status)
	if later == "" && p.Kind != "" {
		return p
	}
	next := end(in, status, api.Succeeded)
	if status.Ready == nil {
		next.Phase, next.FailedAt, next.Reason = api.Failed, api.Starting, api.NotReady
		next.Message = fmt.Sprintf("the new volumes are in place, but only %d of %d replicas got ready within %s; look at the pods. "+
			"The old volumes are kept for %s", in.Set.Status.ReadyReplicas, sts.Replicas(in.Set), in.Settings.ReadyTimeout, in.Settings.Retention)
		if status.Live() {
			next.Message = fmt.Sprintf("%s, but only %d of %d replicas were ready within %s; look at the pods",
				operation.Summary(status, in.Settings.Retention), in.Set.Status.ReadyReplicas, sts.Replicas(in.Set), in.Settings.ReadyTimeout)
		}
		next.Message += later
		return conclude(in, next, events.OperationFailed)
	}
	next.Reason = api.ResizeCompleted
	next.Message = operation.Summary(status, in.Settings.Retention) + later
	return conclude(in, next, events.RestoreCompleted)
}

// rollingBack gives the set back: first claims that it lost meanwhile, then its replicas, then everything that was made for it goes.
func rollingBack(in Input, status *api.Resize) plan.Plan {
	if jobs := deleteJobs(in.JobsOf(status.Operation)); len(jobs) > 0 {
		return plan.Do(api.RollingBackNow, jobs...)
	}
	claims, waiting := bringBack(in, status)
	switch {
	case len(claims) > 0:
		return plan.Do(api.RollingBackNow, claims...)
	case waiting != "" && exhausted(in, status):
		return giveUp(in, status, waiting)
	case waiting != "":
		return plan.WaitSoon(api.RollingBackNow, "%s", waiting)
	}
	back := giveBack(in, status)
	switch {
	case !back.Empty() && in.Rejected != "":
		return plan.Do(api.Rejected, tell(in, api.Rejected, fmt.Sprintf("the resize has failed, and the API server refuses StatefulSet %s its %d replicas: %s. "+
			"Mend that; it is tried again at each tick", in.Name, status.Replicas, in.Rejected)))
	case !back.Empty():
		return plan.Do(api.RollingBackNow, back.Thaw().Actions()...)
	}
	next := end(in, status, api.Failed)
	later, p := clearUp(in, status)
	if later == "" && p.Kind != "" {
		return p
	}
	next.Message += later
	return conclude(in, next, events.OperationFailed)
}

// clearUp removes the objects of the operation. When it has waited for that beyond the deadline, it returns words for the message instead: the
// journal stays, so that the sweep finds the rest.
func clearUp(in Input, status *api.Resize) (later string, p plan.Plan) {
	p, busy := tidy(in, status.Operation, partsOf(in, status))
	switch {
	case !busy:
		return "", plan.Plan{}
	case p.Kind == plan.KindWait && exhausted(in, status):
		return "; what is left is cleared later: " + p.Detail, p
	}
	return "", p
}

// giveBack restores the replicas and the retention policy from before the operation.
func giveBack(in Input, status *api.Resize) *plan.Patch {
	patch := plan.PatchOf(plan.StatefulSets, in.Set)
	now := sts.Replicas(in.Set)
	if status.Stopped != nil { // else the set was not stopped by us, and its replicas stay
		plan.Set(patch, "/spec/replicas", now, status.Replicas, fmt.Sprintf("replicas %d to %d", now, status.Replicas))
	}
	if status.WhenScaled != "" {
		plan.Set(patch, sts.WhenScaledPath, sts.WhenScaled(in.Set), status.WhenScaled, "whenScaled "+string(status.WhenScaled))
	}
	return patch
}

// end makes the terminal status, without the fields that only a running operation needs.
func end(in Input, status *api.Resize, phase api.Phase) *api.Resize {
	next := status.Clone()
	next.Phase, next.Finished = phase, operation.Moment(in.Now)
	next.Deadline, next.Generation, next.Stopping, next.WhenScaled = nil, 0, nil, ""
	return next
}

// conclude stores the end, then tells people and functions. After a success there is no need for the events that were given up on
// the way.
func conclude(in Input, next *api.Resize, announce string) plan.Plan {
	warning := next.Phase == api.Failed
	store := operation.Store(in.Set, next).Unannotate(api.AbortAnnotation)
	if next.Phase == api.Succeeded {
		store.Unannotate(api.DeadLettersAnnotation)
	}
	if !next.Held() {
		store.Thaw()
	}
	actions := append(store.Actions(), operation.NoteOf(in.Set, next, warning))
	return plan.Do(next.Reason, actions...).Then(announce, next.Operation)
}
