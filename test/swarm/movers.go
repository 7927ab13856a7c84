package swarm

import (
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/resize"
	"drydock.dev/test/kit/apiserver"
)

// isMover reports whether the pod copies the volumes of a member.
func isMover(pod *apiserver.Object) bool {
	spec, _ := pod.Object["spec"].(map[string]any)
	first, _ := spec["initContainers"].([]any)
	return len(first) > 0 && first[0].(map[string]any)["name"] == moverreport.FirstContainer
}

// copies reports whether the mover's container that copies has not ended.
func copies(pod *apiserver.Object) bool {
	return !hasEnded(pod) && !resize.IsPin(apiserver.Decode[corev1.Pod](pod))
}

// startMover starts the first container. The pod stays Pending until the pin runs.
func (w *World) startMover(k apiserver.Key) {
	w.change(kubelet, k, "", func(o *apiserver.Object) { put(o, node, "spec", "nodeName") })
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
	w.reportMover(k, corev1.PodPending, running, waits, waits)
}

var waits = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}

func ended(r moverreport.MemberReport) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: int32(r.Code),
		Message: string(r.Encode(moverreport.TerminationLogLimit)), FinishedAt: metav1.Now()}}
}

// reportMover writes the states of the mover's containers.
func (w *World) reportMover(k apiserver.Key, phase corev1.PodPhase, first, final, pin corev1.ContainerState) {
	ready, why := corev1.ConditionFalse, "ContainersNotInitialized"
	if phase == corev1.PodRunning {
		ready, why = corev1.ConditionTrue, ""
	}
	status := apiserver.Encode(corev1.Pod{Status: corev1.PodStatus{Phase: phase,
		Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, Reason: why, LastTransitionTime: metav1.Now()}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: moverreport.PinContainer, State: pin}},
		InitContainerStatuses: []corev1.ContainerStatus{{Name: moverreport.FirstContainer, State: first},
			{Name: moverreport.FinalContainer, State: final}}}})
	w.change(kubelet, k, "status", func(o *apiserver.Object) { o.Object["status"] = status.Object["status"] })
}

// runningMovers returns the pods of movers whose containers run.
func (w *World) runningMovers() []*apiserver.Object {
	return slices.DeleteFunc(w.server.List("pods"), func(pod *apiserver.Object) bool {
		return !isMover(pod) || !isPlaced(pod) || hasEnded(pod) || pod.GetDeletionTimestamp() != nil
	})
}

// runMovers lets each mover take its next step: the first passes, or the final pass after the signal.
func (w *World) runMovers() {
	for _, o := range w.runningMovers() {
		pod, k := apiserver.Decode[corev1.Pod](o), keyOf("pods", o)
		first, final := pod.Status.InitContainerStatuses[0].State, pod.Status.InitContainerStatuses[1].State
		running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
		signal, err := moverreport.ParseSignal(pod.Annotations[moverreport.SignalAnnotation])
		report := moverreport.MemberReport{Stage: moverreport.FirstContainer, Result: moverreport.ResultConverged,
			Reason: moverreport.ReasonConverged, Passes: 1, ForecastSeconds: .5, MaxStopSeconds: 60,
			Claims: []moverreport.ClaimReport{{Name: "data", Bytes: 1, Total: 1, Files: 1}}}
		refills := slices.Contains(pod.Spec.InitContainers[0].Args, "--refill")
		switch {
		case first.Terminated == nil && !refills && w.holdsCopy(o):
			w.failMover(o, moverreport.CodeTargetNotEmpty)
		case first.Terminated == nil:
			w.reportMover(k, corev1.PodPending, ended(report), running, waits)
		case final.Terminated == nil && err == nil:
			w.copy(o)
			report.Stage, report.Result, report.Reason, report.Signal = moverreport.FinalContainer, moverreport.ResultCopied,
				moverreport.ReasonCopied, &signal
			report.Claims[0].Verified = true
			w.reportMover(k, corev1.PodRunning, first, ended(report), running)
		}
	}
}

// moverFailures are the exit codes of movers that fail by themselves.
var moverFailures = []int{moverreport.CodeIO, moverreport.CodeNoSpace, moverreport.CodeNotConverged, moverreport.CodeLeaseLost,
	moverreport.CodeKilled}

