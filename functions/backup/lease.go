package backup

import (
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/plan"
)

// renewEvery is how often the lease of a waiting mover is renewed. It is well below moverreport.DefaultLease.
const renewEvery = moverreport.DefaultLease / 4

// renewLease renews the lease of the member's mover, if that is due.
func (w *work) renewLease(member *api.Member, m mover) {
	if m.pod == nil || w.Now.Sub(m.leaseRenewedAt(member, w.Now)) < renewEvery {
		return
	}
	w.add(api.CopyRunning, plan.PatchOf(plan.Pods, m.pod).Annotate(moverreport.LeaseAnnotation, timestamp(w.Now)).Actions()...)
}

// leaseRenewedAt returns when the mover's lease was last renewed. The first lease of a waiting mover starts with its container, and that
// of a pin with the end of the copy. Nothing is written to the pod at that moment, because it would prolong the stop: the kubelet handles
// one change of a pod a second (kubernetes pkg/kubelet/pod_workers.go, GetNewerThan).
//
// Such a start is a time on the node's clock. It counts only until the first renewal. A start in the future is ignored: the node's clock
// is fast, and the next renewal would come too late.
func (m mover) leaseRenewedAt(member *api.Member, now time.Time) time.Time {
	at, _ := time.Parse(time.RFC3339, m.pod.Annotations[moverreport.LeaseAnnotation])
	if at.After(now) { // a clock was set back
		at = time.Time{}
	}
	start := time.Time{}
	switch sinceStop := member.StoppedAt != nil && at.After(member.StoppedAt.Time); {
	case m.pins() && !sinceStop: // nothing renews the lease in a final pass
		start = lastContainerEnd(m.pod)
	case !m.pins() && at.IsZero():
		start = containerStart(m.pod, moverreport.FinalContainer)
	}
	if start.After(now) {
		return at
	}
	return later(at, start)
}

// timestamp returns a time in the format of annotations.
func timestamp(t time.Time) string { return t.UTC().Truncate(time.Second).Format(time.RFC3339) }
