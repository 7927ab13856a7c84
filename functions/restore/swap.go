package restore

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
)

// swap puts another volume behind the name of one claim, while the pod that uses the claim is held. Every step is recognised from the
// live objects alone:
//
//  1. the temporary claim goes, so that the new volume gets free; both volumes are kept whatever happens to claims. A mover that has made
//     its copy stays, and keeps both volumes attached (pin.go); any other one goes first;
//  2. the new volume is reserved for the name, by a claimRef without UID, together with the manifest of the claim to come;
//  3. the old claim gets Drydock's finalizer and is deleted. The scheduler places no pod on a claim that is being deleted (kubernetes
//     pkg/scheduler/framework/plugins/volumebinding) and the kubelet starts none (pkg/kubelet/volumemanager/populator), so nothing can
//     write to the old volume any more. If the same pod is held still, nothing has since the final pass;
//  4. the protection of the claim and our finalizer are taken off, and with them the claim goes. Kubernetes keeps the protection as long
//     as a scheduled pod names the claim, running or ended (pkg/controller/volume/pvcprotection);
//  5. the claim is created from the manifest, and is bound to the reserved volume.
//
// Where the pod is not held any more at step 3, the copy may be stale: then the old volume is reserved instead, and the claim goes back.
// The reservation of the new volume is withdrawn first, so a claim that is gone belongs to the volume that is reserved for it.
type swap struct {
	Input
	record *api.Resize
	member *api.Member
	move   *api.Move
	// held: the member's pod has stopped, and is held since before the copy was verified.
	held bool
	// whole: the new volume has all data, or, in a rollback, is the old volume.
	whole bool
	// returns: an old volume comes back, so whatever is written to the present one is given up anyway.
	returns bool
	// ends: the operation is given up, so nothing is begun.
	ends bool
	// half: a rollback has begun to replace claims that must come back together. ownHalf: one of them is this member's. See halfBack.
	half, ownHalf bool

	claim    *corev1.PersistentVolumeClaim // nil: there is none of the name
	old, new *corev1.PersistentVolume
}

// step is the next step of a piece of work, or where it has come to rest.
type step struct {
	actions []plan.Action
	waiting string // the event that has to happen first
	// on is the volume of the claim when nothing is left to do.
	on *corev1.PersistentVolume
}

func act(actions []plan.Action) step { return step{actions: actions} }

func wait(format string, args ...any) step { return step{waiting: fmt.Sprintf(format, args...)} }

// swapOf looks at one claim of a member.
func swapOf(in Input, record *api.Resize, member *api.Member, move *api.Move) swap {
	s := swap{Input: in, record: record, member: member, move: move, claim: in.Claim(move.Claim), old: in.Volume(move.OldVolume),
		new: in.Volume(move.NewVolume)}
	s.held, s.returns = member.Stopped != nil && in.heldPod(member) != nil && in.intruder(record, member.Pod, move) == nil, record.IsRollback()
	s.whole = s.new != nil && s.new.DeletionTimestamp == nil &&
		(s.returns && comesBack(s.new, record.Operation) || move.Digest != "" && isMade(s.new, record.Operation, move.Claim) ||
			reserved(s.new) == move.Claim)
	if s.returns {
		s.half, s.ownHalf = in.halfBack(record, member)
		s.whole = s.whole && in.allComeBack(record, member)
	}
	return s
}

// intruder returns a pod that uses the claim of a member, other than the member's own and its movers; nil if there is none. A pod that has
// ended counts, too: it may have written to the volume after the copy.
func (in Input) intruder(record *api.Resize, own types.UID, move *api.Move) *corev1.Pod {
	for _, pod := range in.Pods {
		if statefulset.Mounts(pod, move.Claim) && pod.UID != own && pod.Spec.NodeName != "" && !statefulset.IsMoverOf(pod, record.Operation) {
			return pod
		}
	}
	return nil
}

