package backup

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// TestMoverOfMemberWithoutPodFollowsItsOtherClaims: the set is at zero. Of the member's two claims only data is copied; logs stays on a
// volume that only node-a reaches. The new volume waits for its first consumer, so the mover's node decides where it is provisioned.
func TestMoverOfMemberWithoutPodFollowsItsOtherClaims(t *testing.T) {
	record := whileMoving(api.MemberFinalPass)
	record.Members[0].Pod, record.Members[0].Node, record.Members[0].Locked = "uid-lock", "", true
	two := build.Set("web", build.Template("data", "128Mi", "fixed"), build.Template("logs", "1Gi", "fixed"), build.Replicas(0),
		build.Status(record))
	lock := build.With(build.PodOf("web", 0), build.Held(0), build.UID("uid-lock"))
	lock.Spec.NodeName, lock.Spec.Volumes = "", nil
	logs := build.Claim("logs-web-0", "1Gi")
	local := build.VolumeOf(logs)
	local.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "kubernetes.io/hostname", Operator: corev1.NodeSelectorOpIn,
			Values: []string{"node-a"}}}}}}}
	in := given(objects{two, lock, logs, local}, journal(web0), source(web0), pending(web0))
	p := Decide(in)
	for _, a := range p.Actions {
		if job, ok := a.Object.(*batchv1.Job); ok && a.Verb == plan.VerbCreate {
			text, _ := json.Marshal(job.Spec.Template.Spec)
			if !strings.Contains(string(text), "node-a") {
				t.Errorf("the new volume may be on any node: %v", job.Spec.Template.Spec.Affinity)
			}
			return
		}
	}
	t.Fatalf("no mover: %s", p)
}

// TestParallelismHoldsForSetAtZero: a set at zero misses no member, so only four are copied at once. If the set wants one of
// them, that member is down until all are copied.
func TestParallelismHoldsForSetAtZero(t *testing.T) {
	const members = 10
	for replicas, want := range map[int32]int{0: 4, 1: members} {
		var claims []string
		for i := range members {
			claims = append(claims, fmt.Sprintf("data-web-%d", i))
		}
		record := build.Operation(api.Moving, build.Members(api.MemberFinalPass, claims...))
		all := objects{}
		for i := range record.Members {
			all = append(all, slices.Concat(source(claims[i]), target(claims[i]))...)
			if i < int(replicas) {
				all = append(all, heldPod(i)...)
				continue
			}
			m := &record.Members[i]
			m.Locked, m.Node = true, ""
			lock := build.With(build.PodOf("web", m.Ordinal), build.Held(m.Ordinal))
			lock.Spec.NodeName, lock.Spec.Volumes = "", nil
			all = append(all, lock)
		}
		all = append(all, build.Set("web", build.Template("data", "128Mi", "fixed"), build.Replicas(replicas), build.Status(record),
			build.Annotation(api.ResizeParallelismAnnotation, "4")))
		jobs := 0
		for _, a := range Decide(given(all, journal(claims...))).Actions {
			if _, ok := a.Object.(*batchv1.Job); ok && a.Verb == plan.VerbCreate {
				jobs++
			}
		}
		if jobs != want {
			t.Errorf("%d replicas: %d movers are created, want %d", replicas, jobs, want)
		}
	}
}

// TestMoverLeavesVolumesToRescheduledPod: the member's pod was deleted during the first passes, for example by a rollout or a descheduler,
// and its replacement was placed on another node. It cannot start there, because the mover keeps the ReadWriteOnce volumes attached to the
// first node ("Multi-Attach error"). So the mover has to end now, not after the first pass of hours.
func TestMoverLeavesVolumesToRescheduledPod(t *testing.T) {
	replacement := pod(0, build.UID("uid-replacement"), build.Edit(func(p *corev1.Pod) {
		p.Spec.NodeName, p.Status.Phase = "another-node", corev1.PodPending
		p.Status.Conditions, p.Status.ContainerStatuses = nil, []corev1.ContainerStatus{{Name: "main",
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}}}
	}))
	running := build.Edit(func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodPending
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "first",
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	})
	// restore has cancelled a stop in its final pass, so the next attempt has no mover yet. A final pass has no lease and may take hours, too.
	cancelled := build.EditMember(0, func(m *api.Member) { m.Attempt, m.Pod, m.Node, m.StoppedAt = 2, "", "", nil })
	inFinalPass := moverPod(1, build.FirstPassConverged(), build.Annotation(moverreport.SignalAnnotation, signal.Encode()))
	for name, in := range map[string]Input{
		"the first pass runs":                     given(copying(), replacement, moverPod(1, running)),
		"the final pass of a cancelled stop runs": given(copying(cancelled), replacement, inFinalPass),
	} {
		p := Decide(in)
		if !slices.ContainsFunc(p.Actions, func(a plan.Action) bool { return a.Resource == plan.Jobs && a.Verb == plan.VerbDelete }) {
			t.Errorf("%s: pod web-0 is another one, on another node, and the mover keeps its volumes: %s", name, p)
		}
	}
}

