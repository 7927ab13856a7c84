package kit

import (
	"context"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/resize"
)

// notACopy is the version of a target that was copied while its source was written to, or that was copied in part.
const notACopy = -1

func isMover(pod *corev1.Pod) bool {
	return pod.Labels[batchv1.JobNameLabel] != "" && len(pod.Spec.InitContainers) > 0 // in tests the Job of a hook has no init containers
}

// runMover does the next step of a mover. Its first init container makes the first passes. Its second one waits for the signal and makes
// the final pass. The kubelet reports the pod as Pending until both have ended. Then the pin runs until the pod is deleted.
func (n *Node) runMover(ctx context.Context, pod *corev1.Pod) {
	if n.idles(pod) {
		return
	}
	volumes, ok := n.volumesOf(ctx, pod, true)
	if !ok || n.playMissingImage(ctx, pod) || n.playTrouble(ctx, pod) {
		return
	}
	switch {
	case len(pod.Status.InitContainerStatuses) == 0:
		n.setStatus(ctx, pod, moverStatus(corev1.PodPending, running(moverreport.FirstContainer), waiting(moverreport.FinalContainer)))
	case resize.IsPin(pod):
	case pod.Status.InitContainerStatuses[0].State.Terminated == nil:
		n.firstPasses(ctx, pod, volumes)
	default:
		n.finalPass(ctx, pod, volumes)
	}
}

// idles reports whether the mover has nothing to do now: it keeps its volumes attached, or waits for its signal. Many movers do so for most
// of a test, and reading their claims in each step would be a fifth of all requests.
func (n *Node) idles(pod *corev1.Pod) bool {
	containers := pod.Status.InitContainerStatuses
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(containers) == 0 || n.NoImage || n.Trouble != "" || len(n.Troubles) > 0 || n.fates[pod.UID] != "" {
		return false
	}
	_, err := moverreport.ParseSignal(pod.Annotations[moverreport.SignalAnnotation])
	return resize.IsPin(pod) || containers[0].State.Terminated != nil && (err != nil || n.Hold)
}

// firstPasses ends the first init container.
func (n *Node) firstPasses(ctx context.Context, pod *corev1.Pod, volumes map[string]string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.HoldFirstPass {
		return
	}
	report := moverreport.MemberReport{Stage: moverreport.FirstContainer, Result: moverreport.ResultConverged,
		Reason: moverreport.ReasonConverged,
		Passes: 1, ForecastSeconds: 0.5, MaxStopSeconds: 60, Claims: n.claimReports(pod)}
	switch {
	case n.FailMovers:
		n.setStatus(ctx, pod, failed(pod, n.failure(moverreport.FirstContainer)))
		return
	case n.NeverConverge:
		report.Result, report.Reason, report.Code = moverreport.ResultNotConverged, moverreport.ReasonNotConverged,
			moverreport.CodeNotConverged
		report.ForecastSeconds, report.Message = 90, "the final pass would take 90 s"
		n.setStatus(ctx, pod, failed(pod, report))
		return
	}
	for _, pair := range pairs(pod) {
		if !n.ended[pod.UID] {
			n.versions[volumes[pair.target]] = notACopy
		}
	}
	n.setStatus(ctx, pod, moverStatus(corev1.PodPending, ended(moverreport.FirstContainer, report), running(moverreport.FinalContainer)))
}

