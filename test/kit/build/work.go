package build

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resources"
)

// Pod builds a running pod of nobody that uses the claims.
func Pod(name string, claims []string, options ...Option) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: meta(Namespace, name), Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	pod.Spec.Volumes = claimVolumes(claims)
	return With(pod, options...)
}

// PodOf builds the running replica of StatefulSet set that uses claim TEMPLATE-SET-ORDINAL of each template.
func PodOf(set string, ordinal int, templates ...string) *corev1.Pod {
	var claims []string
	for _, t := range templates {
		claims = append(claims, fmt.Sprintf("%s-%s-%d", t, set, ordinal))
	}
	pod := Pod(fmt.Sprintf("%s-%d", set, ordinal), claims, Label("app", set), Owned("StatefulSet", set))
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return pod
}

// Mover builds the running pod of the Job that copies a claim.
func Mover(job *batchv1.Job, options ...Option) *corev1.Pod {
	link, err := api.LoadLink(job)
	if err != nil || link == nil {
		panic(fmt.Sprintf("job %s has no link: %v", job.Name, err))
	}
	pod := Pod(job.Name+"-x", []string{link.Claim, job.Name}, LinkOf(*link), Label("batch.kubernetes.io/job-name", job.Name))
	pod.CreationTimestamp = job.CreationTimestamp
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))}
	return With(pod, options...)
}

// InPhase sets a pod's phase.
func InPhase(phase corev1.PodPhase) Option {
	return Edit(func(p *corev1.Pod) { p.Status.Phase = phase })
}

// Job builds the Job that copies a claim of set web in the round, and runs.
func Job(claim string, round int, options ...Option) *batchv1.Job {
	job := &batchv1.Job{ObjectMeta: meta(Namespace, api.CopyName(ID, claim, round))}
	return With(job, append([]Option{Link(api.RoleMover, claim, round)}, options...)...)
}

// Complete is a Job that succeeded.
func Complete() Option { return condition(batchv1.JobComplete, "", "") }

// Failed is a Job that failed for good.
func Failed(reason, message string) Option { return condition(batchv1.JobFailed, reason, message) }

func condition(kind batchv1.JobConditionType, reason, message string) Option {
	return Edit(func(j *batchv1.Job) {
		j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message})
	})
}

// Journal builds the record of the operation.
func Journal(status *api.Resize, options ...Option) *appsv1.ControllerRevision {
	journal := resources.MakeJournal(Set(status.Set.Name), status)
	journal.UID, journal.ResourceVersion = "uid-journal", "rv-journal"
	return With(journal, options...)
}

// Attachment says that a node has the volume attached.
func Attachment(volume string) *storagev1.VolumeAttachment {
	a := &storagev1.VolumeAttachment{ObjectMeta: meta("", "csi-"+volume)}
	a.Spec.Source.PersistentVolumeName = &volume
	return a
}
