package backup

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/sts"
)

// maxRounds is how often the whole copy is made anew because somebody started pods meanwhile.
const maxRounds = 3

// Decide is pure. Each call plans the next step only; the executor comes back until there is none.
func Decide(in Input) plan.Plan {
	if in.Set == nil || in.Set.DeletionTimestamp != nil {
		return plan.Noop(api.SetGone) // restore undoes what was begun
	}
	status, err := in.Status()
	if err != nil {
		return plan.Noop(api.StatusInvalid) // detect-resize says so on the set
	}
	if status == nil || status.Phase != api.Copying {
		return plan.Noop(api.NotOurPhase)
	}
	if keep := keepForeign(in, status); len(keep) > 0 {
		return plan.Do(api.NotProvisioned, keep...)
	}
	if why, message := hopeless(in, status); why != "" {
		return giveUp(in, status, why, message)
	}
	for _, step := range []func(Input, *api.Resize) (plan.Plan, bool){
		keepJournal, holdSources, makeTargets, refuseTargetsApart, warm, awaitFinalizers, stop, endEarlierRounds, proveQuiet,
	} {
		if p, taken := step(in, status); taken {
			return p
		}
	}
	return copyClaims(in, status)
}

// hopeless says why the operation has to be rolled back, or nothing.
func hopeless(in Input, status *api.Resize) (api.Reason, string) {
	if problem := disowned(in, status); problem != "" {
		return api.StatusInvalid, fmt.Sprintf("the annotation %s was not written by Drydock: %s. No volume was touched; if nobody wrote it, %s",
			api.StatusAnnotation, problem, operation.AskAgain(status))
	}
	if _, abort := in.Set.Annotations[api.AbortAnnotation]; abort && !status.HalfBack() {
		return api.Aborted, "aborted; the set goes on with its old volumes"
	}
	if in.Rejected != "" {
		return api.Rejected, "the API server refused a step: " + in.Rejected + "; mend the cause, then " + operation.AskAgain(status)
	}
	if operation.Overdue(status, in.Now) {
		if held := heldByOthers(in, status); held != "" && status.Stopping == nil {
			return api.DeadlineExceeded, fmt.Sprintf("the set was not stopped within %s: %s. Then %s", in.Settings.CopyTimeout, held, operation.AskAgain(status))
		}
		return api.DeadlineExceeded, fmt.Sprintf("%s took longer than %s; look at the %s pods, then %s",
			wording(status).work, in.Settings.CopyTimeout, wording(status).podKind, operation.AskAgain(status))
	}
	if status.Round > maxRounds {
		return api.StartedByOthers, fmt.Sprintf("another process scaled the set up or changed it %d times while it was %s. Stop the autoscaler, "+
			"operator or deployment tool that does so, then %s", maxRounds, wording(status).stopped, operation.AskAgain(status))
	}
	for _, part := range pending(status) {
		if part.Returns() && !comesBack(in, status, part) {
			return api.ClaimLost, fmt.Sprintf("volume %s, which claim %s is to get back, is gone, or is not kept for it any more; look at kubectl get pv %s",
				part.NewVolume, part.Name, part.NewVolume)
		}
		if !owns(in, part) {
			return api.ClaimLost, fmt.Sprintf("claim %s or its volume %s was deleted or replaced during the operation; the volume is kept, "+
				"look at kubectl get pv %s", part.Name, part.OldVolume, part.OldVolume)
		}
	}
	if why, message := checkTargets(in, status); why != "" {
		return why, message
	}
	return stuck(in, status)
}

// pending returns the claims that are still to be switched.
func pending(status *api.Resize) []api.ClaimStatus {
	return slices.DeleteFunc(slices.Clone(status.Claims), func(c api.ClaimStatus) bool { return c.Settled() })
}

// keepJournal records the operation outside of the set, before anything is done that a lost set would leave behind.
func keepJournal(in Input, status *api.Resize) (plan.Plan, bool) {
	if in.Journal(status.Operation) != nil {
		return plan.Plan{}, false
	}
	return plan.Do(api.Preparing, plan.Create(plan.ControllerRevisions, resources.MakeJournal(in.Set, status))), true
}

