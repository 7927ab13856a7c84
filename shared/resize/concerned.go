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

// ActiveFunctions returns the functions that have to act on an active operation. In the phase Moving, the phases of the members decide.
func ActiveFunctions(record *api.Resize) []api.Function {
	switch record.Phase {
	case api.Expanding:
		return []api.Function{api.DetectResize}
	case api.Planned:
		return []api.Function{api.PauseOwner}
	case api.Moving:
		return functionsOfMembers(record)
	}
	return []api.Function{api.Restore}
}

func functionsOfMembers(record *api.Resize) []api.Function {
	var turn []api.Function
	if anyMemberIn(record, api.MemberPending, api.MemberCopying, api.MemberWaiting, api.MemberFinalPass) {
		turn = append(turn, api.Backup) // it also keeps the mover of a waiting member alive
	}
	if anyMemberIn(record, api.MemberWaiting, api.MemberStopping, api.MemberFinalPass, api.MemberGrowing,
		api.MemberSwapping, api.MemberStarting) || len(turn) == 0 ||
		record.Set.UID == "" {
		turn = append(turn, api.Restore)
	}
	if record.TurnReturned {
		turn = append(turn, api.PauseOwner)
	}
	return turn
}

// anyMemberIn reports whether a member is in one of the phases.
func anyMemberIn(record *api.Resize, phases ...api.MemberPhase) bool {
	return slices.ContainsFunc(record.Members, func(m api.Member) bool { return slices.Contains(phases, m.Phase) })
}

// Concerned returns the functions that have to act on a change of the set because of a resize or a rollback.
func Concerned(c operation.Change) []api.Function {
	record := c.Records.Resize
	switch {
	case c.Records.ResizeErr != nil:
		return functions{api.DetectResize} // it reports the unreadable record on the set
	case !record.Active():
		return concernedByRequest(c, record)
	}
	turn := ActiveFunctions(record)
	if (c.Gone || c.Set.DeletionTimestamp != nil || operation.Aborted(c.Set)) && !slices.Contains(turn, api.Restore) {
		turn = append(turn, api.Restore) // it releases the held pods, or ends the operation
	}
	if c.Swept && record.Phase == api.Moving && !slices.Contains(turn, api.Backup) {
		turn = append(turn, api.Backup) // it also keeps the movers of members alive that stop or are swapped
	}
	switch {
	case c.Added || c.Gone || c.Swept || operation.Aborted(c.Set), c.Set.Annotations[api.ApproveAnnotation] == record.Operation:
		return turn
	case record.Phase == api.Expanding:
		return nil // the operation waits for the claims
	case operation.JustGivenBack(c.Set, record):
		return append(turn, api.PauseOwner)
	}
	return turn
}

// WaitsForTurn reports whether the set's resize only waits for its turn. The list of turns says when that is. A record with another id was
// written by a user, and may name an operation of another set.
func WaitsForTurn(c operation.Change) bool {
	record := c.Records.Resize
	return c.Records.ResizeErr == nil && record.WaitsForTurn() && record.Phase == api.Planned &&
		c.Set.DeletionTimestamp == nil && !operation.Aborted(c.Set) && record.HasIDOf(c.Set.UID)
}

// concernedByRequest judges a set without an active resize. The set alone does not show whether claims lag behind unchanged templates. So
// detect-resize judges each added set, and the sweep compares the claims of the others: see ClaimsMayLag.
func concernedByRequest(c operation.Change, record *api.Resize) []api.Function {
	set := c.Set
	text, requested := api.RequestOf(set)
	detect := functions{api.DetectResize}
	growTo := world.GrowTo(set, record, false)
	switch {
	case c.Gone || !statefulset.Managed(set) || set.DeletionTimestamp != nil || c.Records.Busy(api.KindResize):
		return nil
	case c.Records.ResizeRetried(set) && (api.WantsSizes(set) || !c.Records.SleepRests()),
		operation.RetryNamesNothing(set), RollbackNamesNoSet(set), RequestedRollback(set, record) != "":
		return detect
	case !requested && growTo == "":
		return nil
	case IsRefusalOf(record, set):
		if operation.RefusalOutdated(set, &record.Header) || RefusalDue(c, record) {
			return detect
		}
		return nil
	case requested && world.Answered(record, text):
		return nil
	}
	request, err := api.ParseRequest(text)
	if requested && err != nil || c.Added {
		return detect
	}
	for template, target := range world.EffectiveTargets(set, record) {
		if statefulset.Template(set, template) == nil || statefulset.TemplateNeedsChange(set, template, target) {
			return detect
		}
	}
	if lacksFields(set, request.Fields) {
		return detect
	}
	return nil
}

