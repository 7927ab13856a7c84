package model

import (
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/statefulset"
)

const jobs = "Job controller"

// jobController models kubernetes pkg/controller/job. It runs one pod at a time, because a podFailurePolicy implies the
// podReplacementPolicy Failed. Each pod keeps a finalizer until its end is counted. The last pod sets a condition on the Job.
func jobController(w *World) []Step {
	var steps []Step
	for _, job := range all[*batchv1.Job](w, plan.Jobs) {
		if job.DeletionTimestamp == nil && !finished(job) {
			steps = append(steps, syncJob(w, job)...)
			steps = append(steps, countReady(w, job)...)
		}
	}
	for _, p := range all[*corev1.Pod](w, plan.Pods) {
		owner := metav1.GetControllerOf(p)
		if !slices.Contains(p.Finalizers, batchv1.JobTrackingFinalizer) || owner == nil {
			continue
		}
		job := find[*batchv1.Job](w, plan.Jobs, owner.Name)
		if gone := job == nil || job.UID != owner.UID; gone || statefulset.Done(p) {
			steps = append(steps, Step{Who: jobs, What: "counts pod " + p.Name, do: func(w *World) {
				edit(w, plan.Pods, p.Name, func(p *corev1.Pod) {
					p.Finalizers = slices.DeleteFunc(slices.Clone(p.Finalizers), func(f string) bool { return f == batchv1.JobTrackingFinalizer })
				})
			}})
		}
	}
	return steps
}

// countReady models the status of a Job with a running pod. The Job controller may write it a second after the pod is ready.
func countReady(w *World, job *batchv1.Job) []Step {
	ready := int32(0)
	for _, p := range all[*corev1.Pod](w, plan.Pods) {
		if metav1.IsControlledBy(p, job) && p.Status.Phase == corev1.PodRunning {
			ready++
		}
	}
	if !w.countsReady || ptr.Deref(job.Status.Ready, 0) == ready {
		return nil
	}
	return []Step{{Who: jobs, What: fmt.Sprintf("counts %d ready pods of job %s", ready, job.Name), do: func(w *World) {
		edit(w, plan.Jobs, job.Name, func(j *batchv1.Job) { j.Status.Ready = &ready })
	}}}
}

func finished(job *batchv1.Job) bool { return len(job.Status.Conditions) > 0 }

func syncJob(w *World, job *batchv1.Job) []Step {
	failed := 0
	for _, p := range all[*corev1.Pod](w, plan.Pods) {
		switch {
		case !metav1.IsControlledBy(p, job):
		case p.Status.Phase == corev1.PodSucceeded:
			return []Step{endJob(job, batchv1.JobComplete)}
		case p.Status.Phase == corev1.PodFailed && (resize.IsPin(p) || slices.Contains(moverreport.FinalCodes(), exitCode(p))):
			return []Step{endJob(job, batchv1.JobFailed)}
		case p.Status.Phase == corev1.PodFailed:
			failed++
		default:
			return nil // active
		}
	}
	if failed > int(*job.Spec.BackoffLimit) {
		return []Step{endJob(job, batchv1.JobFailed)}
	}
	n := 0
	for w.pod(fmt.Sprintf("%s-%d", job.Name, n)) != nil {
		n++
	}
	name := fmt.Sprintf("%s-%d", job.Name, n)
	return []Step{{Who: jobs, What: "creates pod " + name, do: func(w *World) {
		pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: *job.Spec.Template.ObjectMeta.DeepCopy(), Spec: job.Spec.Template.Spec}
		pod.Namespace, pod.Name, pod.Finalizers = namespace, name, []string{batchv1.JobTrackingFinalizer}
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))}
		_ = w.create(plan.Pods, pod)
		edit(w, plan.Pods, name, func(p *corev1.Pod) { // later pods are younger, because the Job controller backs off
			p.CreationTimestamp = metav1.NewTime(w.now.Add(time.Duration(n) * 10 * time.Second))
		})
	}}}
}

func endJob(job *batchv1.Job, how batchv1.JobConditionType) Step {
	return Step{Who: jobs, What: fmt.Sprintf("job %s is %s", job.Name, how), do: func(w *World) {
		edit(w, plan.Jobs, job.Name, func(j *batchv1.Job) {
			j.Status.Conditions = []batchv1.JobCondition{{Type: how, Status: corev1.ConditionTrue, Reason: "Model", Message: "the pod has ended"}}
		})
	}}
}

func exitCode(p *corev1.Pod) int32 {
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if c.State.Terminated != nil && c.State.Terminated.ExitCode != 0 {
			return c.State.Terminated.ExitCode
		}
	}
	return 0
}
