package build

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/podend"
	"drydock.dev/shared/resources"
)

// Pod builds a running pod without a controller that uses the claims.
func Pod(name string, claims []string, options ...Option) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: meta(Namespace, name), Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	pod.Spec.Volumes = claimVolumes(claims)
	return With(pod, options...)
}

// PodOf builds the running, ready pod of a member. For each template it uses claim TEMPLATE-SET-ORDINAL.
func PodOf(set string, ordinal int, templates ...string) *corev1.Pod {
	var claims []string
	for _, t := range templates {
		claims = append(claims, fmt.Sprintf("%s-%s-%d", t, set, ordinal))
	}
	pod := Pod(fmt.Sprintf("%s-%d", set, ordinal), claims, Label("app", set), ControlledBy("StatefulSet", set))
	pod.Spec.NodeName = NodeName
	pod.Spec.Containers = []corev1.Container{{Name: "db", Image: "registry.example/db:1"}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue,
		LastTransitionTime: metav1.NewTime(Now.Add(-time.Minute))}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "db",
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	return pod
}

// Held holds a running pod of set web: a finalizer keeps the StatefulSet controller from replacing it.
func Held(ordinal int) Option {
	return func(o metav1.Object) {
		Finalizers(api.HoldFinalizer)(o)
		MemberLink(api.RoleHeld, ordinal)(o)
	}
}

// Stopped makes a pod terminating, after its node has reported the end of all containers.
func Stopped() Option {
	return Edit(func(p *corev1.Pod) {
		Deleting()(p)
		p.DeletionGracePeriodSeconds = ptr.To[int64](0)
		p.Status.Phase = corev1.PodSucceeded
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "PodCompleted"}}
		p.Status.ContainerStatuses = nil
		for _, c := range p.Spec.Containers {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses,
				corev1.ContainerStatus{Name: c.Name, State: corev1.ContainerState{
					Terminated: &corev1.ContainerStateTerminated{Reason: "Completed",
						FinishedAt: metav1.NewTime(Now.Add(-5 * time.Second))}}})
		}
	})
}

// Node builds the node of all pods. It is ready.
func Node(options ...Option) *corev1.Node {
	node := &corev1.Node{ObjectMeta: meta("", NodeName)}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return With(node, options...)
}

// Mover builds the running pod of a mover's Job for a member of set web. It makes its first passes.
func Mover(job *batchv1.Job, options ...Option) *corev1.Pod {
	link, err := api.LoadLink(job)
	if err != nil || link == nil {
		panic(fmt.Sprintf("job %s has no link: %v", job.Name, err))
	}
	claim := fmt.Sprintf("data-web-%d", *link.Member)
	pod := Pod(job.Name+"-x", []string{claim, api.TargetName(ID, claim, 0)}, LinkOf(*link), Label("batch.kubernetes.io/job-name", job.Name))
	pod.CreationTimestamp = job.CreationTimestamp
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))}
	pod.Spec.InitContainers = []corev1.Container{{Name: moverreport.FirstContainer}, {Name: moverreport.FinalContainer}}
	pod.Spec.Containers = []corev1.Container{{Name: moverreport.PinContainer}}
	return With(pod, options...)
}

// FirstPassConverged makes a mover wait for the final pass: its first passes have converged.
func FirstPassConverged() Option {
	return Edit(func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodPending
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{EndedContainer(moverreport.FirstContainer, moverreport.MemberReport{
			Stage: moverreport.FirstContainer, Result: moverreport.ResultConverged, ForecastSeconds: 1, Claims: []moverreport.ClaimReport{
				{Name: "data", Bytes: 7, Total: 7, Files: 3}}}),
			runs(moverreport.FinalContainer)}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: moverreport.PinContainer, State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}}}
	})
}

// FinalPassSucceeded makes a mover that has made its final pass for the hold. It keeps its volumes attached.
func FinalPassSucceeded(signal moverreport.Signal) Option {
	return FinalPassEnded(moverreport.MemberReport{Stage: moverreport.FinalContainer,
		Result: moverreport.ResultCopied, Signal: &signal, Claims: []moverreport.ClaimReport{{Name: "data", Bytes: 9, Total: 9, Files: 3,
			Verified: true}}})
}

