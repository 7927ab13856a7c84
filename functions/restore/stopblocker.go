package restore

import (
	"cmp"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/statefulset"
)

// stopBlocker returns why the member must not be stopped now, or empty if it may.
func (w *work) stopBlocker(member *api.Member) string {
	pod := w.MemberPod(member.Ordinal)
	switch {
	case pod == nil && w.Wants(member.Ordinal):
		return fmt.Sprintf("pod %s-%d does not exist yet", w.Name, member.Ordinal)
	case pod == nil:
		return w.otherClaimUser(member, "")
	case pod.DeletionTimestamp != nil:
		return fmt.Sprintf("pod %s is terminating", pod.Name)
	case !statefulset.Started(pod):
		return fmt.Sprintf("pod %s has not started", pod.Name)
	case !statefulset.IsPodOf(pod, w.Set):
		return fmt.Sprintf("pod %s does not belong to StatefulSet %s", pod.Name, w.Name)
	case !metav1.IsControlledBy(pod, w.Set): // the set was just created again; restore's rights cover only pods with a controller
		return fmt.Sprintf("StatefulSet %s has not adopted it yet", w.Name)
	case resize.ShouldYield(w.Observed, w.record, member):
		return fmt.Sprintf("pod %s has become the primary, so another member is moved first", pod.Name)
	}
	if why := cmp.Or(w.changedClaim(member), w.OtherRevision(pod, member.Ordinal), w.otherClaimUser(member, pod.UID),
		w.missingMover(member, pod)); why != "" {
		return why
	}
	if limit, short := resize.StopTooShort(w.Set, w.record.Strategy, member); short && w.record.Copies() && member.Pod == "" {
		return fmt.Sprintf("the pod is copied only while it is stopped, which takes about %d min if the volumes are full, and its stop would be "+
			"cancelled after %s. Raise %s", int(resize.WholeCopy(member).Minutes()), 2*limit, api.MaxStopAnnotation)
	}
	if w.record.Strategy == api.StrategyRolling {
		return cmp.Or(w.WhyUnsteady(member.Ordinal), w.BudgetRefusal)
	}
	return ""
}

// foreignClaimFinalizer returns another controller's finalizer on a claim of the member, or empty. It would keep the claim from being
// replaced while the pod is stopped.
func (w *work) foreignClaimFinalizer(member *api.Member) string {
	for _, move := range member.Claims {
		if claim := w.Claim(move.Claim); claim != nil && !move.Moved && !move.InPlace {
			if problem := statefulset.HeldByOthers("claim", claim); problem != "" {
				return problem
			}
		}
	}
	return ""
}

// changedClaim returns which claim of the member was deleted or replaced since it was copied, or empty. The pod keeps running with its
// data, and backup gives the operation up.
func (w *work) changedClaim(member *api.Member) string {
	for _, move := range member.Claims {
		if claim := w.Claim(move.Claim); !move.Moved && (claim == nil || claim.UID != move.UID || claim.DeletionTimestamp != nil) {
			return fmt.Sprintf("claim %s was deleted or replaced", move.Claim)
		}
	}
	return ""
}

// otherClaimUser returns which pod other than the member's own uses a claim of the member, or empty. Such a pod could write after the
// member has stopped and make the copy stale. When a swap finds a pod that has ended, it cannot know whether that was before the copy.
func (w *work) otherClaimUser(member *api.Member, own types.UID) string {
	for i := range member.Claims {
		if other := w.foreignPod(w.record, own, &member.Claims[i]); other != nil {
			return fmt.Sprintf("pod %s also uses claim %s; delete that pod", other.Name, member.Claims[i].Claim)
		}
	}
	return ""
}

// missingMover returns why no mover is ready for the member's final pass, or empty. Without a waiting mover, the stop would last as long
// as a new one takes to start.
func (w *work) missingMover(member *api.Member, pod *corev1.Pod) string {
	pods, jobs := w.MoversOfMember(w.record.Operation, member.Ordinal)
	waits := func(mover *corev1.Pod) bool { // its Job must stay, too: it is deleted when the cutover is closed
		return resize.WaitsForStop(mover) && slices.ContainsFunc(jobs, func(job *batchv1.Job) bool {
			return job.DeletionTimestamp == nil && metav1.IsControlledBy(mover, job)
		})
	}
	switch {
	case !w.record.Copies():
		return ""
	case resize.LacksFirstPass(w.Observed, member):
		return fmt.Sprintf("pod %s started while its member waited, so it is copied first", pod.Name)
	case member.Pod == "":
		return ""
	case member.Pod != pod.UID:
		return fmt.Sprintf("pod %s was started again after it was copied", pod.Name)
	case !slices.ContainsFunc(pods, waits):
		return "its mover no longer waits; a new one is created"
	}
	return ""
}

// blockStop waits at the gate and writes the reason into the record when it changes.
func (w *work) blockStop(format string, args ...any) {
	w.waitFor(false, format, args...)
	for i := range w.record.Members {
		w.record.Members[i].CheckedAt = nil
	}
	w.record.Reason, w.record.Message = api.GateClosed, w.waiting
	w.reason = api.GateClosed
}
