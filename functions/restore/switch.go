package restore

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/sts"
)

// switching takes the set through the switch: movers go, the set is created again where its templates change, and
// every claim is replaced by one on its new volume.
func switching(in Input, status *api.Status) plan.Plan {
	switch {
	case status.Set.UID == "":
		return recordIdentity(in, status)
	case plan.Overdue(status, in.Now):
		return giveUp(in, status)
	}
	if jobs := deleteJobs(in.JobsOf(status.Operation)); len(jobs) > 0 {
		return plan.Do(api.SwitchRunning, jobs...)
	}
	if movers := in.Movers(status.Operation); len(movers) > 0 {
		return plan.WaitSoon(api.SwitchRunning, "mover pod %s is still there", movers[0].Name)
	}
	if status.Recreate && templatesDiffer(in.Set, status) && in.Current(status) {
		return recreate(in, status)
	}
	return switchClaims(in, status)
}

func templatesDiffer(set *appsv1.StatefulSet, status *api.Status) bool {
	for _, t := range status.Templates {
		if sts.Differs(set, t.Name, api.Target{Size: t.Size, Class: t.Class}) {
			return true
		}
	}
	return false
}

// recreate replaces the set by one with the new templates, at zero, before any claim changes. What is to be created is
// stored first; then exactly the state that it was made from is deleted, so that no edit of somebody else is lost.
func recreate(in Input, status *api.Status) plan.Plan {
	journal := in.Journal(status.Operation)
	if journal == nil {
		return plan.Do(api.SwitchRunning, plan.Create(plan.ControllerRevisions, resources.MakeJournal(in.Set, status)))
	}
	manifest, err := api.LoadManifest(journal)
	if err != nil || manifest == nil || manifest.UID != in.Set.UID || manifest.ResourceVersion != in.Set.ResourceVersion {
		held := resources.MakeHeldSet(in.Set, status)
		next := status.Clone()
		next.Set.UID = "" // the new set's identity is not known before it exists
		held.Annotations[api.StatusAnnotation] = next.Encode()
		return plan.Do(api.SwitchRunning, plan.PatchOf(plan.ControllerRevisions, journal).
			Annotate(api.RecreateAnnotation, api.EncodeManifest(held)).Actions()...)
	}
	remove := plan.Delete(plan.StatefulSets, in.Set)
	remove.Orphan = true
	return plan.Do(api.SwitchRunning, remove)
}

// recordIdentity takes over the set that was just created: the journal's order to create it is withdrawn, and the
// copies are current for it if it was never written to since.
func recordIdentity(in Input, status *api.Status) plan.Plan {
	var actions []plan.Action
	if journal := in.Journal(status.Operation); journal != nil {
		actions = plan.PatchOf(plan.ControllerRevisions, journal).Unannotate(api.RecreateAnnotation).Actions()
	}
	next := status.Clone()
	next.Set.UID, next.Generation = in.Set.UID, stale
	if in.Set.Generation == 1 { // as created (kubernetes pkg/registry/apps/statefulset/strategy.go)
		next.Generation = in.Set.Generation
	}
	return plan.Do(api.SwitchRunning, append(actions, plan.Store(in.Set, next).Actions()...)...)
}

// stale is a generation that no set ever has: copies that are current for none.
const stale = -1

// switchClaims moves every claim one step on. When each has come to rest, the set is started, or, if somebody started
// pods meanwhile, what is not switched yet goes back to be copied again.
func switchClaims(in Input, status *api.Status) plan.Plan {
	next := status.Clone()
	var actions []plan.Action
	waiting, again := "", false
	for i := range next.Claims {
		part := &next.Claims[i]
		move := step(in, status, *part)
		actions = append(actions, move.actions...)
		switch {
		case move.switched:
			part.Phase = api.ClaimSwitched
		case move.again:
			again = true
		case move.waiting != "":
			waiting = move.waiting
		}
	}
	if len(actions) > 0 {
		return plan.Do(api.SwitchRunning, actions...)
	}
	if waiting != "" {
		return waitHeld(in, next, waiting)
	}
	if again {
		return copyAgain(in, next)
	}
	return start(in, next)
}

// waitHeld waits for the platform. Replicas that somebody asks for meanwhile would hold what is to go away.
func waitHeld(in Input, next *api.Status, waiting string) plan.Plan {
	patch := plan.Store(in.Set, next)
	plan.Set(patch, "/spec/replicas", sts.Replicas(in.Set), 0, "replicas to 0")
	if patch.Empty() {
		return plan.WaitSoon(api.SwitchRunning, "%s", waiting)
	}
	return plan.Do(api.SwitchRunning, patch.Actions()...)
}

func copyAgain(in Input, status *api.Status) plan.Plan {
	next := plan.Enter(status, api.Copying, in.Now, in.Settings.CopyTimeout)
	next.Generation, next.Round = 0, status.Round+1
	for i := range next.Claims {
		part := &next.Claims[i]
		if part.Phase == api.ClaimSwitched {
			continue
		}
		part.Phase, part.NewVolume, part.UID = api.ClaimPending, "", in.Claim(part.Name).UID
	}
	next.Reason, next.Message = api.StartedByOthers, "the set was changed before the switch; what is not switched is copied again"
	return plan.Do(api.StartedByOthers, append(plan.Store(in.Set, next).Actions(), plan.NoteOf(in.Set, next, true))...).
		Then(events.OwnerPaused, status.Operation)
}

// start scales the set up. It is the last moment at which nobody may have written to the new volumes.
func start(in Input, status *api.Status) plan.Plan {
	next := plan.Enter(status, api.Starting, in.Now, in.Settings.ReadyTimeout)
	next.Reason, next.Message = api.ClaimsSwitched, "every claim is on its new volume, the set is started"
	patch := giveBack(in, next).Annotate(api.StatusAnnotation, next.Encode())
	return plan.Do(api.ClaimsSwitched, append(patch.Actions(), plan.NoteOf(in.Set, next, false))...)
}

// giveUp ends an operation that cannot complete its switch. The set stays at zero: one of its claims is not whole.
func giveUp(in Input, status *api.Status) plan.Plan {
	next := status.Clone()
	next.Phase, next.FailedAt, next.Reason, next.Finished = api.Failed, api.Switching, api.DeadlineExceeded, plan.Moment(in.Now)
	next.Deadline = nil
	waiting := "see the claims' events"
	for _, part := range status.Claims {
		if move := step(in, status, part); move.waiting != "" {
			waiting = move.waiting
		}
	}
	next.Message = fmt.Sprintf("the switch was given up after %s: %s. No data is lost, every volume is kept; the set stays at zero. "+
		"Mend the cause, then go on with the annotation %s", in.Settings.SwitchTimeout, waiting, api.RetryAnnotation)
	return conclude(in, next, events.OperationFailed)
}

func deleteJobs(jobs []*batchv1.Job) []plan.Action {
	var actions []plan.Action
	for _, job := range jobs {
		if job.DeletionTimestamp == nil {
			actions = append(actions, plan.Delete(plan.Jobs, job))
		}
	}
	return actions
}
