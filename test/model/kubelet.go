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
	"drydock.dev/shared/statefulset"
)

// node is the only node.
const node = "node-1"

const schedulerName = "scheduler"

// scheduler places pods whose claims are bound. One that is being deleted keeps a pod from being placed (kubernetes
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

// usable reports whether all claims of a pod are bound, and stay so. The kubelet takes a claim that is being deleted as long as it is
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

// kubelet starts what was placed, ends what is deleted, and reports both (kubernetes pkg/kubelet: SyncPod, SyncTerminatingPod,
// SyncTerminatedPod; pkg/kubelet/status). The object goes, or loses its grace period, when the volumes are unmounted.
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
		if is := w.processes[uid]; !known[uid] {
			steps = append(
				steps,
				Step{Who: kubeletName, What: "kills what is left of pod " + is.pod, do: func(w *World) { delete(w.processes, uid) }},
			)
		}
	}
	return steps
}

func syncPod(w *World, p *corev1.Pod) []Step {
	is, runs := w.processes[p.UID]
	told := p.DeletionTimestamp != nil
	switch {
	case !runs && told && ptr.Deref(p.DeletionGracePeriodSeconds, 0) != 0:
		return []Step{{Who: kubeletName, What: "deletes pod " + p.Name, do: func(w *World) {
			edit(w, plan.Pods, p.Name, func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = ptr.To[int64](0) })
		}}}
	case !runs && (told || statefulset.Done(p) || p.Status.Phase == corev1.PodRunning || !usable(w, p, true) || w.stillRuns(p.Name)):
		return nil
	case !runs:
		return []Step{{Who: kubeletName, What: "starts pod " + p.Name, do: func(w *World) { w.start(p) }}}
	case is.stage == ended && is.target != "": // the pin starts, also in a pod that is being deleted
		return []Step{{Who: kubeletName, What: "reports that the copy of pod " + p.Name + " has ended", do: func(w *World) { w.report(p, is) }}}
	case is.stage == mounting:
		return []Step{{Who: kubeletName, What: "unmounts the volumes of pod " + p.Name, do: func(w *World) { delete(w.processes, p.UID) }}}
	case is.stage == ended || is.stage == failed:
		return []Step{
			{Who: kubeletName, What: fmt.Sprintf("reports that pod %s has %s", p.Name, is.stage), do: func(w *World) { w.report(p, is) }},
		}
	case told:
		return []Step{{Who: kubeletName, What: "ends the containers of pod " + p.Name, do: func(w *World) {
			if is.stage = ended; is.target != "" {
				is.stage, is.code = failed, moverreport.CodeTerminated
			}
			w.processes[p.UID] = is
		}}}
	case p.Status.Phase == corev1.PodPending && is.stage != first && (is.target == "" || len(p.Status.InitContainerStatuses) == 0):
		return []Step{{Who: kubeletName, What: "reports that pod " + p.Name + " runs", do: func(w *World) { w.report(p, is) }}}
	}
	return nil
}

// stillRuns reports whether processes of a pod of that name run that was deleted by force. The model has the kubelet end them first: two
// writers at once are what whoever deletes by force risks.
func (w *World) stillRuns(name string) bool {
	for _, is := range w.processes {
		if is.pod == name {
			return true
		}
	}
	return false
}

// start runs the containers of a pod on the volumes of its claims.
func (w *World) start(p *corev1.Pod) {
	var claims []string
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			claims = append(claims, v.PersistentVolumeClaim.ClaimName)
		}
	}
	is := process{pod: p.Name, claim: claims[0], volume: w.claim(claims[0]).Spec.VolumeName, stage: running}
	if len(claims) == 2 { // source and target
		is.target, is.stage = w.claim(claims[1]).Spec.VolumeName, first
		if is.current = w.contents[is.volume].current; w.contents[is.target].finished {
			is.stage, is.code = failed, moverreport.CodeTargetNotEmpty
		}
	} else {
		w.checkStart(is)
	}
	w.processes[p.UID] = is
}

// report writes the pod's status.
func (w *World) report(p *corev1.Pod, is process) {
	if is.stage == ended || is.stage == failed {
		after := is
		if after.stage = mounting; is.stage == ended && is.target != "" {
			after.stage = pinning
		}
		w.processes[p.UID] = after
	}
	edit(w, plan.Pods, p.Name, func(p *corev1.Pod) {
		if is.target != "" {
			reportMover(p, is)
			return
		}
		p.Status.Phase = corev1.PodRunning
		ready, state := corev1.ConditionTrue, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
		if is.stage == ended {
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

// applications are the processes in the pods: members write, movers copy (cmd/drydock/mover).
func applications(w *World) []Step {
	var steps []Step
	for _, uid := range sortedUIDs(w.processes) {
		is := w.processes[uid]
		switch {
		case is.target == "" && is.stage == running && w.written(is):
			steps = append(steps, Step{Who: is.pod, What: "writes to volume " + is.volume, do: func(w *World) { w.write(is) }})
		case is.target != "" && is.stage == first:
			steps = append(steps, moverStep("first passes have converged", uid, func(w *World) process { return w.copied(is, waiting) }))
		case is.target != "" && is.stage == waiting && w.signalOf(uid) != "":
			steps = append(steps, moverStep("reads the signal", uid, func(w *World) process {
				is.stage, is.signal, is.current = final, w.signalOf(uid), w.contents[is.volume].current
				return is
			}))
		case is.target != "" && is.stage == final:
			steps = append(steps, moverStep("has made its final pass", uid, func(w *World) process { return w.copied(is, ended) }))
		}
	}
	return steps
}

// write makes every copy of the claim's data stale, also what movers have read and not yet written.
func (w *World) write(is process) {
	for name, c := range w.contents {
		if name != is.volume && c.claim == is.claim {
			c.current = false
			w.contents[name] = c
		}
	}
	for uid, other := range w.processes {
		if other.target != "" && other.claim == is.claim {
			other.current = false
			w.processes[uid] = other
		}
	}
}

func sortedUIDs(m map[types.UID]process) []types.UID {
	uids := make([]types.UID, 0, len(m))
	for uid := range m {
		uids = append(uids, uid)
	}
	slices.Sort(uids)
	return uids
}
