package kit

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/moverreport"
)

// setStatus writes the kubelet's report, and reports whether the API server has accepted it. The next step repeats a
// failed write.
func (n *Node) setStatus(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus) bool {
	pod = pod.DeepCopy()
	pod.Status = status
	_, err := n.w.Kube.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err == nil
}

func ready(status corev1.ConditionStatus, reason string) []corev1.PodCondition {
	return []corev1.PodCondition{{Type: corev1.PodReady, Status: status, Reason: reason, LastTransitionTime: metav1.Now()}}
}

// moverStatus returns the status of a mover whose pin has not started.
func moverStatus(phase corev1.PodPhase, first, final corev1.ContainerStatus) corev1.PodStatus {
	return corev1.PodStatus{Phase: phase, StartTime: ptr.To(metav1.Now()), InitContainerStatuses: []corev1.ContainerStatus{first, final},
		ContainerStatuses: []corev1.ContainerStatus{waiting(moverreport.PinContainer)}, Conditions: ready(corev1.ConditionFalse,
			"ContainersNotInitialized")}
}

// failed returns the status of a mover whose running container has ended with the report.
func failed(pod *corev1.Pod, report moverreport.MemberReport) corev1.PodStatus {
	if report.Stage == moverreport.FirstContainer {
		return moverStatus(corev1.PodFailed, ended(moverreport.FirstContainer, report), waiting(moverreport.FinalContainer))
	}
	return moverStatus(corev1.PodFailed, pod.Status.InitContainerStatuses[0], ended(moverreport.FinalContainer, report))
}

func running(container string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: container, Ready: true, Started: ptr.To(true),
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}}
}

func waiting(container string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: container,
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}}
}

func ended(container string, report moverreport.MemberReport) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: container, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: int32(report.Code), Message: string(
			report.Encode(moverreport.TerminationLogLimit)), StartedAt: metav1.Now(), FinishedAt: metav1.Now()}}}
}
