package restore

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moving"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/podend"
	"drydock.dev/shared/statefulset"
)

// Input has everything that the decision depends on.
type Input struct {
	moving.Input
	Namespace string
	// Waited is the time since this event's first wait after its last write. It is zero if its latest plan was not a wait.
	Waited time.Duration
	// CreationRefused is the API server's error if a dry run of the StatefulSet's creation failed, else empty.
	CreationRefused string
	// WriteFailed is the API server's error if it failed to carry out a write of this event, else empty. A retry may succeed.
	WriteFailed string
	// NamespaceTerminating is true if the API server refused to create an object because the namespace is being deleted.
	NamespaceTerminating bool
	// BudgetRefusal is the API server's error if a PodDisruptionBudget does not allow the member's eviction now, else empty.
	BudgetRefusal string
	// Checks has the answers to the member check, by the UID of the pod: why the pod has not caught up, or empty if it has.
	Checks map[types.UID]string
	// Kills has the Events about the ends of the hooks' pods whose success they decide.
	Kills podend.Kills
}

// ifSetUnchanged puts a check before the writes: they happen only if the set has not changed since it was read. Use it for writes that
// depend on the record but do not write to the set. The other objects are read after the set, so they may belong to a newer record. For
// example, another process may have stored a newer record and then held a pod.
func (in Input) ifSetUnchanged(actions []plan.Action) []plan.Action {
	if in.Set == nil {
		return actions
	}
	return append([]plan.Action{plan.CheckUnchanged(plan.StatefulSets, in.Set)}, actions...)
}

// warnOnSet returns a Warning Event on the StatefulSet. The StatefulSet may be missing.
func warnOnSet(in Input, reason api.Reason, message string) plan.Action {
	note := plan.Note{Warning: true, Reason: reason, Message: message}
	if in.Set != nil {
		note.UID = in.Set.UID
	}
	return plan.Event(in.Namespace, in.Name, note)
}

// lastWait is how long an event must have waited before a passed deadline counts. It is shorter than the executor's patience, so that an
// event can wait that long.
const lastWait = 5 * time.Second

// waitExpired reports whether the deadline has passed and this event has waited, too. Without the second condition, functions that were
// down until after the deadline would give up although the awaited change has happened or will happen soon.
func waitExpired(in Input, record *api.Resize) bool {
	return operation.Overdue(record, in.Now) && in.Waited >= lastWait
}

// Decide is pure. Each call plans the next step only; the executor calls it again until nothing is left to do.
func Decide(in Input) plan.Plan {
	p, _ := decide(in)
	return p
}

// decide returns the plan, and the pods that must answer the member check first. With their answers, decide is called again.
func decide(in Input) (plan.Plan, []*corev1.Pod) {
	if in.NamespaceTerminating {
		return releaseForNamespaceDeletion(in), nil
	}
	record, err := in.Record()
	if err != nil {
		return plan.Noop(api.StatusInvalid), nil // detect-resize reports it on the set
	}
	if p, taken := recoverLost(in, record); taken {
		return p, nil
	}
	if record == nil {
		return handleIdle(in, record), nil
	}
	if in.WriteFailed != "" && !operation.Overdue(record, in.Now) && !in.swapIsLate(record) {
		return plan.Noop(api.Rejected), nil // the event fails and is delivered again
	}
	switch record.Phase {
	case api.Moving, api.Reverting, api.Finishing:
		if in.Set.DeletionTimestamp != nil {
			return handleTerminatingSet(in, record), nil
		}
		return continueOperation(in, record)
	}
	return handleIdle(in, record), nil
}

// swapIsLate reports whether the deadline of a stopped member has passed, and none of its claims was deleted yet. The operation then
// ends, so that the member starts again.
func (in Input) swapIsLate(record *api.Resize) bool {
	return record.Phase == api.Moving && slices.ContainsFunc(record.Members, func(m api.Member) bool {
		if began, _ := in.rollbackBegan(record, &m); began && record.IsRollback() { // the member must follow
			return false
		}
		return m.Phase == api.MemberSwapping && operation.Past(m.Deadline, in.Now) && !slices.ContainsFunc(m.Claims, in.leavesVolume)
	})
}

// continueOperation continues the operation of the record if its journal agrees with the record.
func continueOperation(in Input, record *api.Resize) (plan.Plan, []*corev1.Pod) {
	if record.Phase == api.Moving && in.Journal(record.Operation) == nil && record.Set.UID != "" && len(record.Members) > 0 {
		if message := moving.Forged(in.Observed, record); message != "" {
			return revert(in, record, api.StatusInvalid, message), nil
		}
		return plan.Noop(api.NotOurPhase), nil // backup writes the journal first
	}
	if problem := journalConflict(in, record); problem != "" {
		return failUntrusted(in, record, problem), nil
	}
	in = confineVolumes(in, record.Operation)
	if record.Set.UID == "" {
		return recordIdentity(in, record), nil
	}
	switch record.Phase {
	case api.Reverting:
		return handleReverting(in, record), nil
	case api.Finishing:
		return handleFinishing(in, record), nil
	}
	return handleMoving(in, record)
}

// releaseForNamespaceDeletion removes Drydock's finalizers, because they would block the deletion of the namespace. The namespace
// controller deletes the pods first and waits until they are gone (kubernetes pkg/controller/namespace/deletion). No pod can start on an
// empty volume, because nothing can be created in a terminating namespace. The volumes stay; retire finds them by their links.
func releaseForNamespaceDeletion(in Input) plan.Plan {
	var actions []plan.Action
	for _, pod := range in.Pods {
		if statefulset.Held(pod) {
			actions = append(actions, release(pod)...)
		}
	}
	for _, claim := range in.Claims {
		if claim.DeletionTimestamp != nil {
			actions = append(actions, plan.PatchOf(plan.Claims, claim).RemoveFinalizer(api.FreezeFinalizer).Actions()...)
		}
	}
	if len(actions) == 0 {
		return plan.Noop(api.NamespaceTerminating)
	}
	return plan.Do(api.NamespaceTerminating, actions...)
}

// handleIdle handles a set without an active operation. It removes movers, and releases pods, claims and volumes, that earlier operations
// left.
func handleIdle(in Input, record *api.Resize) plan.Plan {
	releases, warnings := staleHoldReleases(in, record)
	if releases = slices.Concat(releases, leftMovers(in, record), leftLinks(in, record)); len(releases) > 0 {
		return plan.Do(api.CleaningUp, in.ifSetUnchanged(releases)...)
	}
	p := retire(in, record)
	if p.Kind != plan.KindDo && len(warnings) > 0 {
		return plan.Do(api.CleaningUp, warnings...)
	}
	return p
}
