package restore

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
)

// leaving waits for a StatefulSet that is being deleted, by restore to be created again, or by another process. A finalizer can keep it
// for ever: then people are told once. The operation goes on when the set is gone.
func leaving(in Input, status *api.Resize) plan.Plan {
	if !exhausted(in, status) {
		return plan.WaitSoon(api.SwitchRunning, "StatefulSet %s is being deleted", in.Set.Name)
	}
	next := status.Clone()
	next.Reason = api.SetHeld
	next.Message = fmt.Sprintf("StatefulSet %s is being deleted and finalizers %s keep it. "+
		"Remove them, or mend the controllers that they belong to; %s",
		in.Set.Name, strings.Join(in.Set.Finalizers, ", "), afterwards(in, status))
	store := operation.Store(in.Set, next)
	if store.Empty() {
		return plan.WaitSoon(api.SetHeld, "%s", next.Message)
	}
	return plan.Do(api.SetHeld, append(store.Actions(), operation.NoteOf(in.Set, next, true))...)
}

// afterwards says what happens when the deleted set is gone.
func afterwards(in Input, status *api.Resize) string {
	if journal := in.Journal(status.Operation); journal != nil && journal.Annotations[api.RecreateAnnotation] != "" {
		return "Drydock creates the set again when it is gone"
	}
	return "Drydock undoes the operation when the set is gone"
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
