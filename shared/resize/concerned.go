package resize

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
)

type functions = []api.Function

// Turn returns the functions whose turn it is in an active operation: in Moving, those whose a member's phase is.
func Turn(record *api.Resize) []api.Function {
	switch record.Phase {
	case api.Expanding:
		return []api.Function{api.DetectResize}
	case api.Planned:
		return []api.Function{api.PauseOwner}
	case api.Moving:
		return turnOfMembers(record)
	}
	return []api.Function{api.Restore}
}

func turnOfMembers(record *api.Resize) []api.Function {
	var turn []api.Function
	if phases(record, api.MemberPending, api.MemberCopying, api.MemberWaiting, api.MemberFinalPass) {
		turn = append(turn, api.Backup) // of a member that waits, it keeps the mover alive
	}
	if phases(record, api.MemberWaiting, api.MemberStopping, api.MemberFinalPass, api.MemberGrowing,
		api.MemberSwapping, api.MemberStarting) || len(turn) == 0 ||
		record.Set.UID == "" {
		turn = append(turn, api.Restore)
	}
	return turn
}

// phases reports whether a member is in one of the phases.
func phases(record *api.Resize, any ...api.MemberPhase) bool {
	return slices.ContainsFunc(record.Members, func(m api.Member) bool { return slices.Contains(any, m.Phase) })
}

// Concerned returns the functions that a change of the set concerns as far as its volumes go.
func Concerned(c operation.Change) []api.Function {
	record := c.Records.Resize
	switch {
	case c.Records.ResizeErr != nil:
		return functions{api.DetectResize} // which says so on the set
	case !record.Active():
		return concernedByRequest(c, record)
	}
	turn := Turn(record)
	if (c.Set.DeletionTimestamp != nil || operation.Aborted(c.Set)) && !slices.Contains(turn, api.Restore) {
		turn = append(turn, api.Restore) // it releases the held pods
	}
	if c.Swept && record.Phase == api.Moving && !slices.Contains(turn, api.Backup) {
		turn = append(turn, api.Backup) // which finds that the journal is gone, or that the time is over, in any phase of a member
	}
	switch {
	case c.Added || c.Gone || c.Swept || operation.Aborted(c.Set), c.Set.Annotations[api.ApproveAnnotation] == record.Operation:
		return turn
	case record.Phase == api.Expanding:
		return nil // it waits for the claims
	case operation.JustGivenBack(c.Set, record):
		return append(turn, api.PauseOwner)
	}
	return turn
}

// concernedByRequest judges a set without an active resize. Whether claims lag behind unchanged templates cannot be seen in the set: a set
// that is added is looked at, and for the others the sweep compares the claims, see MayLag.
func concernedByRequest(c operation.Change, record *api.Resize) []api.Function {
	set := c.Set
	text, asked := set.Annotations[api.ResizeAnnotation]
	detect := functions{api.DetectResize}
	switch {
	case c.Gone || !statefulset.Managed(set) || set.DeletionTimestamp != nil || c.Records.Busy(api.KindResize):
		return nil
	case c.Records.Retried(set) && asked, set.Annotations[api.RollbackAnnotation] != "":
		return detect
	case asked && Refuses(record, text) && (Outdated(set, record) || c.Swept && DueAgain(record, c.Now)):
		return detect
	case !asked || world.Answered(record, text):
		return nil
	}
	request, err := api.ParseRequest(text)
	if err != nil || c.Added {
		return detect
	}
	for template, target := range request.Targets {
		if statefulset.Template(set, template) == nil || statefulset.Differs(set, template, target) {
			return detect
		}
	}
	if unsettled(set, request.Fields) {
		return detect
	}
	return nil
}

// MayLag reports whether the set asks for a resize that only a comparison of its claims can find unmet.
func MayLag(c operation.Change) bool {
	text, asked := c.Set.Annotations[api.ResizeAnnotation]
	record := c.Records.Resize
	return asked && c.Records.ResizeErr == nil && !record.Active() && !c.Records.Sleeping() && !world.Answered(record, text)
}

// ConcernedByClaim returns the functions that a change of an operation's claim concerns: the swap waits until old claims are gone and new
// ones are bound, and a member that is stopped for it, until its claims have grown.
func ConcernedByClaim(claim *corev1.PersistentVolumeClaim, gone bool) []api.Function {
	link, err := api.LoadLink(claim)
	if err != nil || link == nil {
		return nil
	}
	bound := link.Role == api.RoleSuccessor && claim.Status.Phase == corev1.ClaimBound
	if gone || bound || link.Role == api.RoleSource && grownWhileHeld(claim) || claim.DeletionTimestamp != nil && link.Role != api.RoleTarget {
		return []api.Function{api.Restore}
	}
	return nil
}

// grownWhileHeld reports whether the storage has answered a claim that no pod uses: its volume has grown, or cannot.
func grownWhileHeld(claim *corev1.PersistentVolumeClaim) bool {
	asks := statefulset.Requested(claim)
	return statefulset.FileSystemPending(claim, asks) != nil || statefulset.IsBlock(claim) && !statefulset.Growing(claim) || statefulset.Infeasible(claim, asks)
}

// ConcernedByJob returns the functions that a change of a mover or a hook concerns: backup waits for movers to end, restore for hooks to
// end and for any Job to be gone.
func ConcernedByJob(job *batchv1.Job, gone bool) []api.Function {
	if gone {
		return []api.Function{api.Restore}
	}
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue && job.DeletionTimestamp == nil {
			if link, err := api.LoadLink(job); err == nil && link != nil && link.Role == api.RoleHook {
				return []api.Function{api.Restore}
			}
			return []api.Function{api.Backup}
		}
	}
	return nil
}

// ConcernedByPod is about movers' pods and pods that are held. A mover that waits, or has made its copy, is backup's: such a pod is
// Pending. So is one that has ended: its Job's end comes a second later, and as long as the pod has the Job controller's finalizer it is
// news.
func ConcernedByPod(pod *corev1.Pod, gone bool) []api.Function {
	link, err := api.LoadLink(pod)
	switch {
	case err != nil || link == nil:
		return nil
	case gone && link.Role == api.RoleMover: // it was in restore's way, or backup makes another one
		return []api.Function{api.Restore, api.Backup}
	case gone, link.Role == api.RoleHeld:
		return []api.Function{api.Restore}
	case link.Role == api.RoleMover && pod.DeletionTimestamp == nil && slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer) &&
		(statefulset.Started(pod) || endedWell(pod, moverreport.FirstContainer)):
		return []api.Function{api.Backup}
	}
	return nil
}
