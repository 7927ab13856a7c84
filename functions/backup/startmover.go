package backup

import (
	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
)

// startMover creates the mover's Job, unless the limit of parallel copies is reached. It waits for earlier movers of the member to end: two
// movers must never write to one target.
func (w *work) startMover(member *api.Member, signal *moverreport.Signal) {
	w.deleteMovers(member, member.Attempt) // they belong to stops that were lost
	if earlier := w.earlierMover(member); earlier != "" {
		w.waitFor(true, "pod %s, an earlier mover of pod %s-%d, has not ended", earlier, w.Name, member.Ordinal)
		return
	}
	// A mover with the signal does not wait, because a member is down. If the set wants no member, none is missing, so the limit holds.
	if (signal == nil || !w.WantsAny(w.record)) && w.countCopies() >= resources.Parallelism(w.Set, w.Settings) {
		w.waitFor(false, "pod %s-%d waits until the mover of another member has converged", w.Name, member.Ordinal)
		return
	}
	if w.OptionsErr != nil {
		w.fail(api.MoverInvalid, "%v. Correct it", w.OptionsErr)
		return
	}
	mover, err := resize.MoverOf(w.Observed, w.record, member, resize.MoverSettings{Options: w.Options, Root: w.RootMovers,
		Settings: w.Settings})
	if err != nil {
		w.fail(api.RootMoverNeeded, "%v", err)
		return
	}
	mover.Signal, mover.Refill = signal, signal != nil && targetsHoldData(member)
	mover.WritableSources = mover.WritableSources && signal == nil // after the stop, no other pod mounts the volumes
	mover.SelectsNode = mover.Node == ""
	w.startedMovers++
	w.add(api.FirstPassRunning, plan.Create(plan.Jobs, resources.MakeMover(mover)))
}

// earlierMover returns the name of a mover's pod that still copies, or will copy, for the member. It is empty if there is none.
func (w *work) earlierMover(member *api.Member) string {
	pods, _ := w.MoversOfMember(w.record.Operation, member.Ordinal)
	for _, pod := range pods {
		if !statefulset.Done(pod) {
			return pod.Name
		}
	}
	return ""
}

// countCopies returns how many movers make first passes, or copy members of a set that wants none of them, including the movers that this
// plan creates.
func (w *work) countCopies() int {
	n := w.startedMovers
	for i := range w.record.Members {
		member := &w.record.Members[i]
		m := w.moverOf(member)
		if m.job == nil || m.ended() {
			continue
		}
		if member.Phase == api.MemberCopying && !m.waits() || member.Phase == api.MemberFinalPass && !w.WantsAny(w.record) {
			n++
		}
	}
	return n
}

// replaceMover deletes the member's mover so that a new one is created. If the old mover finished its copy, the new one gets new volumes:
// no mover writes to a volume that holds a finished copy.
func (w *work) replaceMover(member *api.Member, m mover) {
	w.deleteMovers(member, 0)
	if m.finished() {
		discardTargets(member)
	}
	member.Attempt++
	member.Pod, member.Node, member.CheckedAt = "", "", nil
	member.Phase = api.MemberCopying
	w.reason = api.FirstPassRunning
}

// deleteMovers deletes the member's Jobs, except the Job of the kept attempt. Attempts count from 1, so 0 keeps none.
func (w *work) deleteMovers(member *api.Member, kept int) {
	_, jobs := w.MoversOfMember(w.record.Operation, member.Ordinal)
	for _, job := range jobs {
		if job.DeletionTimestamp == nil && job.Name != api.MoverName(w.record.Operation, member.Ordinal, kept) {
			w.add(api.Preparing, plan.Delete(plan.Jobs, job))
		}
	}
}
