package restore

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
)

// staleHoldReleases returns the release of each held pod that no member of an active operation needs. Either its operation ended before
// the release, or the pod is a lock that is no longer needed. Such a pod would stay Terminating for ever. A pod with a missing claim
// stays held, because without the claim it would start on an empty volume; the user gets a warning.
func staleHoldReleases(in Input, record *api.Resize) (releases, warnings []plan.Action) {
	for _, pod := range in.Pods {
		link, err := api.LoadLink(pod)
		if !blocksStart(pod) || err != nil || link == nil || link.Role != api.RoleHeld || link.Member == nil {
			continue
		}
		active := record.Active() && record.Operation == link.Operation
		if active && holdsMember(record.Member(*link.Member), pod) || !active && in.Journal(link.Operation) != nil {
			continue
		}
		if active && locksForMissingClaim(in, record.Member(*link.Member), pod) {
			continue
		}
		if missing := in.MissingClaim(*link.Member); missing != "" {
			message := fmt.Sprintf("pod %s is still held by operation %s, which has ended: claim %s is missing, and without it the pod "+
				"would "+
				"start on an empty volume. Find its volume with kubectl get pv -l %s=%s, then create the claim on it",
				pod.Name, link.Operation, missing, api.NamespaceLabel, in.Namespace)
			warnings = append(warnings, warnOnSet(in, api.ClaimLost, message))
			continue
		}
		if !in.mustStayHeld(pod) {
			releases = append(releases, release(pod)...)
		}
	}
	return releases, warnings
}

// leftMovers returns the deletion of each mover's Job whose operation has ended. A slow process may have created it afterwards. Its pod
// would keep its claims from a later resize for ever. While an operation has a journal, the operation deletes its Jobs.
func leftMovers(in Input, record *api.Resize) []plan.Action {
	return deleteJobs(slices.DeleteFunc(slices.Clone(in.Jobs), func(job *batchv1.Job) bool {
		link, err := api.LoadLink(job)
		return err != nil || link == nil || !statefulset.IsOfMover(job, job.Name, link.Operation) || in.Journal(link.Operation) != nil ||
			record.Active() && record.Operation == link.Operation
	}))
}

// locksForMissingClaim reports whether the pod locks the name of a starting member while one of its claims is missing, see
// keptOnlyByPins.
func locksForMissingClaim(in Input, member *api.Member, pod *corev1.Pod) bool {
	return member != nil && member.Phase == api.MemberStarting && resources.IsLockPod(pod) && in.MissingClaim(member.Ordinal) != ""
}

// holdsMember reports whether the member is stopped and this pod keeps it stopped. During the swap, a lock may have replaced a pod that
// lost its hold, see lockName.
func holdsMember(member *api.Member, pod *corev1.Pod) bool {
	if member == nil {
		return false
	}
	switch member.Phase {
	case api.MemberStopping, api.MemberFinalPass, api.MemberGrowing, api.MemberSwapping, api.MemberStarting:
		return member.Pod == pod.UID || member.Locked || member.Phase == api.MemberSwapping && resources.IsLockPod(pod)
	}
	return false
}