// ClaimsMayLag reports whether the set has a request or a floor, and only a comparison with its claims can show whether that is met.
func ClaimsMayLag(c operation.Change) bool {
	text, requested := api.RequestOf(c.Set)
	record := c.Records.Resize
	return (requested || world.GrowTo(c.Set, record, false) != "") && c.Records.ResizeErr == nil && !record.Active() &&
		!c.Records.Sleeping() && !(requested && world.Answered(record, text)) && !IsRefusalOf(record, c.Set)
}

// ConcernedByClaim returns the functions that have to act on a change of an operation's claim. A swap waits until old claims are gone and
// new claims are bound. A member that is stopped for growth waits until its claims have grown.
func ConcernedByClaim(claim *corev1.PersistentVolumeClaim, gone bool) []api.Function {
	link, err := api.LoadLink(claim)
	if err != nil || link == nil {
		return nil
	}
	bound := link.Role == api.RoleNewClaim && claim.Status.Phase == corev1.ClaimBound
	grew := link.Role == api.RoleSource && grewWhileStopped(claim)
	if gone || bound || grew || claim.DeletionTimestamp != nil && link.Role != api.RoleTarget {
		return []api.Function{api.Restore}
	}
	return nil
}

// grewWhileStopped reports whether the storage has handled the growth of a claim that no pod uses: the volume has grown, or cannot grow.
func grewWhileStopped(claim *corev1.PersistentVolumeClaim) bool {
	requested := statefulset.Requested(claim)
	return statefulset.FileSystemPending(claim, requested) != nil || statefulset.IsBlock(claim) && !statefulset.Growing(claim) ||
		statefulset.Infeasible(claim, requested)
}

// ConcernedByJob returns the functions that have to act on a change of a mover or a hook. backup waits until movers end. restore waits
// until hooks end, and until any Job is gone.
func ConcernedByJob(job *batchv1.Job, gone bool) []api.Function {
	if gone {
		return []api.Function{api.Restore}
	}
	if statefulset.JobEnd(job).Type == "" || job.DeletionTimestamp != nil {
		return nil
	}
	if link, err := api.LoadLink(job); err == nil && link != nil && link.Role == api.RoleHook {
		return []api.Function{api.Restore}
	}
	return []api.Function{api.Backup}
}

// ConcernedByPod returns the functions that have to act on a change of a mover's pod or a held pod. backup acts on a mover that waits or
// has made its copy, although such a pod is Pending. backup also acts on a mover's pod that has ended, because the Job's condition
// follows a second later. Once the Job controller has removed its finalizer from the pod, the end is no longer news.
func ConcernedByPod(pod *corev1.Pod, gone bool) []api.Function {
	link, err := api.LoadLink(pod)
	switch {
	case err != nil || link == nil:
		return nil
	case gone && link.Role == api.RoleMover: // restore waits until it is gone, or backup replaces it
		return []api.Function{api.Restore, api.Backup}
	case gone, link.Role == api.RoleHeld:
		return []api.Function{api.Restore}
	case link.Role == api.RoleMover && pod.DeletionTimestamp == nil && slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer) &&
		(statefulset.Started(pod) || succeeded(pod, moverreport.FirstContainer)):
		return []api.Function{api.Backup}
	}
	return nil
}