// TestLeaseFromTheFutureIsRenewed: the clock of the functions was set back, or another process with a fast clock wrote the lease. The mover
// only compares values on its own clock and ends after two minutes, so the time in the annotation must not delay the renewal.
func TestLeaseFromTheFutureIsRenewed(t *testing.T) {
	waiting := append(set(whileMoving(api.MemberWaiting, provisioned)), append(journal(web0), append(source(web0), target(web0)...)...)...)
	control := Decide(given(waiting, pod(0), moverPod(1, build.FirstPassConverged(), renewedBefore(renewEvery+time.Second))))
	if !slices.ContainsFunc(control.Actions, func(a plan.Action) bool { return a.Resource == plan.Pods }) {
		t.Fatalf("control: %s", control)
	}
	p := Decide(given(waiting, pod(0), moverPod(1, build.FirstPassConverged(), renewedBefore(-time.Hour))))
	if !slices.ContainsFunc(p.Actions, func(a plan.Action) bool { return a.Resource == plan.Pods }) {
		t.Errorf("the lease is not renewed for an hour, and the mover ends after %s: %s", moverreport.DefaultLease, p)
	}
}

// TestTargetThatIsBoundAfterTheStopIsChecked: a member without a pod, or with a ReadWriteOncePod claim, has no first pass. With
// WaitForFirstConsumer, its target gets a volume only when the mover of the final pass is scheduled. A volume that was not provisioned for
// it may hold data, and a raw device has no mark that would protect it.
func TestTargetThatIsBoundAfterTheStopIsChecked(t *testing.T) {
	static := target(web0)
	build.Static()(static[1])
	signalled := build.Annotation(moverreport.SignalAnnotation, signal.Encode())
	for name, pods := range map[string]objects{
		"the mover copies":          moverPod(1, build.FirstPassConverged(), signalled),
		"the mover was not created": nil,
	} {
		at := append(set(whileMoving(api.MemberFinalPass)), append(journal(web0), heldPod(0)...)...)
		if p := Decide(given(at, source(web0), static, pods)); p.Reason != api.NotProvisioned {
			t.Errorf("%s: the temporary claim has a volume that was not provisioned for it, and the final pass continues: %s", name, p)
		}
	}
	done := append(set(whileMoving(api.MemberFinalPass)), append(journal(web0), heldPod(0)...)...)
	p := Decide(given(done, source(web0), static, moverPod(1, build.FinalPassSucceeded(signal))))
	if next := build.Stored(p); next != nil && next.Members[0].Phase == api.MemberSwapping {
		t.Errorf("the member gets a volume that was not provisioned for it: %s", p)
	}
}

// TestSecondContainerThatCannotStartIsAStall: the first passes have ended, and the node cannot start the container final, for example
// because a mount has become stale. The member is down, so the record has to say why, and the operation must not wait for its deadline of
// many hours.
func TestSecondContainerThatCannotStartIsAStall(t *testing.T) {
	since := build.Settings().StartTimeout + time.Hour
	broken := build.Edit(func(p *corev1.Pod) {
		build.FirstPassConverged()(p)
		build.Age(since + time.Minute)(p)
		p.Status.InitContainerStatuses[0].State.Terminated.FinishedAt = ago(since)
		p.Status.InitContainerStatuses[1].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CreateContainerError",
			Message: "failed to mount /targets/data: stale NFS file handle"}}
	})
	sidecar := build.Edit(func(p *corev1.Pod) { // an injected init container that runs all the time
		p.Status.InitContainerStatuses = append([]corev1.ContainerStatus{{Name: "proxy",
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}, p.Status.InitContainerStatuses...)
	})
	for name, at := range map[string]objects{
		"the member is stopped":             append(stopped(build.Due(24*time.Hour)), moverPod(1, broken)...),
		"the member runs":                   append(append(copying(build.Due(24*time.Hour)), pod(0)...), moverPod(1, broken)...),
		"the mover has an injected sidecar": append(stopped(build.Due(24*time.Hour)), moverPod(1, broken, sidecar)...),
	} {
		p := Decide(given(at))
		if next := build.Stored(p); next == nil || next.Phase == api.Moving && next.Members[0].Stalled == "" {
			t.Errorf("%s, and its mover could not start its second container for %s: %s", name, since, p)
		}
	}
}
