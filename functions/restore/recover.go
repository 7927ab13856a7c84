package restore

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// recoverLost continues an operation from its journal, when its StatefulSet is gone, is another one of the same name, or has lost its
// record. A set that Drydock has deleted itself is created again. Otherwise the operation is undone.
func recoverLost(in Input, record *api.Resize) (plan.Plan, bool) {
	for _, revision := range in.Journals {
		journal, err := api.LoadJournal(revision)
		switch {
		case err != nil && record == nil:
			return plan.Do(api.LinkInvalid, tell(in, api.LinkInvalid, err.Error())), true
		case err != nil || record != nil && record.Active() && record.Operation == journal.Record.Operation:
			continue
		}
		manifest, err := api.LoadManifest(revision)
		switch {
		case err != nil:
			return plan.Do(api.LinkInvalid, tell(in, api.LinkInvalid, err.Error())), true
		case in.Set == nil && manifest != nil:
			return createAgain(in, revision, manifest), true
		}
		return undoLost(confine(in, journal.Record.Operation), &journal.Record, revision), true
	}
	return plan.Plan{}, false
}

// createAgain creates the set from its journal.
func createAgain(in Input, revision *appsv1.ControllerRevision, manifest *appsv1.StatefulSet) plan.Plan {
	if refusal := notCreated(in, manifest); refusal != "" {
		return plan.Do(api.Rejected, tell(in, api.Rejected, "the StatefulSet cannot be created again: "+refusal+
			"; its manifest is in the annotation "+api.RecreateAnnotation+" of ControllerRevision "+revision.Name+
			", it is tried again at each tick"))
	}
	if in.Failing != "" {
		return plan.Noop(api.Rejected) // the event fails, and is delivered again
	}
	set, err := api.SetManifest(revision)
	if err != nil {
		return plan.Do(api.LinkInvalid, tell(in, api.LinkInvalid, err.Error()))
	}
	return plan.Do(api.SwitchRunning, plan.Create(plan.StatefulSets, created(set)))
}

// notCreated says why the set cannot be created, if people must know: the API server refuses it, or fails to create it since the end of
// the operation's time.
func notCreated(in Input, manifest *appsv1.StatefulSet) string {
	record, err := api.LoadResize(manifest)
	if in.Failing != "" && err == nil && record != nil && operation.Overdue(record, in.Now) {
		return in.Failing
	}
	return in.Rejected
}

// leaving handles a StatefulSet that is being deleted: by restore, to be created again, or by another process, which waits for the held
// pods.
func leaving(in Input, record *api.Resize) plan.Plan {
	journal := in.Journal(record.Operation)
	if journal == nil {
		return plan.Noop(api.SetGone)
	}
	if journal.Annotations[api.RecreateAnnotation] == "" {
		return undoLost(confine(in, record.Operation), record, journal)
	}
	if order := follow(in, record, journal); !order.Empty() {
		return plan.Do(api.SwitchRunning, order.Actions()...)
	}
	if !exhausted(in, record) {
		return plan.WaitSoon(api.SwitchRunning, "StatefulSet %s is being deleted", in.Set.Name)
	}
	next := record.Clone()
	next.Reason = api.SetHeld
	next.Message = fmt.Sprintf("StatefulSet %s is being deleted and finalizers %s keep it. Remove them, or mend the controllers that they "+
		"belong to; Drydock creates the set again when it is gone", in.Set.Name, strings.Join(in.Set.Finalizers, ", "))
	store := operation.Store(in.Set, next)
	if store.Empty() {
		return plan.WaitSoon(api.SetHeld, "%s", next.Message)
	}
	return plan.Do(api.SetHeld, append(store.Actions(), operation.NoteOf(in.Set, next, true))...)
}

// follow takes what users write to a StatefulSet that is being deleted, such as its replicas, into the order to create it again. The API
// server accepts such writes until the garbage collector has released the pods.
func follow(in Input, record *api.Resize, journal *appsv1.ControllerRevision) *plan.Patch {
	patch := plan.PatchOf(plan.ControllerRevisions, journal)
	shape := record.Asked()
	if record.Phase == api.Reverting {
		shape = record.Former()
	}
	order, err := api.SetManifest(journal)
	if err != nil || order == nil {
		return patch // createAgain tells people
	}
	order.Object["spec"] = orderOf(in, record, shape).Object["spec"]
	return patch.Annotate(api.RecreateAnnotation, api.EncodeManifest(order))
}

