package detectresize

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/statefulset"
)

// podToRestart returns a pod that has to be restarted so that the file system on its volume grows, or nil. The obstacle is why the pod must
// not be stopped now; it is empty if it may be. Pods without an obstacle come first, then the highest ordinal, and the primary last.
func podToRestart(in Input, record *api.Resize) (pod *corev1.Pod, obstacle string) {
	for _, e := range pendingFileSystems(in, record) {
		_, ordinal, _ := statefulset.ParseClaimName(in.Set, e.Claim)
		candidate := in.MemberPod(ordinal)
		if !restartHelps(in, candidate, statefulset.FileSystemPending(in.Claim(e.Claim), e.To).Time) {
			continue
		}
		found := restartObstacle(in, record, candidate, ordinal)
		if found == "" {
			return candidate, ""
		}
		if pod == nil {
			pod, obstacle = candidate, found
		}
	}
	return pod, obstacle
}

// pendingFileSystems returns the expansions whose volume has grown but whose file system has not, in the order of the restarts.
func pendingFileSystems(in Input, record *api.Resize) []api.Expansion {
	var all []api.Expansion
	for _, e := range record.Expansions {
		since := statefulset.FileSystemPending(in.Claim(e.Claim), e.To)
		if !e.Done && since != nil && in.Now.Sub(since.Time) >= in.Settings.ExpandPatience {
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, func(a, b api.Expansion) int {
		_, x, _ := statefulset.ParseClaimName(in.Set, a.Claim)
		_, y, _ := statefulset.ParseClaimName(in.Set, b.Claim)
		return cmp.Or(cmp.Compare(primaryRank(in, x), primaryRank(in, y)), cmp.Compare(y, x))
	})
	return all
}

// primaryRank returns 1 for the primary and 0 for any other member.
func primaryRank(in Input, ordinal int) int {
	if statefulset.IsPrimary(in.Set, in.MemberPod(ordinal)) {
		return 1
	}
	return 0
}

// restartHelps reports whether a restart of the pod would grow the file system: the pod must be older than the growth of its volume.
func restartHelps(in Input, pod *corev1.Pod, since time.Time) bool {
	return pod != nil && pod.DeletionTimestamp == nil && statefulset.IsPodOf(pod, in.Set) && !pod.CreationTimestamp.After(since)
}

// restartObstacle returns why the pod must not be stopped now, by the same rules as for a member that gets another volume. It is empty if
// the pod may be stopped. A pod whose claim is being deleted is never stopped, because its replacement would get an empty volume.
func restartObstacle(in Input, record *api.Resize, pod *corev1.Pod, ordinal int) string {
	if leaving := in.LeavingClaims(ordinal); len(leaving) > 0 {
		return fmt.Sprintf("its claim %s is being deleted", leaving[0])
	}
	if shut := resize.CutoverObstacle(in.Observed, record); shut != "" {
		return "it waits for " + shut
	}
	return cmp.Or(in.OtherRevision(pod, ordinal), in.WhyUnsteady(ordinal), in.Budget)
}

// closeGate stores in the record why the pod is not restarted yet.
func closeGate(next *api.Resize, pod *corev1.Pod, obstacle string) *api.Resize {
	next.Reason = api.GateClosed
	next.Message = fmt.Sprintf("pod %s must be restarted to grow the file system on its volume, but it cannot be stopped yet: %s", pod.Name,
		obstacle)
	return next
}
