package backup

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/moving"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/text"
)

// firstPasses copies a member beside its pod until the copies converge.
type firstPasses struct{ *work }

func (w *work) firstPasses() firstPasses { return firstPasses{w} }

// stepCopying provisions the member's new volumes. Then a mover makes first passes beside the member's pod until they converge.
func (f firstPasses) stepCopying(member *api.Member) {
	if actions := f.retainSources(member); len(actions) > 0 {
		f.Do(api.Preparing, actions...)
		return
	}
	if !f.Record.Copies() {
		f.handToRestore(member)
		return
	}
	if actions := f.createTargets(member); len(actions) > 0 || f.failMessage != "" {
		f.Do(api.Preparing, actions...)
		return
	}
	pod := f.MemberPod(member.Ordinal)
	if (pod == nil || statefulset.Started(pod)) && strings.HasPrefix(member.Stalled, podNotStarted+": ") {
		member.Stalled, member.StalledSince = "", nil
	}
	switch {
	case f.noMoverReason(member, pod) != "":
		f.deleteMovers(member, 0)
		f.skipFirstPass(member, pod)
	case pod == nil:
		f.WaitFor(false, "pod %s-%d does not exist yet", f.Name, member.Ordinal)
	case !statefulset.Started(pod):
		if pod.UID != member.Pod { // it may be on another node, and a mover keeps the volumes attached to the first one
			f.abandonMovers(member)
		}
		f.watch().stallOfMember(pod).storeIn(f.Input, member)
		f.WaitFor(false, "pod %s is not running yet", pod.Name)
	case pod.DeletionTimestamp != nil:
		f.WaitFor(false, "pod %s is terminating", pod.Name)
	default:
		f.copyBesidePod(member, pod)
	}
}

// abandonMovers deletes the member's movers, which copy beside another pod or for a lost stop.
func (f firstPasses) abandonMovers(member *api.Member) {
	if m := f.moverOf(member); m.job != nil {
		f.replaceMover(member, m)
		return
	}
	f.deleteMovers(member, 0)
}

// noMoverReason returns why no mover can copy beside the member's pod. It is empty if a mover can. A member without a mover is copied after
// it has stopped, so the time of its stop grows with its data.
func (f firstPasses) noMoverReason(member *api.Member, pod *corev1.Pod) string {
	if pod == nil && !f.Wants(member.Ordinal) {
		return "it has no pod"
	}
	return resize.NoFirstPass(f.Observed, member)
}

// skipFirstPass hands the member to restore without a copy. It is copied while it is stopped. If it has a pod, the record says so, because
// this stop is long.
func (f firstPasses) skipFirstPass(member *api.Member, pod *corev1.Pod) {
	if pod != nil {
		f.Report(f.Set, false, api.NoFirstPass, "pod %s is copied only while it is stopped: %s. %s", pod.Name, f.noMoverReason(member, pod),
			f.priceOfStop(member))
	}
	member.Pod, member.Node = "", "" // the recorded pod, if any, is gone
	f.handToRestore(member)
}

// copyBesidePod creates the member's mover and acts on its reports.
func (f firstPasses) copyBesidePod(member *api.Member, pod *corev1.Pod) {
	m := f.moverOf(member)
	switch {
	case member.Pod != "" && member.Pod != pod.UID && m.job != nil:
		f.replaceMover(member, m) // the pod was replaced and may be on another node
	case m.job == nil:
		member.Pod, member.Node = pod.UID, pod.Spec.NodeName
		f.startMover(member, nil)
	case m.job.DeletionTimestamp != nil:
		f.WaitFor(true, "job %s is being deleted", m.job.Name)
	case m.lostLease() || m.finished(): // finished although the member runs: another process signalled the mover
		f.replaceMover(member, m)
	case m.notConverged() != nil:
		r := m.notConverged()
		f.fail(api.NotConverged, "the copy of pod %s does not converge: the final pass would take %.0f s, but %s allows %.0f s. "+
			"Raise that limit, or choose a quieter time for the stop with %s", pod.Name, r.ForecastSeconds, api.MaxStopAnnotation,
			r.MaxStopSeconds, api.CutoverAnnotation)
	case m.failed():
		f.fail(api.CopyFailed, "%s", f.copyFailure(member, m))
	case m.waits():
		f.storeReport(member, m.first)
		member.Stalled, member.StalledSince = "", nil
		f.handToRestore(member)
		f.renewLease(member, m)
	case f.refusedSource(member, m) != nil:
		f.changeFirstPass(member, m, f.refusedSource(member, m))
	case f.noAttachSlot(m) != "":
		f.copyStopped(member, m, api.NoAttachSlot, fmt.Sprintf("node %s cannot attach another volume (%s)", member.Node,
			text.Line(f.noAttachSlot(m), maxCause)))
	default:
		f.watch().updateProgress(member, m)
	}
}

// refusedAfter is how long the node must fail to mount a source volume, or to attach a new one, before that counts as refused. A restart of
// the storage driver takes less.
const refusedAfter = time.Minute

