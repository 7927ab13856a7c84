package restore

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/moving"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// recoverLost continues an operation from its journal if the StatefulSet is gone, was replaced by another one with the same name, or has
// lost its record. A set that Drydock itself deleted is created again. Any other operation is undone. If there are several, one may have to
// wait for what another one holds.
func recoverLost(in Input, record *api.Resize) (waits plan.Plan, lost bool) {
	for _, revision := range in.Journals {
		journal, err := api.LoadJournal(revision)
		switch {
		case err != nil && record == nil && !lost: // another one may be readable
			waits, lost = plan.Do(api.LinkInvalid, warnOnSet(in, api.LinkInvalid, err.Error())), true
			continue
		case err != nil || record != nil && record.Active() && record.Operation == journal.Record.Operation:
			continue
		}
		manifest, err := api.LoadManifest(revision)
		switch {
		case err != nil:
			return plan.Do(api.LinkInvalid, warnOnSet(in, api.LinkInvalid, err.Error())), true
		case in.Set == nil && manifest != nil:
			return recreateFromJournal(in, revision, manifest), true
		}
		p := undoLost(confineVolumes(in, journal.Record.Operation), &journal.Record, revision)
		if p.Kind == plan.KindDo {
			return p, true
		}
		if !lost {
			waits, lost = p, true
		}
	}
	return waits, lost
}

// recreateFromJournal creates the set from the manifest in its journal.
func recreateFromJournal(in Input, revision *appsv1.ControllerRevision, manifest *appsv1.StatefulSet) plan.Plan {
	if failure := creationFailure(in, manifest); failure != "" {
		return plan.Do(api.Rejected, warnOnSet(in, api.Rejected, "the StatefulSet cannot be created again: "+failure+
			". Fix the cause; Drydock retries at each tick with the manifest in annotation "+api.RecreateAnnotation+
			" of ControllerRevision "+revision.Name))
	}
	if in.WriteFailed != "" {
		return plan.Noop(api.Rejected) // the event fails and is delivered again
	}
	set, err := api.SetManifest(revision)
	if err != nil {
		return plan.Do(api.LinkInvalid, warnOnSet(in, api.LinkInvalid, err.Error()))
	}
	return plan.Do(api.SwapRunning, plan.Create(plan.StatefulSets, toCreate(set)))
}

// creationFailure returns why the set cannot be created, if users must know: the API server refuses the creation, or it still fails after
// the operation's deadline.
func creationFailure(in Input, manifest *appsv1.StatefulSet) string {
	record, err := api.LoadResize(manifest)
	if in.WriteFailed != "" && err == nil && record != nil && operation.Overdue(record, in.Now) {
		return in.WriteFailed
	}
	return in.Rejected
}

// handleTerminatingSet handles a StatefulSet that is being deleted. Either restore deletes it to create it again, or another process
// deletes it and waits for the held pods.
func handleTerminatingSet(in Input, record *api.Resize) plan.Plan {
	journal := in.Journal(record.Operation)
	if journal == nil {
		return plan.Noop(api.SetGone)
	}
	if journal.Annotations[api.RecreateAnnotation] == "" {
		return undoLost(confineVolumes(in, record.Operation), record, journal)
	}
	if order := updateOrder(in, record, journal); !order.Empty() {
		return plan.Do(api.SwapRunning, order.Actions()...)
	}
	if !waitExpired(in, record) {
		return plan.WaitSoon(api.SwapRunning, "StatefulSet %s is being deleted", in.Set.Name)
	}
	next := record.Clone()
	next.Reason = api.SetHeld
	next.Message = fmt.Sprintf("StatefulSet %s is being deleted, but finalizers %s keep it. Remove them or fix their controllers; "+
		"Drydock then creates the StatefulSet again", in.Set.Name, strings.Join(in.Set.Finalizers, ", "))
	store := operation.Store(in.Set, next)
	if store.Empty() {
		return plan.WaitSoon(api.SetHeld, "%s", next.Message)
	}
	return plan.Do(api.SetHeld, append(store.Actions(), operation.NoteOf(in.Set, next, true))...)
}

// updateOrder copies what users write to a terminating StatefulSet, such as its replicas or an abort, into the order to create it again.
// The API server accepts such writes until the garbage collector has released the pods. The order keeps its own record.
func updateOrder(in Input, record *api.Resize, journal *appsv1.ControllerRevision) *plan.Patch {
	patch := plan.PatchOf(plan.ControllerRevisions, journal)
	shape := record.NewShape()
	if record.Phase == api.Reverting {
		shape = record.OldShape()
	}
	order, err := api.SetManifest(journal)
	if err != nil || order == nil {
		return patch // recreateFromJournal warns the user
	}
	present := makeOrder(in, record, shape)
	order.Object["spec"] = present.Object["spec"]
	annotations := present.GetAnnotations()
	annotations[api.StatusAnnotation] = order.GetAnnotations()[api.StatusAnnotation]
	order.SetAnnotations(annotations)
	order.SetLabels(present.GetLabels())
	return patch.Annotate(api.RecreateAnnotation, api.EncodeManifest(order))
}