// FinalPassEnded ends the final pass of a mover with the report. After a success the mover keeps its volumes attached.
func FinalPassEnded(report moverreport.MemberReport) Option {
	return Edit(func(p *corev1.Pod) {
		FirstPassConverged()(p)
		p.Status.InitContainerStatuses[1] = EndedContainer(moverreport.FinalContainer, report)
		if p.Status.Phase = corev1.PodFailed; report.Code == moverreport.CodeOK {
			p.Status.Phase, p.Status.ContainerStatuses = corev1.PodRunning, []corev1.ContainerStatus{runs(moverreport.PinContainer)}
		}
	})
}

func runs(container string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: container, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
}

// EndedContainer returns the status of a mover's container that has ended with the report.
func EndedContainer(container string, report moverreport.MemberReport) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: container, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: int32(report.Code), Message: string(report.Encode(moverreport.TerminationLogLimit)), FinishedAt: metav1.NewTime(Now)}}}
}

// InPhase sets a pod's phase.
func InPhase(phase corev1.PodPhase) Option {
	return Edit(func(p *corev1.Pod) { p.Status.Phase = phase })
}

// Job builds the running Job that copies a member of set web.
func Job(ordinal, attempt int, options ...Option) *batchv1.Job {
	job := &batchv1.Job{ObjectMeta: meta(Namespace, api.MoverName(ID, ordinal, attempt))}
	targets := map[string]types.UID{}
	for _, template := range []string{"data", "logs"} {
		name := api.TargetName(ID, fmt.Sprintf("%s-web-%d", template, ordinal), 0)
		targets[name] = types.UID("uid-" + name)
	}
	link := LinkOf(api.Link{Operation: ID, Role: api.RoleMover, Namespace: Namespace, Set: api.SetRef{Name: "web", UID: "uid-web"},
		Member: &ordinal, Claims: targets})
	return With(job, append([]Option{link}, options...)...)
}

// Complete adds the condition of a Job that succeeded.
func Complete() Option { return condition(batchv1.JobComplete, "", "") }

// EndedPods returns the pods of the complete Jobs. Each has ended by itself a minute before now.
func EndedPods(now time.Time, jobs ...*batchv1.Job) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, job := range jobs {
		complete := func(c batchv1.JobCondition) bool {
			return c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue
		}
		if slices.ContainsFunc(job.Status.Conditions, complete) {
			ended := corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(now.Add(-time.Minute))}
			status := corev1.PodStatus{Phase: corev1.PodSucceeded,
				ContainerStatuses: []corev1.ContainerStatus{{Name: "hook", State: corev1.ContainerState{Terminated: &ended}}}}
			pods = append(pods, &corev1.Pod{Status: status, ObjectMeta: metav1.ObjectMeta{
				Namespace: job.Namespace, Name: job.Name + "-x", UID: "uid-" + job.UID + "-x", CreationTimestamp: metav1.NewTime(Now),
				Annotations:     job.Spec.Template.Annotations,
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))}}})
		}
	}
	return pods
}

// NoKills returns the observation that no Event tells of an early end of the pods.
func NoKills(pods ...*corev1.Pod) podend.Kills {
	kills := podend.Kills{Events: map[types.UID]podend.Told{}}
	for _, pod := range pods {
		if podend.NeedsKills(pod) {
			kills.Events[pod.UID] = podend.Told{}
		}
	}
	return kills
}

// Failed adds the condition of a Job that failed for good.
func Failed(reason, message string) Option { return condition(batchv1.JobFailed, reason, message) }

func condition(kind batchv1.JobConditionType, reason, message string) Option {
	return Edit(func(j *batchv1.Job) {
		j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, Reason: reason,
			Message: message})
	})
}

// Journal builds the journal of the operation.
func Journal(status *api.Resize, options ...Option) *appsv1.ControllerRevision {
	journal := resources.MakeJournal(Set(status.Set.Name), status)
	journal.UID, journal.ResourceVersion = "uid-journal", "rv-journal"
	return With(journal, options...)
}

// Attachment attaches the volume to a node.
func Attachment(volume string) *storagev1.VolumeAttachment {
	a := &storagev1.VolumeAttachment{ObjectMeta: meta("", "csi-"+volume)}
	a.Spec.Source.PersistentVolumeName = &volume
	return a
}
