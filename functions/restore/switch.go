package restore

import (
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/sts"
)

// switching takes the set through the switch. It is given up where it has to wait, or where a write fails: after a long absence of
// the functions the deadline is over, but nothing may be wrong. A refusal to create the set again ends it at once.
func switching(in Input, status *api.Resize) plan.Plan {
	overdue := operation.Overdue(status, in.Now)
	switch {
	case in.Refused != "" && (status.Live() || untouched(in, status)):
		return backOut(in, status, api.RecreateRefused,
			fmt.Sprintf("the API server would not create StatefulSet %s again: %s. Mend that", in.Name, in.Refused))
	case in.Rejected+in.Refused != "" && overdue:
		return giveUp(in, status, "the API server refuses a step: "+in.Rejected+in.Refused)
	case in.Failing != "":
		return giveUp(in, status, "the API server fails to carry out a step: "+in.Failing)
	}
	p := nextOfSwitch(in, status)
	if p.Kind == plan.KindWait && (exhausted(in, status) || !p.Soon && overdue) { // one that is not looked at again within the event
		return giveUp(in, status, p.Detail)
	}
	return p
}

// nextOfSwitch: movers go, the set is created again where its templates change, and every claim is replaced by one on
// its new volume.
func nextOfSwitch(in Input, status *api.Resize) plan.Plan {
	if status.Set.UID == "" {
		return recordIdentity(in, status)
	}
	if status.Live() && recreates(in, status) && sts.TwoRevisions(in.Set) {
		return plan.Wait(api.RolloutRunning, "a partition keeps replicas of an older revision, which a set that is created again would not know")
	}
	jobs := deleteJobs(in.JobsOf(status.Operation))
	if recreates(in, status) { // while the movers' pods go: they are done, and no claim is touched yet
		if p, rests := atRest(in, status); !rests {
			if orders := withdraw(in, status); len(orders) > 0 { // else a set that is deleted now would be created again with its old templates
				return plan.Do(api.SwitchRunning, append(orders, p.Actions...)...)
			}
			return p
		}
		p := recreate(in, status, status.Templates)
		if len(jobs) > 0 {
			return plan.Do(api.SwitchRunning, append(jobs, p.Actions...)...)
		}
		return p
	}
	if len(jobs) > 0 {
		return plan.Do(api.SwitchRunning, jobs...)
	}
	if movers := in.Movers(status.Operation); len(movers) > 0 {
		return plan.WaitSoon(api.SwitchRunning, "mover pod %s is still there", movers[0].Name)
	}
	if back := oldTemplates(in, status); differ(in.Set, back) {
		stale := status.Clone()
		stale.Generation, stale.Recreate = never, true
		return recreate(in, stale, back)
	}
	if orders := withdraw(in, status); len(orders) > 0 {
		return plan.Do(api.SwitchRunning, orders...)
	}
	return switchClaims(in, status)
}

// switchClaims moves every claim one step on. When each has come to rest, the set is started. If another client
// has started pods since, the claims that are not switched yet are copied again.
func switchClaims(in Input, status *api.Resize) plan.Plan {
	next := status.Clone()
	var actions []plan.Action
	waiting, again, busy := "", false, false
	for i := range next.Claims {
		part := &next.Claims[i]
		if part.Phase == api.ClaimExpanded {
			continue
		}
		move := step(in, status, *part)
		actions = append(actions, move.actions...)
		switch {
		case move.switched:
			part.Phase = api.ClaimSwitched
		case len(move.actions) > 0:
			busy = true
		case move.again:
			again = true
		case move.waiting != "":
			waiting = move.waiting
		}
	}
	done := !busy && !again && waiting == ""
	switch {
	case len(actions) > 0 && !done:
		return plan.Do(api.SwitchRunning, actions...)
	case waiting != "":
		return waitHeld(in, next, waiting)
	case again:
		return copyAgain(in, next)
	}
	p := start(in, next)
	p.Actions = append(actions, p.Actions...)
	return p
}

// waitHeld waits for the platform. New replicas would keep objects in use that have to go.
func waitHeld(in Input, next *api.Resize, waiting string) plan.Plan {
	patch := toZero(in, operation.Store(in.Set, next))
	if patch.Empty() {
		return plan.WaitSoon(api.SwitchRunning, "%s", waiting)
	}
	return plan.Do(api.SwitchRunning, patch.Actions()...)
}

// toZero scales the set to zero with the patch, keeps the claims of the stopped pods, and prevents others from scaling it up.
func toZero(in Input, patch *plan.Patch) *plan.Patch {
	if sts.Replicas(in.Set) != 0 {
		plan.Set(patch, "/spec/replicas", sts.Replicas(in.Set), 0, "replicas to 0")
		plan.Set(patch, sts.WhenScaledPath, sts.WhenScaled(in.Set), sts.Retain, "whenScaled Retain")
		patch.Freeze()
	}
	return patch
}

