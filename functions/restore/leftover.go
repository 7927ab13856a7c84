package restore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/sts"
)

// leftover ends an operation whose StatefulSet is gone, is another one of the same name, or has forgotten it.
//
// A set that we deleted ourselves to create it again is created. Otherwise somebody else deleted the set, and the
// operation is undone claim by claim: a claim in the middle of its switch is completed, since whoever made the new set
// is waiting for the name; a claim that was not begun is left as it is.
func leftover(in Input, revision *appsv1.ControllerRevision, journal *api.Journal, manifest *appsv1.StatefulSet) plan.Plan {
	if in.Set != nil || manifest == nil {
		return undo(in, &journal.Status, revision)
	}
	if refusal := notCreated(in, manifest); refusal != "" {
		return plan.Do(api.Rejected, tell(in, api.Rejected, "the StatefulSet cannot be created again: "+refusal+
			"; its manifest is in the annotation "+api.RecreateAnnotation+" of ControllerRevision "+revision.Name+", it is tried again at each tick"))
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

// notCreated says why the set cannot be created, if people must know: the API server refuses it, or fails to create it since the end of the
// switch's time.
func notCreated(in Input, manifest *appsv1.StatefulSet) string {
	if status, err := api.LoadResize(manifest); in.Failing != "" && err == nil && status != nil && operation.Overdue(status, in.Now) {
		return in.Failing
	}
	return in.Rejected
}

// read loads what the journal says.
func read(revision *appsv1.ControllerRevision) (*api.Journal, *appsv1.StatefulSet, error) {
	journal, err := api.LoadJournal(revision)
	if err != nil {
		return nil, nil, err
	}
	if n, err := strconv.ParseInt(revision.Annotations[api.ReplicasAnnotation], 10, 32); err == nil && n >= 0 {
		journal.Status.Replicas = int32(n)
	}
	manifest, err := api.LoadManifest(revision)
	return journal, manifest, err
}

// tell warns people on a StatefulSet that may not exist.
func tell(in Input, reason api.Reason, message string) plan.Action {
	note := plan.Note{Warning: true, Reason: reason, Message: message}
	if in.Set != nil {
		note.UID = in.Set.UID
	}
	return plan.Record(in.Namespace, in.Name, note)
}

func undo(in Input, status *api.Resize, revision *appsv1.ControllerRevision) plan.Plan {
	if jobs := deleteJobs(in.JobsOf(status.Operation)); len(jobs) > 0 {
		return plan.Do(api.SetReplaced, jobs...)
	}
	var actions []plan.Action
	waiting := ""
	forward := halfBack(in, status)
	for _, c := range status.Claims {
		if c.Phase = api.ClaimPending; forward { // never decide for a copy here, but for what was to come back if the rest has
			c.Phase, c.UID = api.ClaimVerified, uidOf(in.Claim(c.Name))
		} else {
			c.NewVolume = reservedCopy(in, status.Operation, c)
		}
		m := complete(in, status, c)
		actions = append(actions, m.actions...)
		if m.waiting != "" {
			waiting = m.waiting
		}
	}
	if len(actions) > 0 {
		return plan.Do(api.SetReplaced, actions...)
	}
	if waiting != "" {
		return stuck(in, revision, waiting)
	}
	if back := forgotten(in, status); len(back) > 0 {
		return plan.Do(api.SetReplaced, back...)
	}
	if p, busy := tidy(in, status.Operation, partsOf(in, status)); busy && p.Kind == plan.KindWait {
		return stuck(in, revision, p.Detail)
	} else if busy {
		return last(in, status, revision, p)
	}
	return plan.Noop(api.SetReplaced)
}

// halfBack reports whether a claim has its old volume back, or is about to: what the journal says is from before.
func halfBack(in Input, status *api.Resize) bool {
	return slices.ContainsFunc(status.Claims, func(c api.ClaimStatus) bool { return isBack(in, c) })
}

func isBack(in Input, c api.ClaimStatus) bool {
	claim, fresh := in.Claim(c.Name), in.Volume(c.NewVolume)
	return c.Returns() && fresh != nil && (reserved(fresh) == c.Name || claim != nil && claim.Spec.VolumeName == fresh.Name)
}

func uidOf(claim *corev1.PersistentVolumeClaim) types.UID {
	if claim == nil {
		return ""
	}
	return claim.UID
}

// forgotten gives a set back that lost its status while it was stopped: nothing else tells how many replicas it had. One that
// was created again meanwhile has another UID than the journal, but is frozen.
func forgotten(in Input, status *api.Resize) []plan.Action {
	own, err := in.Status()
	if err != nil || own != nil || in.Set == nil || in.Set.UID != status.Set.UID && !sts.Frozen(in.Set) {
		return nil
	}
	patch := plan.PatchOf(plan.StatefulSets, in.Set)
	if sts.Replicas(in.Set) == 0 && !status.Live() {
		stopped := status.Clone()
		stopped.Stopped = operation.Moment(in.Now) // the journal is from before
		patch = giveBack(in, stopped)
	}
	return patch.Thaw().Actions()
}

// complete takes a claim that is in the middle of its switch to its end, and leaves every other one alone. Without its
// set nothing tells whether a copy is still current, so a volume that is not reserved yet is the old one.
func complete(in Input, status *api.Resize, c api.ClaimStatus) move {
	claim, old, fresh := in.Claim(c.Name), in.Volume(c.OldVolume), in.Volume(c.NewVolume)
	switch {
	case old == nil:
		return move{}
	case claim == nil && reservedOf(old, fresh) == nil:
		return move{} // deleted with the set: its volume is kept for the window
	case claim == nil:
		return create(in, status, c, old, fresh)
	case claim.DeletionTimestamp != nil && slices.Contains(claim.Finalizers, api.SwitchFinalizer):
		return replace(in, status, c, claim, old, fresh)
	case claim.Spec.VolumeName == "" && reservedOf(old, fresh) != nil:
		return unbound(claim, reservedOf(old, fresh))
	case fresh != nil && claim.Spec.VolumeName == fresh.Name && reserved(fresh) != "":
		return settle(in, claim, fresh)
	case claim.Spec.VolumeName == old.Name && reserved(old) != "":
		return settle(in, claim, old)
	}
	return move{}
}

// reservedCopy is the copy that the claim's name was given before the set got lost, or empty if none was.
func reservedCopy(in Input, operation string, c api.ClaimStatus) string {
	for _, name := range copiesOf(in, operation, c) {
		if volume := in.Volume(name); volume != nil && reserved(volume) == c.Name {
			return name
		}
	}
	return ""
}

// last tells people together with the removal of the journal, the last write of the undoing.
func last(in Input, status *api.Resize, revision *appsv1.ControllerRevision, p plan.Plan) plan.Plan {
	if p.Kind != plan.KindDo || p.Actions[0].Name != revision.Name {
		return p
	}
	if own, err := in.Status(); err == nil && own != nil && own.Operation == status.Operation {
		return p // the operation ended well; only its journal was left
	}
	note := plan.Note{Warning: true, Reason: api.SetReplaced, Operation: status.Operation, UID: status.Set.UID, Message: outcome(in, status)}
	p.Actions = append(p.Actions, plan.Record(in.Namespace, in.Name, note))
	return p.Then(events.OperationFailed, status.Operation)
}

// outcome says what the undoing has come to. Of a rollback the set may have been taken away half way, with claims that nobody may
// touch any more.
func outcome(in Input, status *api.Resize) string {
	var now []string
	for _, c := range status.Claims {
		if claim := in.Claim(c.Name); claim != nil && !isBack(in, c) {
			now = append(now, c.Name)
		}
	}
	if len(now) > 0 && halfBack(in, status) {
		return fmt.Sprintf("the StatefulSet was deleted or replaced during a rollback: claims %s are on the volumes that they had, the others have their old ones back, "+
			"so their data is of different times; kubectl drydock rollback --operation %s brings the rest back", strings.Join(now, ", "), status.RollsBack)
	}
	return "the StatefulSet was deleted or replaced during a resize; the resize was undone, every claim is whole"
}