// undoLost undoes an operation member by member, without a record that could be written: a claim in the middle of its switch is completed,
// a claim that was not begun is left as it is, and then the pod is released.
func undoLost(in Input, record *api.Resize, revision *appsv1.ControllerRevision) plan.Plan {
	w := &work{Input: in, before: record, record: record.Clone(), reason: api.SetReplaced}
	for i := range w.record.Members {
		member := &w.record.Members[i]
		w.learn(member)
		w.undo(member)
	}
	actions := append(deleteJobs(append(in.JobsOf(record.Operation), in.HooksOf(record.Operation)...)), w.actions...)
	switch {
	case len(actions) > 0:
		return plan.Do(api.SetReplaced, actions...)
	case w.waiting != "":
		return stuck(in, revision, w.waiting)
	}
	p, busy := tidy(in, record.Operation, partsOf(in, w.record))
	switch {
	case busy && p.Kind == plan.KindWait:
		return stuck(in, revision, p.Detail)
	case busy:
		return last(in, record, revision, p)
	}
	return plan.Noop(api.SetReplaced)
}

// learn completes a member of a journal from the live objects: the journal was written when the operation began.
func (w *work) learn(member *api.Member) {
	if pod := w.MemberPod(member.Ordinal); pod != nil && api.Linked(pod, w.record.Operation, api.RoleHeld) && statefulset.Held(pod) {
		if member.Pod = pod.UID; w.MayWrite(member, pod) == "" {
			member.Stopped = operation.Moment(w.Now)
		}
	}
	for i := range member.Claims {
		move := &member.Claims[i]
		if name := reservedCopy(w.Input, w.record.Operation, move); name != "" {
			move.NewVolume = name
		}
	}
}

// reservedCopy is the copy that is reserved for the claim's name, or that the claim is bound to; empty if none is.
func reservedCopy(in Input, id string, move *api.Move) string {
	claim := in.Claim(move.Claim)
	for _, name := range copiesOf(in, id, move) {
		volume := in.Volume(name)
		if volume != nil && (reserved(volume) == move.Claim || claim != nil && claim.Spec.VolumeName == name) {
			return name
		}
	}
	return ""
}

// stuck bounds the wait for the undoing of an operation whose set is lost. The journal keeps the start of the wait. After the switch's
// time people get a Warning. The journal stays, so that a later tick resumes the undoing.
func stuck(in Input, revision *appsv1.ControllerRevision, waiting string) plan.Plan {
	if in.Waited < lastWait {
		return plan.WaitSoon(api.SetReplaced, "%s", waiting)
	}
	since, err := time.Parse(time.RFC3339, revision.Annotations[api.UndoingSinceAnnotation])
	if err != nil {
		return plan.Do(api.SetReplaced, plan.PatchOf(plan.ControllerRevisions, revision).
			Annotate(api.UndoingSinceAnnotation, operation.Moment(in.Now).Format(time.RFC3339)).Actions()...)
	}
	if in.Now.Sub(since) < in.Settings.SwitchTimeout {
		return plan.WaitSoon(api.SetReplaced, "%s", waiting)
	}
	return plan.Do(api.UndoStuck, tell(in, api.UndoStuck, fmt.Sprintf("the StatefulSet was deleted or replaced during an operation, "+
		"which cannot be undone: %s. Mend the cause; it is tried again at each tick, "+
		"and an owner that was paused stays paused until then", waiting)))
}

// tell warns people on a StatefulSet that may not exist.
func tell(in Input, reason api.Reason, message string) plan.Action {
	note := plan.Note{Warning: true, Reason: reason, Message: message}
	if in.Set != nil {
		note.UID = in.Set.UID
	}
	return plan.Record(in.Namespace, in.Name, note)
}

// last tells people together with the removal of the journal, the last write of the undoing.
func last(in Input, record *api.Resize, revision *appsv1.ControllerRevision, p plan.Plan) plan.Plan {
	if p.Kind != plan.KindDo || p.Actions[0].Name != revision.Name {
		return p
	}
	if own, err := in.Record(); err == nil && own != nil && own.Operation == record.Operation && !own.Active() {
		return p // the operation has ended; only its journal was left
	}
	note := plan.Note{Warning: true, Reason: api.SetReplaced, Operation: record.Operation, UID: record.Set.UID,
		Message: "the StatefulSet was deleted or replaced during a resize; held pods are released, and every claim is on a whole volume"}
	p.Actions = append(p.Actions, plan.Record(in.Namespace, in.Name, note))
	return p.Then(events.OperationFailed, record.Operation)
}
