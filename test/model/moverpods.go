package model

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
)

func reportMover(p *corev1.Pod, is process) {
	converged := moverreport.MemberReport{Stage: moverreport.FirstContainer, Result: moverreport.ResultConverged}
	done := corev1.ContainerStatus{Name: moverreport.FirstContainer, State: terminated(converged)}
	last := corev1.ContainerStatus{Name: moverreport.FinalContainer, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	pin := corev1.ContainerStatus{Name: moverreport.PinContainer, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}}
	p.Status.Phase = corev1.PodPending
	switch {
	case is.stage == failed && resize.IsPin(p): // the pin has
		p.Status.Phase = corev1.PodFailed
		p.Status.ContainerStatuses[0].State = terminated(moverreport.MemberReport{Code: int(is.code)})
		return
	case is.stage == ended:
		p.Status.Phase, pin.State = corev1.PodRunning, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
		signal, _ := moverreport.ParseSignal(is.signal)
		last.State = terminated(moverreport.MemberReport{Stage: moverreport.FinalContainer, Result: moverreport.ResultCopied, Signal: &signal,
			Claims: []moverreport.ClaimReport{{Name: "data", Digest: "verified"}}})
	case is.stage == failed:
		p.Status.Phase = corev1.PodFailed
		last.State = terminated(moverreport.MemberReport{Stage: moverreport.FinalContainer, Result: moverreport.ResultFailed, Code: int(is.code)})
	}
	p.Status.InitContainerStatuses, p.Status.ContainerStatuses = []corev1.ContainerStatus{done, last}, []corev1.ContainerStatus{pin}
}

func terminated(r moverreport.MemberReport) corev1.ContainerState {
	return corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", ExitCode: int32(r.Code), Message: string(r.Encode(4096))},
	}
}

func moverStep(what string, uid types.UID, next func(*World) process) Step {
	return Step{Who: "mover " + string(uid), What: what, do: func(w *World) { w.processes[uid] = next(w) }}
}

// copied puts what the mover has read on its target.
func (w *World) copied(is process, next stage) process {
	w.contents[is.target] = content{claim: is.claim, current: is.current, finished: next == ended}
	is.stage = next
	return is
}

// signalOf is what the functions have told the mover.
func (w *World) signalOf(uid types.UID) string {
	for _, p := range all[*corev1.Pod](w, plan.Pods) {
		if p.UID == uid {
			return p.Annotations[moverreport.SignalAnnotation]
		}
	}
	return ""
}

// written reports whether a write of the member changes anything: some copy is as current as its volume.
func (w *World) written(is process) bool {
	for name, c := range w.contents {
		if name != is.volume && c.claim == is.claim && c.current {
			return true
		}
	}
	for _, other := range w.processes {
		if other.target != "" && other.claim == is.claim && other.current {
			return true
		}
	}
	return false
}
