package model

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/statefulset"
)

const schedulerName = "scheduler"

// scheduler places pods whose claims are bound. It does not place a pod with a terminating claim (kubernetes
// pkg/scheduler/framework/plugins/volumebinding).
func scheduler(w *World) []Step {
	var steps []Step
	for _, p := range all[*corev1.Pod](w, plan.Pods) {
		if p.Spec.NodeName != "" || p.DeletionTimestamp != nil || len(p.Spec.SchedulingGates) > 0 || w.nodeSilent || !usable(w, p, false) {
			continue
		}
		steps = append(steps, Step{Who: schedulerName, What: "places pod " + p.Name, do: func(w *World) {
			edit(w, plan.Pods, p.Name, func(p *corev1.Pod) { p.Spec.NodeName = node })
		}})
	}
	return steps
}

// usable reports whether all claims of a pod are bound and not terminating. The kubelet also accepts a terminating claim while it is
// protected (kubernetes pkg/kubelet/volumemanager/populator, getPVCExtractPV).
func usable(w *World, p *corev1.Pod, kubelet bool) bool {
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		claim := w.claim(v.PersistentVolumeClaim.ClaimName)
		leaves := claim != nil && claim.DeletionTimestamp != nil && !(kubelet && slices.Contains(claim.Finalizers, protection))
		if claim == nil || leaves || claim.Status.Phase != corev1.ClaimBound {
			return false
		}
		if volume := w.volume(claim.Spec.VolumeName); volume == nil || !statefulset.Bound(claim, volume) {
			return false
		}
	}
	return true
}

const kubeletName = "kubelet"

// kubelet starts placed pods, ends deleted pods, and reports both (kubernetes pkg/kubelet: SyncPod, SyncTerminatingPod,
// SyncTerminatedPod; pkg/kubelet/status). It ends the grace period after the volumes are unmounted.
func kubelet(w *World) []Step {
	if w.nodeSilent {
		return nil
	}
	var steps []Step
	known := map[types.UID]bool{}
	for _, p := range all[*corev1.Pod](w, plan.Pods) {
		known[p.UID] = true
		if p.Spec.NodeName != "" {
			steps = append(steps, syncPod(w, p)...)
		}
	}
	for _, uid := range sortedUIDs(w.processes) {
		if proc := w.processes[uid]; !known[uid] {
			steps = append(steps, Step{Who: kubeletName, What: "kills the processes of deleted pod " + proc.pod, do: func(w *World) {
				delete(w.processes, uid)
			}})
		}
	}
	return steps
}

func syncPod(w *World, p *corev1.Pod) []Step {
	proc, runs := w.processes[p.UID]
	deleting := p.DeletionTimestamp != nil
	switch {
	case !runs && deleting && ptr.Deref(p.DeletionGracePeriodSeconds, 0) != 0:
		return []Step{{Who: kubeletName, What: "deletes pod " + p.Name, do: func(w *World) {
			edit(w, plan.Pods, p.Name, func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = ptr.To[int64](0) })
		}}}
	case !runs && (deleting || statefulset.Done(p) || p.Status.Phase == corev1.PodRunning || !usable(w, p, true) || w.stillRuns(p.Name)):
		return nil
	case !runs:
		return []Step{{Who: kubeletName, What: "starts pod " + p.Name, do: func(w *World) { w.start(p) }}}
	case proc.stage == ended && proc.target != "": // the pin starts even in a terminating pod
		return []Step{{Who: kubeletName, What: "reports that the copy of pod " + p.Name + " has ended", do: func(w *World) { w.report(p, proc) }}}
	case proc.stage == mounting:
		return []Step{{Who: kubeletName, What: "unmounts the volumes of pod " + p.Name, do: func(w *World) { delete(w.processes, p.UID) }}}
	case proc.stage == ended || proc.stage == failed:
		return []Step{{Who: kubeletName, What: fmt.Sprintf("reports that pod %s has %s", p.Name, proc.stage), do: func(w *World) {
			w.report(p, proc)
		}}}
	case deleting:
		return []Step{{Who: kubeletName, What: "ends the containers of pod " + p.Name, do: func(w *World) {
			if proc.stage = ended; proc.target != "" {
				proc.stage, proc.code = failed, moverreport.CodeTerminated
			}
			w.processes[p.UID] = proc
		}}}
	case p.Status.Phase == corev1.PodPending && proc.stage != first && (proc.target == "" || len(p.Status.InitContainerStatuses) == 0):
		return []Step{{Who: kubeletName, What: "reports that pod " + p.Name + " runs", do: func(w *World) { w.report(p, proc) }}}
	}
	return nil
}

// stillRuns reports whether processes of a force-deleted pod of that name still run. In the model the kubelet ends them before it starts
// another pod. Two writers at the same time are a known risk of a forced deletion.
func (w *World) stillRuns(name string) bool {
	for _, proc := range w.processes {
		if proc.pod == name {
			return true
		}
	}
	return false
}

// start starts the containers of a pod on the volumes of its claims.
func (w *World) start(p *corev1.Pod) {
	var claims []string
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			claims = append(claims, v.PersistentVolumeClaim.ClaimName)
		}
	}
	proc := process{pod: p.Name, claim: claims[0], volume: w.claim(claims[0]).Spec.VolumeName, stage: running}
	if len(claims) == 2 { // source and target
		proc.target, proc.stage = w.claim(claims[1]).Spec.VolumeName, first
		if proc.current = w.contents[proc.volume].current; w.contents[proc.target].finished {
			proc.stage, proc.code = failed, moverreport.CodeTargetNotEmpty
		}
	} else {
		w.checkStart(proc)
	}
	w.processes[p.UID] = proc
}