// undoLost undoes an operation member by member, although no set can hold its record. A claim in the middle of its swap is completed, a
// claim whose swap has not begun stays unchanged, and then the pod is released.
func undoLost(in Input, record *api.Resize, revision *appsv1.ControllerRevision) plan.Plan {
	w := &work{Input: in, Work: moving.Begin(record)}
	w.Reason = api.SetReplaced
	for i := range w.Record.Members {
		member := &w.Record.Members[i]
		w.completeFromCluster(member)
		w.undoing().undoMember(member)
	}
	actions := append(moving.DeleteJobs(append(in.JobsOf(record.Operation), in.HooksOf(record.Operation)...), ""), w.Actions()...)
	switch {
	case len(actions) > 0:
		return plan.Do(api.SetReplaced, actions...)
	case w.Waiting() != "":
		return reportStuckUndo(in, revision, w.Waiting())
	}
	p, busy := tidy(in, record.Operation, endedClaims(in, w.Record))
	switch {
	case busy && p.Kind == plan.KindWait:
		return reportStuckUndo(in, revision, p.Detail)
	case busy:
		return announceLastStep(in, record, revision, p)
	}
	return plan.Noop(api.SetReplaced)
}

// completeFromCluster fills in a journal's member from the live objects, because the journal was written when the operation began.
func (w *work) completeFromCluster(member *api.Member) {
	if pod := w.MemberPod(member.Ordinal); pod != nil && api.HasLink(pod, w.Record.Operation, api.RoleHeld) && statefulset.Held(pod) {
		if member.Pod = pod.UID; w.MayWrite(member, pod) == "" {
			member.StoppedAt = operation.Moment(w.Now)
		}
	}
	for i := range member.Claims {
		move := &member.Claims[i]
		if name := reservedCopy(w.Input, w.Record.Operation, move); name != "" {
			move.NewVolume = name
		}
	}
}

// reservedCopy returns the copy that is reserved for the claim's name or bound to the claim, or empty.
func reservedCopy(in Input, id string, move *api.Move) string {
	claim := in.Claim(move.Claim)
	for _, name := range copiesOf(in, id, move) {
		volume := in.Volume(name)
		if volume != nil && (reservedFor(volume) == move.Claim || claim != nil && claim.Spec.VolumeName == name) {
			return name
		}
	}
	return ""
}

// reportStuckUndo bounds the wait for the undoing of an operation whose set is lost. The journal keeps the start of the wait. After the
// swap's timeout, the user gets a Warning. The journal stays, so that a later tick resumes the undoing.
func reportStuckUndo(in Input, revision *appsv1.ControllerRevision, waiting string) plan.Plan {
	if in.Waited < lastWait {
		return plan.WaitSoon(api.SetReplaced, "%s", waiting)
	}
	since, err := time.Parse(time.RFC3339, revision.Annotations[api.UndoingSinceAnnotation])
	if err != nil {
		return plan.Do(api.SetReplaced, plan.PatchOf(plan.ControllerRevisions, revision).
			Annotate(api.UndoingSinceAnnotation, operation.Moment(in.Now).Format(time.RFC3339)).Actions()...)
	}
	if in.Now.Sub(since) < in.Settings.SwapTimeout {
		return plan.WaitSoon(api.SetReplaced, "%s", waiting)
	}
	return plan.Do(api.UndoStuck, warnOnSet(in, api.UndoStuck, fmt.Sprintf("the StatefulSet was deleted or replaced during an operation, "+
		"which cannot be undone: %s. Fix the cause; Drydock retries at each tick, and a paused owner stays paused until then", waiting)))
}

// announceLastStep adds a Warning and an announcement to the last write of the undoing, the removal of the journal.
func announceLastStep(in Input, record *api.Resize, revision *appsv1.ControllerRevision, p plan.Plan) plan.Plan {
	if p.Kind != plan.KindDo || p.Actions[0].Name != revision.Name {
		return p
	}
	if onSet, err := in.Record(); err == nil && onSet != nil && onSet.Operation == record.Operation && !onSet.Active() {
		return p // the operation has ended, and only its journal was left
	}
	note := plan.Note{Warning: true, Reason: api.SetReplaced, Operation: record.Operation, UID: record.Set.UID,
		Message: "the StatefulSet was deleted or replaced during a resize; held pods were released, and every claim is on a complete " +
			"volume"}
	p.Actions = append(p.Actions, plan.Event(in.Namespace, in.Name, note))
	return p.Then(events.OperationFailed, record.Operation)
}