// Reasons of the kubelet's Events about volumes that it cannot mount (kubernetes pkg/kubelet/events).
var mountFailures = []string{"FailedMount", "FailedMapVolume"}

// refusedSource returns the claim whose volume the kubelet cannot mount in the mover's pod, although the member's pod has it mounted on the
// same node. It is nil if there is none. The kubelet's message names the volume: a failure of a target would stop the member for nothing.
// A user can forge the Event. That makes the stop of a set in the user's namespace longer, and changes no data.
func (f firstPasses) refusedSource(member *api.Member, m mover) *api.Move {
	if m.pod == nil || m.pod.DeletionTimestamp != nil || m.pod.Spec.NodeName == "" || hasStarted(m.pod) || hasSandbox(m.pod) ||
		f.Now.Sub(m.pod.CreationTimestamp.Time) < refusedAfter {
		return nil
	}
	warning := f.Warnings[m.pod.Name]
	if !slices.Contains(mountFailures, warning.Reason) {
		return nil
	}
	for i := range member.Claims {
		if move := &member.Claims[i]; !move.Moved && strings.Contains(warning.Message, fmt.Sprintf("for volume %q", move.OldVolume)) {
			return move
		}
	}
	return nil
}

// limitReached is the scheduler's text about a node whose attach limit is reached (kubernetes
// pkg/scheduler/framework/plugins/nodevolumelimits).
const limitReached = "node(s) exceed max volume count"

// limitTexts are parts of the texts of drivers whose limit is lower than the scheduler's, in small letters. The gRPC code says too little:
// not all drivers use the code that CSI prescribes for a full node (ResourceExhausted), and others use it when a cloud's API throttles
// them. An attachment that fails for another cause is tried again by Kubernetes, and shown as a stall.
var limitTexts = []string{
	"attachment limit exceeded",              // aws-ebs-csi-driver
	"maximum number of data disks",           // Azure
	"max number of volumes",                  // linode-blockstorage-csi-driver
	"maximum allowed number of disk devices", // OpenStack Nova
}

// noAttachSlot returns why the member's node cannot attach another volume for the mover, or "". The source volumes are attached there
// already. Like that of a refused source, the Event can be forged.
func (f firstPasses) noAttachSlot(m mover) string {
	if m.pod == nil || m.pod.DeletionTimestamp != nil || hasStarted(m.pod) || hasSandbox(m.pod) ||
		f.Now.Sub(m.pod.CreationTimestamp.Time) < refusedAfter {
		return ""
	}
	warning := f.Warnings[m.pod.Name]
	switch _, detail := pendingReason(m.pod, Warning{}); {
	case m.pod.Spec.NodeName == "" && strings.Contains(detail, limitReached):
		return detail
	case m.pod.Spec.NodeName != "" && warning.Reason == "FailedAttachVolume" && slices.ContainsFunc(limitTexts, func(text string) bool {
		return strings.Contains(strings.ToLower(warning.Message), text)
	}):
		return warning.Message
	}
	return ""
}

// copyStopped has the member copied after its stop, because its node cannot run a mover beside its pod. Another node may: if the pod moves
// there, all ways to copy are tried again.
func (f firstPasses) copyStopped(member *api.Member, m mover, reason api.Reason, cause string) {
	member.RefusingNode, member.WritableSources = member.Node, false
	f.changeMover(member, m, reason, fmt.Sprintf("is copied only while it is stopped: %s. %s", cause, f.priceOfStop(member)))
}

// changeMover replaces the refused mover. The record says how the member's pod is copied from now on.
func (f firstPasses) changeMover(member *api.Member, m mover, reason api.Reason, way string) {
	f.replaceMover(member, m)
	member.Stalled, member.StalledSince = "", nil
	f.Report(f.Set, true, reason, "pod %s-%d %s", f.Name, member.Ordinal, way)
}

// priceOfStop says how long the stop of a member without a first pass takes, and what to do about it.
func (f firstPasses) priceOfStop(member *api.Member) string {
	price := "The stop lasts as long as the whole copy"
	if whole := resize.WholeCopy(member); whole > 0 {
		price += fmt.Sprintf(", about %d min if the volumes are full", int(whole.Minutes()))
	}
	if limit, short := resize.StopTooShort(f.Set, f.Record.Strategy, member); short {
		return price + fmt.Sprintf(". It would be cancelled after %s, so it does not begin: raise %s", 2*limit, api.MaxStopAnnotation)
	}
	if f.Set.Annotations[api.CutoverAnnotation] != "" {
		return price
	}
	return price + fmt.Sprintf(". To choose its time, set %s=%s", api.CutoverAnnotation, api.CutoverApprove)
}

// hasSandbox reports whether the kubelet has mounted all volumes of the pod: it creates the sandbox afterwards.
func hasSandbox(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReadyToStartContainers && c.Status == corev1.ConditionTrue
	})
}