// report writes the pod's status.
func (w *World) report(p *corev1.Pod, proc process) {
	if proc.stage == ended || proc.stage == failed {
		after := proc
		if after.stage = mounting; proc.stage == ended && proc.target != "" {
			after.stage = pinning
		}
		w.processes[p.UID] = after
	}
	edit(w, plan.Pods, p.Name, func(p *corev1.Pod) {
		if proc.target != "" {
			reportMover(p, proc)
			return
		}
		p.Status.Phase = corev1.PodRunning
		ready, state := corev1.ConditionTrue, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
		if proc.stage == ended {
			p.Status.Phase, ready = corev1.PodSucceeded, corev1.ConditionFalse
			state = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed"}}
		}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{
			{Name: p.Spec.Containers[0].Name, State: state, Ready: ready == corev1.ConditionTrue},
		}
		p.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodReady, Status: ready, Reason: "Model", LastTransitionTime: metav1.NewTime(w.now)},
		}
	})
}

func reportMover(p *corev1.Pod, proc process) {
	converged := moverreport.MemberReport{Stage: moverreport.FirstContainer, Result: moverreport.ResultConverged}
	done := corev1.ContainerStatus{Name: moverreport.FirstContainer, State: terminated(converged)}
	last := corev1.ContainerStatus{Name: moverreport.FinalContainer, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	pin := corev1.ContainerStatus{Name: moverreport.PinContainer, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}}
	p.Status.Phase = corev1.PodPending
	switch {
	case proc.stage == failed && resize.IsPin(p): // the pin has failed
		p.Status.Phase = corev1.PodFailed
		p.Status.ContainerStatuses[0].State = terminated(moverreport.MemberReport{Code: int(proc.code)})
		return
	case proc.stage == ended:
		p.Status.Phase, pin.State = corev1.PodRunning, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
		signal, _ := moverreport.ParseSignal(proc.signal)
		last.State = terminated(moverreport.MemberReport{Stage: moverreport.FinalContainer, Result: moverreport.ResultCopied, Signal: &signal,
			Claims: []moverreport.ClaimReport{{Name: "data", Verified: true}}})
	case proc.stage == failed:
		p.Status.Phase = corev1.PodFailed
		last.State = terminated(moverreport.MemberReport{Stage: moverreport.FinalContainer, Result: moverreport.ResultFailed,
			Code: int(proc.code)})
	}
	p.Status.InitContainerStatuses, p.Status.ContainerStatuses = []corev1.ContainerStatus{done, last}, []corev1.ContainerStatus{pin}
}

func terminated(r moverreport.MemberReport) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		Reason: "Completed", ExitCode: int32(r.Code), Message: string(r.Encode(4096)),
	}}
}

// applications returns the steps of the processes in the pods: members write, movers copy (cmd/drydock/mover).
func applications(w *World) []Step {
	var steps []Step
	for _, uid := range sortedUIDs(w.processes) {
		proc := w.processes[uid]
		switch {
		case proc.target == "" && proc.stage == running && w.outdatesCopies(proc):
			steps = append(steps, Step{Who: proc.pod, What: "writes to volume " + proc.volume, do: func(w *World) { w.write(proc) }})
		case proc.target != "" && proc.stage == first:
			steps = append(steps, moverStep("completes its first passes, which have converged", uid,
				func(w *World) process { return w.copied(proc, waiting) }))
		case proc.target != "" && proc.stage == waiting && w.signalOf(uid) != "":
			steps = append(steps, moverStep("reads the signal", uid, func(w *World) process {
				proc.stage, proc.signal, proc.current = final, w.signalOf(uid), w.contents[proc.volume].current
				return proc
			}))
		case proc.target != "" && proc.stage == final:
			steps = append(steps, moverStep("completes its final pass", uid, func(w *World) process { return w.copied(proc, ended) }))
		}
	}
	return steps
}

func moverStep(what string, uid types.UID, next func(*World) process) Step {
	return Step{Who: "mover " + string(uid), What: what, do: func(w *World) { w.processes[uid] = next(w) }}
}

// copied writes the data of the mover to its target.
func (w *World) copied(proc process, next stage) process {
	w.contents[proc.target] = content{claim: proc.claim, current: proc.current, finished: next == ended}
	proc.stage = next
	return proc
}

// signalOf returns the signal of the functions to the mover.
func (w *World) signalOf(uid types.UID) string {
	for _, p := range all[*corev1.Pod](w, plan.Pods) {
		if p.UID == uid {
			return p.Annotations[moverreport.SignalAnnotation]
		}
	}
	return ""
}

// outdatesCopies reports whether a write of the member makes a difference: some other copy is still current.
func (w *World) outdatesCopies(proc process) bool {
	for name, c := range w.contents {
		if name != proc.volume && c.claim == proc.claim && c.current {
			return true
		}
	}
	for _, other := range w.processes {
		if other.target != "" && other.claim == proc.claim && other.current {
			return true
		}
	}
	return false
}

// write makes every other copy of the claim's data stale, including data that movers have read and not yet written.
func (w *World) write(proc process) {
	for name, c := range w.contents {
		if name != proc.volume && c.claim == proc.claim {
			c.current = false
			w.contents[name] = c
		}
	}
	for uid, other := range w.processes {
		if other.target != "" && other.claim == proc.claim {
			other.current = false
			w.processes[uid] = other
		}
	}
}

// nodeReturns lets a silent node report again.
func nodeReturns(w *World) []Step {
	if !w.nodeSilent {
		return nil
	}
	return []Step{{Who: node, What: "reports again", do: func(w *World) { w.nodeSilent = false }}}
}