// holdSources sets the volumes to Retain, so that no lost claim can take its data along, and links claims and volumes.
func holdSources(in Input, status *api.Resize) (plan.Plan, bool) {
	var actions []plan.Action
	for _, part := range pending(status) {
		link := linkOf(in, status, part, api.RoleSource)
		volume, claim := in.Volume(part.OldVolume), in.Claim(part.Name)
		actions = append(actions, plan.HoldVolume(volume, link).Actions()...)
		actions = append(actions, plan.PatchOf(plan.Claims, claim).Link(link).Actions()...)
		if part.Returns() { // its window must not end now
			actions = append(actions, plan.HoldVolume(in.Volume(part.NewVolume), returningLink(in, status, part)).Actions()...)
		}
	}
	return plan.Do(api.Preparing, actions...), len(actions) > 0
}

// stop scales the set to zero. Whoever wrote to its spec since it was quiet may have started pods, so every copy that
// is not switched yet counts for nothing and a new round begins.
func stop(in Input, status *api.Resize) (plan.Plan, bool) {
	next := status.Clone()
	stale := status.Generation != 0 && !in.Current(status)
	if stale {
		next.Generation, next.Round = 0, status.Round+1
		for i := range next.Claims {
			if !next.Claims[i].Settled() {
				next.Claims[i].Forget()
			}
		}
		next.Reason, next.Message = api.StartedByOthers, "the set was changed while it was "+wording(status).stopped+"; "+wording(status).again
	} else if sts.Replicas(in.Set) != 0 {
		next.Reason, next.Message = api.Quiescing, "the set is being stopped"
	} else if status.Stopping != nil {
		return plan.Plan{}, false
	}
	if status.Stopped == nil {
		next.Replicas = sts.Replicas(in.Set) // somebody may have scaled it while it was copied for the first time
		if note := noteReplicas(in, next); len(note) > 0 {
			return plan.Do(api.Preparing, note...), true
		}
	}
	for i := range next.Claims { // once it was told to stop, any replica that is wanted is another pod
		next.Claims[i].Warm = status.Stopping == nil && staysWarm(in, &next.Claims[i])
		next.Claims[i].Node = nodeOf(in, &next.Claims[i])
	}
	if next.Warmed() { // proveQuiet finds out by it whether a replica was wanted, even for a moment
		next.StopGeneration = in.Set.Generation + 1
	}
	if next.Stopped == nil {
		next.Stopped = operation.Moment(in.Now)
	}
	if next.Stopping == nil || stale { // else somebody who scales up again and again would put the deadline off
		next.Stopping = operation.Moment(in.Now)
	}
	if found := sts.WhenScaled(in.Set); found != sts.Retain {
		next.WhenScaled = found
	}
	actions := toZero(in, operation.Store(in.Set, next)).Actions()
	if stale {
		actions = append(actions, operation.NoteOf(in.Set, next, true))
	}
	return plan.Do(next.Reason, actions...), true
}

// noteReplicas writes the count on the journal if the journal, which cannot be changed, has another one: it is all that is left if
// the set loses its status while it is stopped.
func noteReplicas(in Input, status *api.Resize) []plan.Action {
	revision := in.Journal(status.Operation)
	journal, err := api.LoadJournal(revision)
	if err != nil || journal.Status.Replicas == status.Replicas && revision.Annotations[api.ReplicasAnnotation] == "" {
		return nil
	}
	return plan.PatchOf(plan.ControllerRevisions, revision).Annotate(api.ReplicasAnnotation, fmt.Sprint(status.Replicas)).Actions()
}

// endEarlierRounds deletes movers whose copies count for nothing, or that have made the first copy: they would keep the volumes
// attached, and write to what the next one is about to verify.
func endEarlierRounds(in Input, status *api.Resize) (plan.Plan, bool) {
	var actions []plan.Action
	for _, job := range in.JobsOf(status.Operation) {
		if link, err := api.LoadLink(job); err == nil && link.Round < status.Round && job.DeletionTimestamp == nil {
			actions = append(actions, plan.Delete(plan.Jobs, job))
		}
	}
	if len(actions) > 0 {
		return plan.Do(api.Preparing, actions...), true
	}
	if pod := warmMover(in, status); pod != nil {
		return waitQuiet(in, status, fmt.Sprintf("pod %s, which made the first copy, is still there", pod.Name), true), true
	}
	return plan.Plan{}, false
}