// changeFirstPass has the member copied in the next way, because its node refuses the present one: first by a mover whose pod has the
// source volumes writable, then after its stop. The record keeps the way, because the refused mover is deleted.
func (f firstPasses) changeFirstPass(member *api.Member, m mover, refused *api.Move) {
	cause := fmt.Sprintf("its node refuses to mount the volume of claim %s in a second pod (%s)", refused.Claim,
		text.Line(f.Warnings[m.pod.Name].Message, maxCause))
	claim := f.Claim(refused.Claim)
	if member.WritableSources || claim == nil || statefulset.IsBlock(claim) || !resources.MayMountWritable(f.Set, f.Record.Admitted) {
		f.copyStopped(member, m, api.NoFirstPass, cause)
		return
	}
	member.WritableSources = true
	f.changeMover(member, m, api.NoFirstPass, "gets a mover that mounts its volumes writable and does not write to them: "+cause)
}

// stepWaiting checks that a live mover waits beside the pod of a member that is to be stopped. While the cutover is shut, which may take
// days, no mover waits. When it opens and the resize has its turn, a new mover first brings the copy up to date.
func (f firstPasses) stepWaiting(member *api.Member) {
	switch {
	case moving.ShouldYield(f.Observed, f.Record, member):
		f.replaceMover(member, f.moverOf(member))
		member.Phase = api.MemberPending
		return
	case !f.Record.Copies():
		return
	case moving.LacksFirstPass(f.Observed, member): // the set was scaled up since then
		member.Phase, f.Reason = api.MemberCopying, api.FirstPassRunning
		return
	case member.Pod == "":
		return
	}
	m := f.moverOf(member)
	pod := f.MemberPod(member.Ordinal)
	switch {
	case (f.Record.TurnReturned || resize.CutoverObstacle(f.Observed, f.Record) != "") && (m.job == nil || !m.finished()):
		f.deleteMovers(member, 0)
	case pod == nil || pod.UID != member.Pod || m.job == nil || m.ended():
		f.replaceMover(member, m)
	case !m.waits(): // the mover's pod was replaced, and the new pod makes first passes
		member.Phase, f.Reason = api.MemberCopying, api.FirstPassRunning
	default:
		f.renewLease(member, m)
	}
}

// storeReport stores a mover's report with each of the member's claims.
func (f firstPasses) storeReport(member *api.Member, report *moverreport.MemberReport) {
	if report == nil {
		return
	}
	if report.ForecastSeconds > 0 {
		member.Forecast = report.ForecastSeconds
	}
	for _, r := range report.Claims {
		for i := range member.Claims {
			move := &member.Claims[i]
			if move.Template != r.Name {
				continue
			}
			total := min(max(r.Total, 0), mostBytes)
			if r.Total == 0 { // a mover of a former version reports only its own writes
				total = min(max(r.Bytes, move.BytesTotal, 0), mostBytes)
			}
			move.BytesDone, move.BytesTotal = total, total
			move.Files = max(move.Files, r.Files) // a later mover skips files that are up to date
			if report.Result == moverreport.ResultCopied {
				move.BytesFinal = min(max(r.Bytes, 0), total)
			}
			if r.TrustedBytes > 0 {
				move.BytesTrusted = r.TrustedBytes
			}
			addWarnings(f.Record, move, r.Warnings, r.Omitted)
		}
	}
	member.ProgressAt = nil
}

// copyFailure describes why the mover failed, and the remedy. If only root can copy a file, it names the label that allows it.
func (f firstPasses) copyFailure(member *api.Member, m mover) string {
	report := m.report()
	if report != nil && report.Result == moverreport.ResultConverged { // the final pass was killed before it could report
		report = nil
	}
	problem, remedy := "", "Fix the cause"
	switch {
	case report == nil && m.outOfMemory():
		problem = "the mover was killed for using more memory than its limit (OOMKilled)"
		remedy = fmt.Sprintf("Raise the limit with the annotation %s={resources: {limits: {memory: 4Gi}}}", api.MoverAnnotation)
	case report == nil:
		problem, remedy = jobFailure(m.job), "Look at kubectl describe job -n "+m.job.Namespace+" "+m.job.Name
	case report.Reason == moverreport.ReasonNoSpace:
		f.needsRequest = true
		problem, remedy = fmt.Sprintf("%s: %s", report.Reason, report.Message), "Request a larger size: a retry would fail again"
	case report.Reason == moverreport.ReasonNotFaithful && !f.RootMovers:
		problem = fmt.Sprintf("%s: %s", report.Reason, report.Message)
		remedy = fmt.Sprintf("Allow a mover that runs as root with: kubectl label namespace %s %s=%s", f.Set.Namespace, api.RootMoverLabel,
			api.AllowValue)
	default:
		problem = fmt.Sprintf("%s: %s", report.Reason, report.Message)
	}
	return fmt.Sprintf("copying the claims of pod %s-%d failed: %s. %s", f.Name, member.Ordinal, problem, remedy)
}