func copyAgain(in Input, status *api.Resize) plan.Plan {
	next := operation.Enter(status, api.Copying, in.Now, in.Settings.CopyTimeout)
	next.Generation, next.Round, next.Stopping = 0, status.Round+1, nil
	for i := range next.Claims {
		part := &next.Claims[i]
		if part.Settled() {
			continue
		}
		part.Forget()
		part.UID = in.Claim(part.Name).UID
	}
	next.Reason, next.Message = api.StartedByOthers, "the set was changed before the switch; what is not switched is copied again"
	return plan.Do(api.StartedByOthers, append(operation.Store(in.Set, next).Actions(), operation.NoteOf(in.Set, next, true))...).
		Then(events.OwnerPaused, status.Operation)
}

// start scales the set up. Until now no pod has written to the new volumes.
func start(in Input, status *api.Resize) plan.Plan {
	next := operation.Enter(status, api.Starting, in.Now, in.Settings.ReadyTimeout)
	next.Reason, next.Message = api.ClaimsSwitched, "every claim is on its new volume, the set is started"
	if status.Live() {
		next.Message = "every claim has grown, and the set has its new templates"
	}
	patch := giveBack(in, next).Thaw().Annotate(api.StatusAnnotation, next.Encode())
	return plan.Do(api.ClaimsSwitched, append(patch.Actions(), operation.NoteOf(in.Set, next, false))...)
}

// exhausted reports whether a wait is over: past the deadline, and not only because the functions were away.
func exhausted(in Input, status *api.Resize) bool {
	return operation.Overdue(status, in.Now) && in.Waited >= lastWait
}

// lastWait is how long a wait is watched after the deadline; below the executor's patience.
const lastWait = 5 * time.Second

// giveUp ends an operation that cannot complete its switch. As long as no claim was touched, the set is given back as it was.
// Otherwise it stays at zero: one of its claims is not whole.
func giveUp(in Input, status *api.Resize, waiting string) plan.Plan {
	switch {
	case status.Live():
		return backOut(in, status, api.DeadlineExceeded,
			fmt.Sprintf("creating the set again with its new templates was given up after %s: %s", in.Settings.SwitchTimeout, waiting))
	case untouched(in, status):
		return backOut(in, status, api.DeadlineExceeded,
			fmt.Sprintf("the switch was given up after %s: %s. Mend the cause", in.Settings.SwitchTimeout, waiting))
	}
	next := status.Clone()
	next.Phase, next.FailedAt, next.Reason, next.Finished = api.Failed, api.Switching, api.DeadlineExceeded, operation.Moment(in.Now)
	next.Deadline = nil
	next.Message = fmt.Sprintf("the switch was given up after %s: %s. No data is lost, every volume is kept; the set stays at zero. "+
		"Mend the cause, then go on with the annotation %s", in.Settings.SwitchTimeout, waiting, api.RetryAnnotation)
	p := conclude(in, next, events.OperationFailed)
	p.Actions = append(withdraw(in, status), p.Actions...)
	return p
}

// backOut ends a switch before any claim was touched. The set runs on if it runs; else it is rolled back.
func backOut(in Input, status *api.Resize, reason api.Reason, message string) plan.Plan {
	if status.Live() {
		next := end(in, status, api.Failed)
		next.FailedAt, next.Reason = api.Switching, reason
		next.Message = fmt.Sprintf("%s. Its pods run and its claims have grown; mend the cause, then ask again with the annotation %s",
			message, api.RetryAnnotation)
		p := conclude(in, next, events.OperationFailed)
		p.Actions = append(withdraw(in, status), p.Actions...)
		return p
	}
	next := operation.RollBack(status, in.Now, in.Settings.SwitchTimeout, reason, message+", then "+operation.AskAgain(status))
	store := append(operation.Store(in.Set, next).Actions(), operation.NoteOf(in.Set, next, true))
	return plan.Do(reason, append(withdraw(in, status), store...)...)
}

// untouched reports whether nothing of the switch has been done: each claim is on its old volume and was neither marked nor deleted,
// no volume is reserved, and the set has its old templates.
func untouched(in Input, status *api.Resize) bool {
	if in.Set == nil || status.Set.UID != in.Set.UID || status.Recreate && !differ(in.Set, status.Templates) {
		return false
	}
	return !slices.ContainsFunc(status.Claims, func(c api.ClaimStatus) bool { return touched(in, c) })
}

func touched(in Input, c api.ClaimStatus) bool {
	if c.Phase == api.ClaimExpanded {
		return false
	}
	claim, old := in.Claim(c.Name), in.Volume(c.OldVolume)
	if claim == nil || old == nil || c.Phase == api.ClaimSwitched || reservedOf(old, in.Volume(c.NewVolume)) != nil {
		return true
	}
	return claim.DeletionTimestamp != nil || claim.Spec.VolumeName != old.Name || slices.Contains(claim.Finalizers, api.SwitchFinalizer)
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
