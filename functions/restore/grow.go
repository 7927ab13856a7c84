package restore

import (
	"fmt"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/statefulset"
)

// growing expands the volumes of a stopped member: its claims ask for the new size as soon as the volumes are detached. It releases the member
// when all volumes have grown; their file systems grow when the pod mounts them. The member can be given back at any time.
func (w *work) growing(member *api.Member) {
	switch {
	case w.heldPod(member) == nil:
		w.lost(member, fmt.Sprintf("the hold of pod %s-%d was removed before its volumes had grown", w.Name, member.Ordinal))
		return
	case w.interrupted(member):
		return
	case w.Rejected != "":
		w.given = revert(w.Input, w.before, api.Rejected, fmt.Sprintf("the API server refuses the new sizes of the claims of pod %s-%d: %s. "+
			"Remove the cause, then %s", w.Name, member.Ordinal, w.Rejected, operation.AskAgain(w.before)))
		return
	}
	waits := ""
	for i := range member.Claims {
		if why := w.grow(member, &member.Claims[i]); why != "" {
			waits = why
		}
	}
	switch {
	case w.given.Kind != "":
	case waits == "":
		w.start(member)
	case w.tooLong(member):
		w.given = revert(w.Input, w.before, api.DeadlineExceeded, fmt.Sprintf("the volumes of pod %s-%d did not grow within %s while it was "+
			"stopped: %s. Look at kubectl describe pvc, then %s", w.Name, member.Ordinal, w.Settings.SwitchTimeout, waits,
			operation.AskAgain(w.before)))
	default:
		w.waitFor(true, "%s", waits)
	}
}

// grow takes the next step with one claim of a stopped member. It returns what the claim waits for; "" if its volume has grown.
func (w *work) grow(member *api.Member, move *api.Move) string {
	claim := w.Claim(move.Claim) // it is there: hopeless has looked
	ask := operation.AskFor(claim, move.To)
	move.Moved = move.Moved || w.grown(move)
	switch {
	case move.Moved:
		return ""
	case ask.Empty() && statefulset.Infeasible(claim, move.To):
		w.given = revert(w.Input, w.before, api.ExpandInfeasible, operation.CannotGrow(claim, move.To))
	case w.Attached(move.OldVolume):
		return fmt.Sprintf("volume %s is still attached to a node", move.OldVolume)
	case !member.Locked && !statefulset.Unmounted(w.MemberPod(member.Ordinal)):
		return fmt.Sprintf("volume %s is not unmounted yet", move.OldVolume)
	}
	w.do(api.ExpansionRunning, ask.Actions()...)
	return fmt.Sprintf("claim %s is growing", move.Claim)
}

// grown reports whether the claim's volume has its new size. The file system on it grows when it is mounted.
func (in Input) grown(move *api.Move) bool {
	claim := in.Claim(move.Claim)
	if claim == nil {
		return false
	}
	has := claim.Status.Capacity["storage"]
	return has.Cmp(move.To) >= 0 || operation.AskFor(claim, move.To).Empty() && statefulset.FileSystemPending(claim, move.To) != nil
}

// stillGrows returns which claim's file system has not grown although its pod runs; "" if all have.
func (w *work) stillGrows(member *api.Member) string {
	for _, move := range member.Claims {
		claim := w.Claim(move.Claim)
		if claim == nil || !move.InPlace {
			continue
		}
		if has := claim.Status.Capacity["storage"]; has.Cmp(move.To) < 0 {
			return fmt.Sprintf("the file system of claim %s grows", move.Claim)
		}
	}
	return ""
}

// askNoMore lowers what the claims of a member that was given up ask for to the sizes of their volumes. If the API server refuses that, the
// storage continues to try, and the set runs.
func (w *work) askNoMore(member *api.Member) {
	for i := range member.Claims {
		move := &member.Claims[i]
		claim := w.Claim(move.Claim)
		if move.InPlace && claim != nil && claim.UID == move.UID && w.Rejected == "" && w.record.Reason != api.DeadlineExceeded {
			w.do(api.RollingBackNow, operation.AskNoMore(claim, move.From, move.To).Actions()...)
		}
	}
}

// finalPhase returns Moved for a member that was given up after all its volumes had grown, else the phase.
func (w *work) finalPhase(member *api.Member, phase api.MemberPhase) api.MemberPhase {
	for i := range member.Claims {
		if move := &member.Claims[i]; !move.InPlace || !w.grown(move) {
			return phase
		}
	}
	return api.MemberMoved
}

// readyToStop returns why members may stop, for the message.
func readyToStop(record *api.Resize) string {
	if record.GrowsHeld() {
		return "the claims can grow when their pods are stopped"
	}
	return "the copies have converged"
}

// prepared returns what happens with a member before it stops, for the message.
func prepared(record *api.Resize) string {
	if record.GrowsHeld() {
		return "prepared"
	}
	return "copied"
}

// formerVolumes returns how a message calls the volumes of a member that is given back.
func formerVolumes(record *api.Resize) string {
	if record.GrowsHeld() {
		return "own"
	}
	return "old"
}

// finished returns the message after the last member.
func finished(record *api.Resize) string {
	switch {
	case record.GrowsHeld():
		return "the volumes of every member have grown"
	case len(record.Members) == 0:
		return "the set is created again, and its pods run on"
	}
	return "every member runs on its new volumes"
}
