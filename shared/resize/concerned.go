package resize

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/sts"
)

type functions = []api.Function

// Concerned returns the functions that a change of the set concerns as far as its volumes go.
func Concerned(c operation.Change) []api.Function {
	status := c.Records.Resize
	switch {
	case c.Records.ResizeErr != nil:
		return functions{api.DetectResize} // which says so on the set
	case status.Active():
		return concernedWhileActive(c, status)
	}
	return append(concernedByFrozen(c, status), concernedByRequest(c, status)...)
}

// concernedWhileActive returns the function whose turn it is. In a phase that waits for something other than the set, the many status
// updates of a set that stops or starts concern no function.
func concernedWhileActive(c operation.Change, status *api.Resize) []api.Function {
	set, turn := c.Set, functions{operation.MovedBy(status)}
	if set.DeletionTimestamp != nil && turn[0] != api.Restore {
		turn = append(turn, api.Restore) // which says what keeps the set
	}
	if c.Added || c.Gone || c.Swept || operation.Aborted(set) {
		return turn
	}
	written := status.Generation != set.Generation
	switch status.Phase {
	case api.Expanding:
		return nil // it waits for the claims
	case api.Copying:
		if status.Generation == 0 && sts.Replicas(set) == 0 && !sts.AtZero(set) || status.Generation != 0 && !written {
			return nil // the set is still stopping, or the movers copy
		}
		if status.Stopping == nil && slices.ContainsFunc(status.Claims, func(p api.ClaimStatus) bool { return p.Phase == api.ClaimWarming }) {
			return nil // the movers copy
		}
	case api.Switching:
		if status.Set.UID != "" && !written {
			return nil // it waits for the claims
		}
	case api.Starting:
		switch {
		case operation.JustGivenBack(set, status):
			return functions{api.PauseOwner}
		case !sts.Ready(set):
			return nil
		}
	}
	return turn
}

// concernedByFrozen judges a set that is frozen though no operation holds it: its record was lost, or it was created from the manifest of
// a set that was held.
func concernedByFrozen(c operation.Change, status *api.Resize) []api.Function {
	optedOut := c.Gone && !sts.Managed(c.Set) // it has lost its label, and no other event comes
	if !sts.Frozen(c.Set) || !optedOut && (c.Gone || !sts.Managed(c.Set)) || c.Set.DeletionTimestamp != nil || status.Held() {
		return nil
	}
	return functions{api.Restore}
}

// concernedByRequest judges a set without an active resize. Whether claims lag behind unchanged templates cannot be seen in the set: a set
// that is added is looked at, and for the others the sweep compares the claims, see MayLag.
func concernedByRequest(c operation.Change, status *api.Resize) []api.Function {
	set := c.Set
	text, asked := set.Annotations[api.ResizeAnnotation]
	retry := c.Records.Retried(set)
	detect := functions{api.DetectResize}
	switch {
	case c.Gone || !sts.Managed(set) || set.DeletionTimestamp != nil || c.Records.Busy(api.KindResize):
		return nil
	case retry && (asked || status.Held()):
		return detect
	case set.Annotations[api.RollbackAnnotation] != "":
		return detect
	case status.Held():
		return nil
	case asked && Refuses(status, text) && (Outdated(set, status) || c.Swept && DueAgain(status, c.Now)):
		return detect
	case !asked || sts.Answered(status, text):
		return nil
	}
	request, err := api.ParseRequest(text)
	if err != nil || c.Added {
		return detect
	}
	for template, target := range request.Targets {
		if sts.Template(set, template) == nil || sts.Differs(set, template, target) {
			return detect
		}
	}
	return nil
}

// MayLag reports whether the set asks for a resize that only a comparison of its claims can find unmet.
func MayLag(c operation.Change) bool {
	text, asked := c.Set.Annotations[api.ResizeAnnotation]
	status := c.Records.Resize
	return asked && c.Records.ResizeErr == nil && !status.Active() && !c.Records.Sleeping() && !sts.Answered(status, text)
}

// ConcernedByClaim judges a claim of an operation: the switch waits for old claims to go and for new ones to be bound.
func ConcernedByClaim(claim *corev1.PersistentVolumeClaim, gone bool) []api.Function {
	link, err := api.LoadLink(claim)
	if err != nil || link == nil {
		return nil
	}
	bound := link.Role == api.RoleSuccessor && claim.Status.Phase == corev1.ClaimBound
	if gone || bound || claim.DeletionTimestamp != nil && link.Role != api.RoleTarget {
		return functions{api.Restore}
	}
	return nil
}

// ConcernedByJob judges movers: backup waits for the end of a Job, restore until it is gone.
func ConcernedByJob(job *batchv1.Job, gone bool) []api.Function {
	if gone {
		return functions{api.Restore}
	}
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue && job.DeletionTimestamp == nil {
			return functions{api.Backup}
		}
	}
	return nil
}

// ConcernedByPod judges the movers' pods. A mover that has succeeded is news for backup as long as the pod has the Job controller's
// finalizer: its Job's end comes a second later. One that is gone was in restore's way.
func ConcernedByPod(pod *corev1.Pod, gone bool) []api.Function {
	switch {
	case gone:
		return functions{api.Restore}
	case pod.Status.Phase == corev1.PodSucceeded && pod.DeletionTimestamp == nil && slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer):
		return functions{api.Backup}
	}
	return nil
}
