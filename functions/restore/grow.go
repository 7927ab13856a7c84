package restore

import (
	"fmt"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/sts"
)

// growing has the claims of a stopped member ask for more as soon as their volumes are detached, and releases the member when all volumes
// have grown. Their file systems grow when the pod mounts them. Until then, the member can be given back at any time.
func (w *work) growing(member *api.Member) {
	switch {
	case w.heldPod(member) == nil:
		w.lost(member, fmt.Sprintf("pod %s-%d was not held any more while its volumes were to grow", w.Name, member.Ordinal))
		return
	case w.interrupted(member):
		return
	case w.Rejected != "":
		w.given = revert(w.Input, w.before, api.Rejected, fmt.Sprintf("the API server refuses that the claims of pod %s-%d ask for more: %s. "+
			"Mend that, then %s", w.Name, member.Ordinal, w.Rejected, operation.AskAgain(w.before)))
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

// grow takes the next step with one claim of a stopped member, and says what is waited for; empty if its volume has grown.
func (w *work) grow(member *api.Member, move *api.Move) string {
	claim := w.Claim(move.Claim) // it is there: hopeless has looked
	ask := operation.AskFor(claim, move.To)
	move.Moved = move.Moved || w.grown(move)
	switch {
	case move.Moved:
		return ""
	case ask.Empty() && sts.Infeasible(claim, move.To):
		w.given = revert(w.Input, w.before, api.ExpandInfeasible, operation.CannotGrow(claim, move.To))
	case w.Attached(move.OldVolume):
		return fmt.Sprintf("volume %s is still attached to a node", move.OldVolume)
	case !member.Locked && !sts.Unmounted(w.MemberPod(member.Ordinal)):
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
	return has.Cmp(move.To) >= 0 || operation.AskFor(claim, move.To).Empty() && sts.FileSystemPending(claim, move.To) != nil
}

// stillGrows says which claim's file system has not grown although its pod runs; empty if all have.
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

// askNoMore has the claims of a member that was given up ask for what their volumes have. If the API server refuses that, the storage goes
// on trying, and the set runs.
func (w *work) askNoMore(member *api.Member) {
	for i := range member.Claims {
		move := &member.Claims[i]
		claim := w.Claim(move.Claim)
		if move.InPlace && claim != nil && claim.UID == move.UID && w.Rejected == "" && w.record.Reason != api.DeadlineExceeded {
			w.do(api.RollingBackNow, operation.AskNoMore(claim, move.From, move.To).Actions()...)
		}
	}
}

// endOf is the phase in which a member that was given up ends: one whose volumes have all grown is done.
func (w *work) endOf(member *api.Member, phase api.MemberPhase) api.MemberPhase {
	for i := range member.Claims {
		if move := &member.Claims[i]; !move.InPlace || !w.grown(move) {
			return phase
		}
	}
	return api.MemberMoved
}

// readyToStop says what was done before members may stop.
func readyToStop(record *api.Resize) string {
	if record.GrowsHeld() {
		return "the claims can grow when their pods are stopped"
	}
	return "the copies have converged"
}

// prepared is what is done with a member before it stops.
func prepared(record *api.Resize) string {
	if record.GrowsHeld() {
		return "prepared"
	}
	return "copied"
}

// formerly tells the volumes of a member that is given back from those that it was to get.
func formerly(record *api.Resize) string {
	if record.GrowsHeld() {
		return "own"
	}
	return "old"
}

// finished says that every member is done.
func finished(record *api.Resize) string {
	switch {
	case record.GrowsHeld():
		return "the volumes of every member have grown"
	case len(record.Members) == 0:
		return "the set is created again, and its pods run on"
	}
	return "every member runs on its new volumes"
}