// failMover ends the container of the mover that runs. A killed container leaves no report.
func (w *World) failMover(o *apiserver.Object, code int) {
	report := moverreport.MemberReport{Stage: moverreport.FirstContainer, Result: moverreport.ResultFailed, Code: code,
		Message: moverreport.Explain(code)}
	switch code {
	case moverreport.CodeNoSpace:
		report.Reason = moverreport.ReasonNoSpace
	case moverreport.CodeNotConverged:
		report.Result, report.Reason, report.ForecastSeconds, report.MaxStopSeconds = moverreport.ResultNotConverged,
			moverreport.ReasonNotConverged, 90, 60
	}
	pod := apiserver.Decode[corev1.Pod](o)
	first, final, pin := waits, waits, waits
	if all := pod.Status.InitContainerStatuses; len(all) == 2 {
		first, final, pin = all[0].State, all[1].State, pod.Status.ContainerStatuses[0].State
	}
	end := func() corev1.ContainerState {
		state := ended(report)
		if code == moverreport.CodeKilled {
			state.Terminated.Message = ""
		}
		return state
	}
	switch {
	case final.Terminated != nil:
		pin = end()
	case first.Terminated != nil:
		report.Stage = moverreport.FinalContainer
		final = end()
	default:
		first = end()
	}
	w.reportMover(keyOf("pods", o), corev1.PodFailed, first, final, pin)
}

// retryPause is the pause of the Job controller before it creates a pod in place of a failed one.
const retryPause = 10 * time.Second

// syncMover plays the Job controller for the Job of a mover (kubernetes pkg/controller/job): it runs one pod at a time, and ends the Job
// when the failure policy of the Job or its limit of retries says so.
func (w *World) syncMover(job *apiserver.Object) {
	pods := w.podsOf(job)
	failed, last := 0, time.Time{}
	for _, o := range pods {
		pod := apiserver.Decode[corev1.Pod](o)
		last = slices.MaxFunc([]time.Time{last, pod.CreationTimestamp.Time}, time.Time.Compare)
		switch {
		case pod.Status.Phase == corev1.PodSucceeded:
			w.endJob(job, true)
			return
		case pod.Status.Phase == corev1.PodFailed && (resize.IsPin(pod) || slices.Contains(moverreport.FinalCodes(), exitCode(pod))):
			w.endJob(job, false)
			return
		case pod.Status.Phase == corev1.PodFailed:
			failed++
		default:
			return
		}
	}
	switch {
	case failed > numberOf(job, "spec", "backoffLimit"):
		w.endJob(job, false)
	case failed == 0 || time.Since(last) >= retryPause:
		w.createJobPod(job)
	}
}

func exitCode(pod *corev1.Pod) int32 {
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if c.State.Terminated != nil && c.State.Terminated.ExitCode != 0 {
			return c.State.Terminated.ExitCode
		}
	}
	return 0
}

// createJobPod creates the next pod of a Job.
func (w *World) createJobPod(job *apiserver.Object) {
	n := 0
	for w.server.Get(in("pods", fmt.Sprintf("%s-%d", job.GetName(), n))) != nil {
		n++
	}
	pod := apiserver.Decode[batchv1.Job](job).Spec.Template
	pod.Name, pod.Namespace = fmt.Sprintf("%s-%d", job.GetName(), n), job.GetNamespace()
	pod.Finalizers = []string{batchv1.JobTrackingFinalizer}
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[batchv1.JobNameLabel], pod.Labels[batchv1.ControllerUidLabel] = job.GetName(), string(job.GetUID())
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))}
	w.create(jobController, "pods", apiserver.Encode(corev1.Pod{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}).Object)
}

// movedClaims returns the claims that the mover copies, each with the temporary claim of its copy.
func movedClaims(mover *apiserver.Object) [][2]string {
	var pairs [][2]string
	claims := claimsOf(mover)
	for i := 0; i+1 < len(claims); i += 2 {
		pairs = append(pairs, [2]string{claims[i], claims[i+1]})
	}
	return pairs
}
