package backup

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/test/kit/build"
)

// truncatedByKubelet shortens the termination messages as the kubelet does: all containers of a pod share 12 KiB equally
// (kubernetes pkg/kubelet/status, normalizeStatus).
func truncatedByKubelet(p *corev1.Pod) {
	share := 12 << 10 / (len(p.Spec.InitContainers) + len(p.Spec.Containers) + len(p.Spec.EphemeralContainers))
	for i := range p.Status.InitContainerStatuses {
		if t := p.Status.InitContainerStatuses[i].State.Terminated; t != nil && len(t.Message) > share {
			t.Message = t.Message[:share]
		}
	}
}

// TestReportSurvivesAnInjectedContainer: a member has sixteen claims, like an object store with a claim for each disk. A webhook without a
// known opt-out, or kubectl debug, has added a container to the mover's pod. A complete report must not become unreadable because of that:
// the verified copy would be discarded, five times, and a converged mover would never count as waiting.
func TestReportSurvivesAnInjectedContainer(t *testing.T) {
	report := func(stage, result string) moverreport.MemberReport {
		r := moverreport.MemberReport{Stage: stage, Result: result, Reason: moverreport.ReasonCopied,
			Message: "the targets are verified copies. The final pass took 1.2s, the forecast was 1s"}
		for i := range 16 {
			r.Claims = append(r.Claims, moverreport.ClaimReport{Name: fmt.Sprintf("disk-%d", i), Bytes: 123456789012, Files: 1234567,
				Skipped: 1234567,
				Total:   123456789012, RecordedFiles: 1234567, RecordedBytes: 123456789012, TrustedFiles: 1234567, TrustedBytes: 123456789012,
				Digest: strings.Repeat("d", 64)})
		}
		return r
	}
	encoded := func(r moverreport.MemberReport) *corev1.ContainerStateTerminated {
		return &corev1.ContainerStateTerminated{Message: string(r.Encode(moverreport.TerminationLogLimit))}
	}
	injected := build.Edit(func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "injected"}) })

	final := report(moverreport.FinalContainer, moverreport.ResultCopied)
	final.Signal = &signal
	done := build.Edit(func(p *corev1.Pod) {
		build.FinalPassSucceeded(signal)(p)
		p.Status.InitContainerStatuses[1].State.Terminated = encoded(final)
	})
	for name, options := range map[string][]build.Option{"alone": {done}, "with an injected container": {done, injected}} {
		p := Decide(given(stopped(), moverPod(1, append(options, build.Edit(truncatedByKubelet))...)))
		if next := build.Stored(p); next == nil || next.Members[0].Phase != api.MemberSwapping {
			t.Errorf("%s: the copy is verified, and it is discarded: %s", name, p)
		}
	}

	first := build.Edit(func(p *corev1.Pod) {
		build.FirstPassConverged()(p)
		p.Status.InitContainerStatuses[0].State.Terminated = encoded(report(moverreport.FirstContainer, moverreport.ResultConverged))
	})
	for name, options := range map[string][]build.Option{"alone": {first}, "with an injected container": {first, injected}} {
		p := Decide(given(copying(), pod(0), moverPod(1, append(options, build.Edit(truncatedByKubelet))...)))
		if next := build.Stored(p); next == nil || next.Members[0].Phase != api.MemberWaiting {
			t.Errorf("%s: the mover waits for the stop, and the member is not handed to restore: %s", name, p)
		}
	}
}