// warmMover is a pod that copies, or has copied, while the set ran; nil if there is none any more.
func warmMover(in Input, status *api.Resize) *corev1.Pod {
	for _, pod := range in.Movers(status.Operation) {
		if link, _ := api.LoadLink(pod); link.Round == warmRound { // Movers returns linked pods only
			return pod
		}
	}
	return nil
}

// proveQuiet records the generation for which nothing runs, and only then has the copies begin: only those made from then on are
// current.
func proveQuiet(in Input, status *api.Resize) (plan.Plan, bool) {
	if status.Generation != 0 {
		return plan.Plan{}, false
	}
	if running := in.Quiet(status); running != "" {
		return waitQuiet(in, status, running, sts.AtZero(in.Set)), true // no event tells that a pod or an attachment is gone
	}
	next := status.Clone()
	next.Generation = in.Set.Generation
	for i := range next.Claims {
		part := &next.Claims[i]
		part.Warm = part.Warm && next.Generation == status.StopGeneration
	}
	next.StopGeneration = 0
	if next.Quiesced == nil {
		next.Quiesced = operation.Moment(in.Now)
	}
	next.Reason, next.Message = api.CopyRunning, "the set is stopped, its claims are copied"
	return copyClaims(in, next), true
}

// noticeStop is how long pods and attachments may outlast the grace period before the user is told.
const noticeStop = 30 * time.Second

// waitQuiet waits for what still runs, and names it in the status and in an Event once it lasts longer than it should. stuck ends
// the wait.
func waitQuiet(in Input, status *api.Resize, running string, soon bool) plan.Plan {
	late := status.Stopping != nil && in.Now.Sub(status.Stopping.Time) > sts.GracePeriod(in.Set)+noticeStop
	message := fmt.Sprintf("%s; if it stays, the operation fails after %s", running, quiesceTimeout(in))
	if next := status.Clone(); late && status.Message != message {
		next.Reason, next.Message = api.Quiescing, message
		return plan.Do(api.Quiescing, append(operation.Store(in.Set, next).Actions(), operation.NoteOf(in.Set, next, true))...)
	}
	p := plan.Wait(api.Quiescing, "%s", running)
	p.Soon = soon
	return p
}

// quiesceTimeout returns how long the set may take to stop.
func quiesceTimeout(in Input) time.Duration {
	return in.Settings.QuiesceTimeout + sts.GracePeriod(in.Set)
}

func linkOf(in Input, status *api.Resize, part api.ClaimStatus, role api.Role) api.Link {
	link := api.Link{Operation: status.Operation, Role: role, Namespace: in.Set.Namespace, Set: status.Set, Claim: part.Name}
	if role == api.RoleTarget || role == api.RoleMover {
		link.Round = status.Round
	}
	return link
}

// stuck notices waits that have lasted too long within the phase.
func stuck(in Input, status *api.Resize) (api.Reason, string) {
	if status.Generation == 0 && status.Stopping != nil {
		allowed := quiesceTimeout(in)
		running := in.Quiet(status)
		if pod := warmMover(in, status); pod != nil {
			running = fmt.Sprintf("pod %s, which made the first copy, is still there", pod.Name)
		}
		if running != "" && in.Now.Sub(status.Stopping.Time) > allowed {
			return api.DeadlineExceeded, fmt.Sprintf("after %s %s; find out what keeps it, then %s",
				allowed, running, operation.AskAgain(status))
		}
	}
	for _, job := range in.JobsOf(status.Operation) {
		link, err := api.LoadLink(job)
		if err != nil || link.Round != status.Round || status.Claim(link.Claim) == nil {
			continue // the copy is made when the set is stopped, then
		}
		if s := stallOf(in, status.Claim(link.Claim), job); s.over(in.Now) {
			return api.CopyFailed, s.failure(status.Claim(link.Claim)) + ", then " + operation.AskAgain(status)
		}
	}
	return "", ""
}