// finalPass ends the second init container after the signal that the member has stopped.
func (n *Node) finalPass(ctx context.Context, pod *corev1.Pod, volumes map[string]string) {
	signal, err := moverreport.ParseSignal(pod.Annotations[moverreport.SignalAnnotation])
	n.mu.Lock()
	defer n.mu.Unlock()
	if err != nil || n.Hold {
		return
	}
	if n.FailFinal {
		n.setStatus(ctx, pod, failed(pod, n.failure(moverreport.FinalContainer)))
		return
	}
	report := moverreport.MemberReport{Stage: moverreport.FinalContainer, Result: moverreport.ResultCopied,
		Reason: moverreport.ReasonCopied,
		Signal: &signal, Claims: n.claimReports(pod)}
	for i, pair := range pairs(pod) {
		report.Claims[i].Verified = true
		if n.ended[pod.UID] {
			continue
		}
		n.versions[volumes[pair.target]] = n.versions[volumes[pair.source]]
		if n.isWritten(pair.source) {
			n.versions[volumes[pair.target]] = notACopy
		}
	}
	n.ended[pod.UID] = true
	status := moverStatus(corev1.PodRunning, pod.Status.InitContainerStatuses[0], ended(moverreport.FinalContainer, report))
	status.ContainerStatuses[0], status.Conditions = running(moverreport.PinContainer), ready(corev1.ConditionTrue, "")
	if n.Sidecar {
		status = withSidecar(status)
	}
	n.setStatus(ctx, pod, status)
}

// isWritten reports whether a pod writes to the claim. A user can start the pod during the final pass. That copy is no breach of I1 before
// a pod starts on it.
func (n *Node) isWritten(claim string) bool {
	for _, writer := range n.writers {
		if writer.claims[claim] != "" {
			return true
		}
	}
	return false
}

// claimReports returns the mover's reports of its claims.
func (n *Node) claimReports(pod *corev1.Pod) []moverreport.ClaimReport {
	var reports []moverreport.ClaimReport
	for _, pair := range pairs(pod) {
		report := moverreport.ClaimReport{Name: pair.template, Bytes: 1, Total: 1, Files: 1}
		if n.Warning != "" {
			report.Warnings = []string{n.Warning}
		}
		reports = append(reports, report)
	}
	return reports
}

// failure returns the report of a failing mover.
func (n *Node) failure(stage string) moverreport.MemberReport {
	if n.Failure.Reason != "" {
		report := n.Failure
		report.Stage, report.Result = stage, moverreport.ResultFailed
		return report
	}
	return moverreport.MemberReport{Stage: stage, Result: moverreport.ResultFailed, Code: moverreport.CodeNoSpace,
		Reason:  moverreport.ReasonNoSpace,
		Message: "no space left on the target"}
}

// claimPair is a claim with the temporary claim of its copy.
type claimPair struct{ template, source, target string }

// pairs returns the claims that a mover copies. The pod has two volumes for each claim, in the order of the --claim
// arguments.
func pairs(pod *corev1.Pod) []claimPair {
	var claims, templates []string
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			claims = append(claims, v.PersistentVolumeClaim.ClaimName)
		}
	}
	for _, arg := range pod.Spec.InitContainers[0].Args {
		if text, is := strings.CutPrefix(arg, "--claim="); is {
			claim, err := moverreport.ParseClaim(text)
			if err != nil {
				panic(err)
			}
			templates = append(templates, claim.Name)
		}
	}
	var all []claimPair
	for i, template := range templates {
		all = append(all, claimPair{template: template, source: claims[2*i], target: claims[2*i+1]})
	}
	return all
}

// playMissingImage reports whether the pod is a mover whose image cannot be pulled, and writes the kubelet's status for
// it.
func (n *Node) playMissingImage(ctx context.Context, pod *corev1.Pod) bool {
	n.mu.Lock()
	lacks := n.NoImage && isMover(pod)
	n.mu.Unlock()
	if inits := pod.Status.InitContainerStatuses; !lacks || len(inits) > 0 {
		return lacks && inits[0].State.Waiting != nil
	}
	container := pod.Spec.InitContainers[0]
	status := moverStatus(corev1.PodPending, waiting(container.Name), waiting(moverreport.FinalContainer))
	status.InitContainerStatuses[0].Image = container.Image
	status.InitContainerStatuses[0].State.Waiting = &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff",
		Message: "Back-off pulling image " + container.Image}
	n.setStatus(ctx, pod, status)
	return true
}
