package restore

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
)

// Input is the input of Decide.
type Input struct {
	*world.Observed
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
	// NamespaceLeaves: the namespace is being deleted, so the API server has refused to create something in it.
	NamespaceLeaves bool
	// Budget is why a PodDisruptionBudget does not allow to stop a member now; empty if it does, or was not asked.
	Budget string
	// Checks are the answers of pods to the member check: why a pod has not caught up; empty if it has.
	Checks map[types.UID]string
}

// Decide is pure. Each call plans the next step only; the executor comes back until there is none.
func Decide(in Input) plan.Plan {
	p, _ := decide(in)
	return p
}

// decide returns the plan, and the pods that must be asked by the member check first. With their answers, it is called again.
func decide(in Input) (plan.Plan, []*corev1.Pod) {
	if in.NamespaceLeaves {
		return letAllGo(in), nil
	}
	record, err := in.Record()
	if err != nil {
		return plan.Noop(api.StatusInvalid), nil // detect-resize says so on the set
	}
	if p, taken := recoverLost(in, record); taken {
		return p, nil
	}
	if record == nil {
		return rest(in, record), nil
	}
	if in.Failing != "" && !operation.Overdue(record, in.Now) {
		return plan.Noop(api.Rejected), nil // the event fails, and is delivered again
	}
	switch record.Phase {
	case api.Moving, api.Reverting, api.Finishing:
		if in.Set.DeletionTimestamp != nil {
			return leaving(in, record), nil
		}
		return proceed(in, record)
	}
	return rest(in, record), nil
}

// proceed continues the operation of the record, if its journal agrees with the record.
func proceed(in Input, record *api.Resize) (plan.Plan, []*corev1.Pod) {
	if record.Phase == api.Moving && in.Journal(record.Operation) == nil && record.Set.UID != "" && len(record.Members) > 0 {
		return plan.Noop(api.NotOurPhase), nil // backup writes it first
	}
	if problem := disowned(in, record); problem != "" {
		return distrust(in, record, problem), nil
	}
	in = confine(in, record.Operation)
	if record.Set.UID == "" {
		return recordIdentity(in, record), nil
	}
	switch record.Phase {
	case api.Reverting:
		return reverting(in, record), nil
	case api.Finishing:
		return finishing(in, record), nil
	}
	return moving(in, record)
}

// letAllGo removes Drydock's finalizers, which would keep the namespace from being deleted: the namespace controller deletes the pods
// first, and waits until they are gone (kubernetes pkg/controller/namespace/deletion). No pod starts on an empty volume, since nothing can
// be created in such a namespace. The volumes stay; retire finds them by their links.
func letAllGo(in Input) plan.Plan {
	var actions []plan.Action
	for _, pod := range in.Pods {
		if statefulset.Held(pod) {
			actions = append(actions, release(pod)...)
		}
	}
	for _, claim := range in.Claims {
		if claim.DeletionTimestamp != nil {
			actions = append(actions, plan.PatchOf(plan.Claims, claim).RemoveFinalizer(api.SwitchFinalizer).Actions()...)
		}
	}
	if len(actions) == 0 {
		return plan.Noop(api.NamespaceLeaves)
	}
	return plan.Do(api.NamespaceLeaves, actions...)
}

// rest handles a set without a running operation: it releases pods and volumes that earlier operations have left.
func rest(in Input, record *api.Resize) plan.Plan {
	releases, tells := staleHolds(in, record)
	if len(releases) > 0 {
		return plan.Do(api.CleaningUp, in.ifSetUnchanged(releases)...)
	}
	p := retire(in, record)
	if p.Kind != plan.KindDo && len(tells) > 0 {
		return plan.Do(api.CleaningUp, tells...)
	}
	return p
}

// staleHolds returns the release of each pod that no member of an active operation holds: its operation ended before it was released, or it
// is a lock that is not needed any more. Without the release, such a pod would stay Terminating for ever. A pod with a missing claim stays
// held, and the user is told.
func staleHolds(in Input, record *api.Resize) (releases, tells []plan.Action) {
	for _, pod := range in.Pods {
		link, err := api.LoadLink(pod)
		if !keeps(pod) || err != nil || link == nil || link.Role != api.RoleHeld || link.Member == nil {
			continue
		}
		active := record.Active() && record.Operation == link.Operation
		if active && holdsNow(record.Member(*link.Member), pod) || !active && in.Journal(link.Operation) != nil {
			continue
		}
		if active && awaitsClaim(in, record.Member(*link.Member), pod) {
			continue
		}
		if lost := in.MissingClaim(*link.Member); lost != "" {
			tells = append(tells, tell(in, api.ClaimLost, fmt.Sprintf("pod %s is still held by operation %s, which has ended: claim %s is not "+
				"there, and without it the pod would start on an empty volume. Bind the claim to its volume, see kubectl get pv -l "+
				"%s=%s", pod.Name, link.Operation, lost,
				api.NamespaceLabel, in.Namespace)))
			continue
		}
		if !in.dying(pod) {
			releases = append(releases, release(pod)...)
		}
	}
	return releases, tells
}

// ifSetUnchanged puts a check of the set before writes that follow from its record and do not write to it. Objects are read after the set, so a
// change of them, such as a new hold, may be of another process that has stored a newer record.
func (in Input) ifSetUnchanged(actions []plan.Action) []plan.Action {
	if in.Set == nil {
		return actions
	}
	return append([]plan.Action{plan.Unchanged(plan.StatefulSets, in.Set)}, actions...)
}

// awaitsClaim reports whether the pod locks the name of a member that starts until its claim is there again, see keptByPin.
func awaitsClaim(in Input, member *api.Member, pod *corev1.Pod) bool {
	return member != nil && member.Phase == api.MemberStarting && resources.LocksName(pod) && in.MissingClaim(member.Ordinal) != ""
}

// holdsNow reports whether the member is stopped, and this pod keeps it stopped. During the swap, a lock may have replaced a pod whose hold
// was lost, see guard.
func holdsNow(member *api.Member, pod *corev1.Pod) bool {
	if member == nil {
		return false
	}
	switch member.Phase {
	case api.MemberStopping, api.MemberFinalPass, api.MemberGrowing, api.MemberSwapping, api.MemberStarting:
		return member.Pod == pod.UID || member.Locked || member.Phase == api.MemberSwapping && resources.LocksName(pod)
	}
	return false
}

// heldPod returns the pod of the member that is held since the record says so; nil if there is none any more.
func (in Input) heldPod(member *api.Member) *corev1.Pod {
	pod := in.MemberPod(member.Ordinal)
	if pod == nil || pod.UID != member.Pod || !statefulset.Held(pod) {
		return nil
	}
	return pod
}