// next returns the next step.
func (s swap) next() step {
	switch {
	case s.claim == nil:
		return s.create()
	case s.claim.DeletionTimestamp != nil:
		return s.replace()
	case s.misplaced():
		if held := statefulset.HeldByOthers("claim", s.claim); held != "" {
			return wait("%s", held)
		}
		return act([]plan.Action{plan.Delete(plan.Claims, s.claim)})
	case s.new != nil && s.claim.Spec.VolumeName == s.new.Name:
		return settle(s.Input, s.claim, s.new)
	case s.claim.Spec.VolumeName == s.move.OldVolume:
		return s.begin()
	case s.claim.Spec.VolumeName == "":
		return unbound(s.claim, s.reserved())
	}
	if s.ends && !statefulset.Held(s.MemberPod(s.member.Ordinal)) { // the operation is given up, so its volumes wait for no claim any more
		if back := append(s.unreserve(s.new), s.unreserve(s.old)...); len(back) > 0 {
			return act(s.ifClaimUnchanged(back))
		}
	}
	return wait("claim %s is bound to volume %s instead of its old volume %s or its new one %s; delete the claim if volume %[2]s is empty",
		s.claim.Name, s.claim.Spec.VolumeName, s.move.OldVolume, s.move.NewVolume)
}

// misplaced reports whether the claim asks for the new volume, was never bound to it, and the old volume is reserved for its name. A process that
// stood still between its look and its writes has created it, after the hold was lost. Kubernetes does not bind it, so nothing is in it.
func (s swap) misplaced() bool {
	return s.claim != nil && s.claim.Status.Phase == corev1.ClaimPending && s.new != nil && s.claim.Spec.VolumeName == s.new.Name &&
		reserved(s.new) == "" && s.old != nil && reserved(s.old) == s.move.Claim
}

// begin reserves the new volume and deletes the claim that is on its old volume. If the claim does not get another volume, begin withdraws
// the reservation.
func (s swap) begin() step {
	if (s.ends || !s.held || !s.whole) && !s.goesAlong() {
		return s.stay()
	}
	if held := statefulset.HeldByOthers("claim", s.claim); held != "" {
		return wait("%s", held) // a deletion cannot be taken back
	}
	free, done := s.free()
	if !done {
		return free
	}
	var actions []plan.Action
	if s.reserved() != s.new {
		reserve := s.reserve(s.new, s.move.Target())
		if reserve.waiting != "" {
			return reserve
		}
		actions = reserve.actions
	}
	actions = append(actions, free.actions...) // after it: a volume that loses its claim is written to at once by the volume controller
	actions = append(actions, plan.PatchOf(plan.Claims, s.claim).AddFinalizer(api.SwitchFinalizer).Actions()...)
	return act(append(actions, plan.Delete(plan.Claims, s.claim))) // in this state, with no other finalizer
}

// stay leaves the claim on its old volume.
func (s swap) stay() step {
	if back := s.withdraw(); len(back) > 0 {
		return act(back)
	}
	if s.old == nil {
		return wait("volume %s of claim %s does not exist any more", s.move.OldVolume, s.claim.Name)
	}
	return settle(s.Input, s.claim, s.old)
}

// free keeps both volumes, and takes the new one from the mover and its temporary claim. It reports whether the step frees the volume, or
// nothing is left to do for that.
func (s swap) free() (next step, done bool) {
	link := api.Link{Operation: s.record.Operation, Role: api.RoleTarget, Namespace: s.Namespace, Set: s.record.Set, Claim: s.move.Claim}
	source := link
	source.Role = api.RoleSource
	actions := world.HoldVolume(s.new, ownLink(s.new, link)).Actions()
	if s.old != nil { // else the copy is all that there is
		actions = append(actions, world.HoldVolume(s.old, ownLink(s.old, source)).Actions()...)
	}
	actions = append(actions, s.endMovers()...)
	target := s.TargetClaim(s.record.Operation, s.move)
	if target != nil && target.DeletionTimestamp == nil {
		actions = append(actions, plan.Delete(plan.Claims, target))
	}
	switch {
	case len(actions) > 0:
		return act(actions), false
	case target == nil:
		return step{}, true
	case s.onlyPinned(target):
		return act(plan.PatchOf(plan.Claims, target).RemoveFinalizer(claimProtection).Actions()), true
	}
	return wait("temporary claim %s is held by %s", target.Name, holderOf(s.Input, target)), false
}

// endMovers deletes the member's Jobs, whose pods use the claim, unless these only keep the volumes attached.
func (s swap) endMovers() []plan.Action {
	if s.pinned() {
		return nil
	}
	return endMovers(s.Input, s.record, s.member)
}
