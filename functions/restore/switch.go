package restore

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/sts"
)

// switching takes the set through the switch. It is given up only where it has to wait: after a long absence of the
// functions the deadline is over, but nothing may be wrong.
func switching(in Input, status *api.Status) plan.Plan {
	p := nextOfSwitch(in, status)
	if p.Kind == plan.KindWait && exhausted(in, status) {
		return giveUp(in, status, p.Detail)
	}
	if in.Rejected != "" && plan.Overdue(status, in.Now) {
		return giveUp(in, status, "the API server refuses a step: "+in.Rejected)
	}
	return p
}

// nextOfSwitch: movers go, the set is created again where its templates change, and every claim is replaced by one on
// its new volume.
func nextOfSwitch(in Input, status *api.Status) plan.Plan {
	if status.Set.UID == "" {
		return recordIdentity(in, status)
	}
	if jobs := deleteJobs(in.JobsOf(status.Operation)); len(jobs) > 0 {
		return plan.Do(api.SwitchRunning, jobs...)
	}
	if movers := in.Movers(status.Operation); len(movers) > 0 {
		return plan.WaitSoon(api.SwitchRunning, "mover pod %s is still there", movers[0].Name)
	}
	if status.Recreate && in.Current(status) && differ(in.Set, status.Templates) {
		return recreate(in, status, status.Templates)
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

// withdraw takes back the journal's order to create the set, whether it was carried out or not: were the set deleted by
// somebody else later, it would be created as it was when the order was given, with copies that are stale by then.
func withdraw(in Input, status *api.Status) []plan.Action {
	journal := in.Journal(status.Operation)
	if journal == nil {
		return nil
	}
	return plan.PatchOf(plan.ControllerRevisions, journal).Unannotate(api.RecreateAnnotation).Actions()
}

func differ(set *appsv1.StatefulSet, templates []api.TemplateTarget) bool {
	return slices.ContainsFunc(templates, func(t api.TemplateTarget) bool {
		return sts.Differs(set, t.Name, api.Target{Size: t.Size, Class: t.Class})
	})
}

// oldTemplates are the templates that claims ask for which have to go back on their old volumes. With the new template
// the StatefulSet controller, if it were to create such a claim before we do, would ask for more than the old volume
// has, and be given a new, empty one. The claims are frozen meanwhile.
func oldTemplates(in Input, status *api.Status) []api.TemplateTarget {
	var templates []api.TemplateTarget
	for _, part := range status.Claims {
		claim, old, fresh := in.Claim(part.Name), in.Volume(part.OldVolume), in.Volume(part.NewVolume)
		if claim == nil || old == nil || !frozen(claim) || reservedOf(old, fresh) != nil || staysCurrent(in, status, part, claim, fresh) {
			continue
		}
		templates = append(templates, api.TemplateTarget{Name: part.Template, Size: sts.Requested(claim), Class: sts.ClassOf(claim)})
	}
	return templates
}

// recreate replaces the set by one with the given templates, at zero, before any claim changes. What is to be created is
// stored first; then exactly the state that it was made from is deleted, so that no edit of somebody else is lost.
//
// The order says at first that the copies are current for no set, and for this one only once our own delete was accepted:
// if it is found without that, somebody else may have started pods and deleted the set before us.
func recreate(in Input, status *api.Status, templates []api.TemplateTarget) plan.Plan {
	journal := in.Journal(status.Operation)
	if journal == nil {
		return plan.Do(api.SwitchRunning, plan.Create(plan.ControllerRevisions, resources.MakeJournal(in.Set, status)))
	}
	order := func(generation int64) *plan.Patch {
		next := status.Clone()
		next.Set.UID, next.Generation = "", generation // the new set's identity is not known before it exists
		manifest := api.EncodeManifest(resources.MakeHeldSet(in.Set, templates, next))
		return plan.PatchOf(plan.ControllerRevisions, journal).Annotate(api.RecreateAnnotation, manifest)
	}
	if store := order(never); !store.Empty() {
		return plan.Do(api.SwitchRunning, store.Actions()...)
	}
	remove := plan.Delete(plan.StatefulSets, in.Set)
	remove.Orphan = true
	return plan.Do(api.SwitchRunning, append([]plan.Action{remove}, order(status.Generation).Actions()...)...)
}

// never is a generation that no set has: copies that are current for none.
const never = -1

// recordIdentity takes over the set that was just created: the journal's order to create it is withdrawn, and copies
// that were current for the set before are so for this one, if nobody has written to it since.
func recordIdentity(in Input, status *api.Status) plan.Plan {
	next := status.Clone()
	next.Set.UID = in.Set.UID
	if in.Set.Generation != 1 { // as created (kubernetes pkg/registry/apps/statefulset/strategy.go)
		next.Generation = never
	} else if status.Generation != never {
		next.Generation = in.Set.Generation
	}
	return plan.Do(api.SwitchRunning, append(withdraw(in, status), plan.Store(in.Set, next).Actions()...)...)
}

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
	next.Generation, next.Round, next.Stopping = 0, status.Round+1, nil
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

// exhausted reports whether a wait is over: past the deadline, and not only because the functions were away.
func exhausted(in Input, status *api.Status) bool {
	return plan.Overdue(status, in.Now) && in.Waited >= lastWait
}

// lastWait is how long a wait is watched after the deadline; below the executor's patience.
const lastWait = 5 * time.Second

// giveUp ends an operation that cannot complete its switch. The set stays at zero: one of its claims is not whole.
func giveUp(in Input, status *api.Status, waiting string) plan.Plan {
	next := status.Clone()
	next.Phase, next.FailedAt, next.Reason, next.Finished = api.Failed, api.Switching, api.DeadlineExceeded, plan.Moment(in.Now)
	next.Deadline = nil
	next.Message = fmt.Sprintf("the switch was given up after %s: %s. No data is lost, every volume is kept; the set stays at zero. "+
		"Mend the cause, then go on with the annotation %s", in.Settings.SwitchTimeout, waiting, api.RetryAnnotation)
	p := conclude(in, next, events.OperationFailed)
	p.Actions = append(withdraw(in, status), p.Actions...)
	return p
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
