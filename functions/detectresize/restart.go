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

// toRestart returns the pod that has to be restarted so that the file system on its volume grows, and why it has to wait; "" if it may be stopped
// now. It is the highest ordinal that may be stopped, the primary last, else the first that has to wait. It is nil if there is none.
func toRestart(in Input, record *api.Resize) (pod *corev1.Pod, shut string) {
	for _, e := range pending(in, record) {
		_, ordinal, _ := statefulset.ParseClaimName(in.Set, e.Claim)
		candidate := in.MemberPod(ordinal)
		if !restartHelps(in, candidate, statefulset.FileSystemPending(in.Claim(e.Claim), e.To).Time) {
			continue
		}
		why := mustWait(in, record, candidate, ordinal)
		if why == "" {
			return candidate, ""
		}
		if pod == nil {
			pod, shut = candidate, why
		}
	}
	return pod, shut
}

// pending returns the expansions whose volumes have grown and whose file systems have not, in the order of their restarts.
func pending(in Input, record *api.Resize) []api.Expansion {
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
		return cmp.Or(cmp.Compare(primary(in, x), primary(in, y)), cmp.Compare(y, x))
	})
	return all
}

func primary(in Input, ordinal int) int {
	if statefulset.IsPrimary(in.Set, in.MemberPod(ordinal)) {
		return 1
	}
	return 0
}

// restartHelps reports whether a restart of the pod would grow the file system: the pod is older than the growth of its volume.
func restartHelps(in Input, pod *corev1.Pod, since time.Time) bool {
	return pod != nil && pod.DeletionTimestamp == nil && statefulset.IsPodOf(pod, in.Set) && !pod.CreationTimestamp.After(since)
}

// mustWait returns why the pod must not be stopped now, by the gate of a member that gets other volumes; "" if it may be. A pod whose claim is
// being deleted is not stopped at all: its replacement would get an empty volume.
func mustWait(in Input, record *api.Resize, pod *corev1.Pod, ordinal int) string {
	if leaving := in.LeavingClaims(ordinal); len(leaving) > 0 {
		return fmt.Sprintf("its claim %s is being deleted", leaving[0])
	}
	if shut := resize.ShutCutover(in.Observed, record); shut != "" {
		return "it waits for " + shut
	}
	return cmp.Or(in.OtherRevision(pod, ordinal), in.Unsteady(ordinal), in.Budget)
}

// recordGate stores in the record why the pod is not restarted yet.
func recordGate(next *api.Resize, pod *corev1.Pod, why string) *api.Resize {
	next.Reason = api.GateClosed
	next.Message = fmt.Sprintf("pod %s is to be started again so that the file system on its volume grows, and is not stopped yet: %s", pod.Name, why)
	return next
}
