package scale

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/events"
	"drydock.dev/shared/fault"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/members"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/scaling"
	"drydock.dev/shared/statefulset"
)

func (f *Function) observe(ctx context.Context, ref events.Ref) (Input, error) {
	in := Input{Now: time.Now(), Namespace: ref.Namespace, Name: ref.Name, Settings: f.settings}
	err := kube.Pages(ctx, f.client, plan.Scalers, ref.Namespace, "", &v1alpha1.ScalerList{}, func(l *v1alpha1.ScalerList) {
		for i := range l.Items {
			if l.Items[i].Spec.Target == ref.Name {
				in.Scalers = append(in.Scalers, &l.Items[i])
			}
		}
	})
	if err != nil && !apierrors.IsNotFound(err) { // NotFound: the CustomResourceDefinition of Scalers was removed
		return in, err
	}
	set := &appsv1.StatefulSet{}
	found, err := f.client.Get(ctx, plan.StatefulSets, ref.Namespace, ref.Name, set)
	if err != nil {
		return in, err
	}
	if found {
		in.Set = set
	}
	if err := f.observeMembers(ctx, &in); err != nil {
		return in, err
	}
	if err := f.observeRecords(ctx, &in, ref.Operation); err != nil {
		return in, err
	}
	if err := f.observeAutoscalers(ctx, &in); err != nil {
		return in, err
	}
	if err := f.observeJobs(ctx, &in); err != nil {
		return in, err
	}
	f.observeHookPods(ctx, &in)
	return in, nil
}

// observeHookPods reads the pods of the hook Job that has ended, and the Events about their ends. If that fails, a failed hook is reported
// without exit codes, and another hook is judged by a later look.
func (f *Function) observeHookPods(ctx context.Context, in *Input) {
	job := in.endedHook()
	if job == nil {
		return
	}
	err := kube.Pages(ctx, f.client, plan.Pods, in.Namespace, batchv1.JobNameLabel+"="+job.Name, &corev1.PodList{},
		func(l *corev1.PodList) {
			for i := range l.Items {
				if pod := &l.Items[i]; metav1.IsControlledBy(pod, job) {
					in.HookPods = append(in.HookPods, pod)
				}
			}
		})
	in.Kills = f.client.Kills(ctx, in.HookPods)
	if err != nil {
		in.Kills.Unread = fmt.Sprintf("reading the pods of Job %s: %s", job.Name, fault.Words(err))
	}
}

// observeAutoscalers reads the HorizontalPodAutoscaler named after the Scaler that scales the set, whatever its mode. An interrupted
// function therefore leaves no autoscaler behind: a leftover autoscaler changes its Scaler, and that change causes an event. For the other
// Scalers of the set, the autoscaler is read only if they have the condition Autoscaled.
func (f *Function) observeAutoscalers(ctx context.Context, in *Input) error {
	var record *api.Scale
	if in.Set != nil {
		record, _ = api.LoadScale(in.Set) // Decide reports an unreadable record
	}
	owner := scaling.Owner(in.Scalers, record)
	for _, s := range in.Scalers {
		if s != owner && !scaling.HasAutoscaledCondition(s) {
			continue
		}
		autoscaler := &autoscalingv2.HorizontalPodAutoscaler{}
		found, err := f.client.Get(ctx, plan.Autoscalers, in.Namespace, s.Name, autoscaler)
		if err != nil {
			return err
		}
		if found {
			in.Autoscalers = append(in.Autoscalers, autoscaler)
		}
	}
	return nil
}

// observeJobs reads the hook Jobs of the set. If the current hook has no Job yet, it looks for a Job of another client with that name. Such
// a Job may lack the label of the first list.
func (f *Function) observeJobs(ctx context.Context, in *Input) error {
	err := kube.Pages(ctx, f.client, plan.Jobs, in.Namespace, api.OperationLabel, &batchv1.JobList{}, func(l *batchv1.JobList) {
		for i := range l.Items {
			job := &l.Items[i]
			if isHook(job, in.Name) {
				in.Jobs = append(in.Jobs, job)
			}
		}
	})
	missing := in.missingHookJob()
	if err != nil || missing == "" {
		return err
	}
	return kube.Named(ctx, f.client, plan.Jobs, in.Namespace, missing, &batchv1.JobList{}, func(l *batchv1.JobList) {
		for i := range l.Items {
			if job := &l.Items[i]; isHook(job, in.Name) { // it was created after the first list
				in.Jobs = append(in.Jobs, job)
			} else {
				in.Namesake = job
			}
		}
	})
}

// isHook reports whether the Job runs a hook for a scaling of the set. Users can create Jobs with such a link, so the name must match, too:
// the policy drydock-fence-jobs refuses the deletion of a Job with another name.
func isHook(job *batchv1.Job, set string) bool {
	link, err := api.LoadLink(job)
	return err == nil && link != nil && link.Role == api.RoleScaleHook && link.Set.Name == set &&
		slices.ContainsFunc([]string{preHook, postHook, failureHook}, func(hook string) bool {
			return job.Name == api.ScaleHookName(link.Operation, hook)
		})
}

// observeMembers reads what the ledger needs. Of a set that was scaled down: whether a record of a stop, a resize or a paused owner says
// that its pods were stopped for a while, or that its claims are incomplete. Such a record is written before any pod is stopped, and the
// set was read before this. Of a set that was scaled up: which ordinals have a cleanup pod.
func (f *Function) observeMembers(ctx context.Context, in *Input) error {
	if in.Set == nil {
		return nil
	}
	if members.Shrinks(in.Set) {
		return kube.Pages(ctx, f.client, plan.Pods, in.Namespace, api.OperationLabel, &corev1.PodList{}, func(l *corev1.PodList) {
			for i := range l.Items {
				ordinal, named := statefulset.ParsePodName(in.Set, l.Items[i].Name)
				if link := cleanup.LinkOf(&l.Items[i], in.Name); named && link != nil && link.Set.UID == in.Set.UID {
					in.Members.Begun = append(in.Members.Begun, ordinal)
				}
			}
		})
	}
	if !members.Orders(in.Set) {
		return nil
	}
	return f.listRevisions(ctx, in.Namespace, func(revision *appsv1.ControllerRevision, link *api.Link) {
		in.Members.Held = in.Members.Held || link.Set.Name == in.Name
	})
}

// observeRecords reads the records of stops, if the set may have one. Another set has none, or one that the sweep finds: its event names
// the operation.
func (f *Function) observeRecords(ctx context.Context, in *Input, operationID string) error {
	if operationID == "" && in.Set != nil && !mayHaveRecord(in.Set, len(in.Scalers) > 0) {
		return nil
	}
	err := f.listRevisions(ctx, in.Namespace, func(revision *appsv1.ControllerRevision, link *api.Link) {
		if link.Role == api.RoleStop && link.Set.Name == in.Name {
			in.Records = append(in.Records, revision)
		}
	})
	if err != nil || len(in.Records) == 0 || in.Set == nil {
		return err
	}
	// The set must be newer than its records: another process may have begun the next stop since, whose record would look left over.
	set := &appsv1.StatefulSet{}
	found, err := f.client.Get(ctx, plan.StatefulSets, in.Namespace, in.Name, set)
	if in.Set = nil; found {
		in.Set = set
	}
	return err
}

// mayHaveRecord reports whether the record of a stop may exist for the set: it is stopped or about to be, its Stop has not ended, or it was
// replaced by a manifest while its Scaler was paused.
func mayHaveRecord(set *appsv1.StatefulSet, hasScaler bool) bool {
	scaling := operation.Of(set).Scale
	return statefulset.Replicas(set) == 0 || api.LoadStop(set) != nil || members.HoldingSleep(set) != nil ||
		scaling != nil && scaling.Paused || hasScaler && scaling == nil
}

// listRevisions calls use with each ControllerRevision of an operation in the namespace.
func (f *Function) listRevisions(ctx context.Context, namespace string, use func(*appsv1.ControllerRevision, *api.Link)) error {
	return kube.Pages(ctx, f.client, plan.ControllerRevisions, namespace, api.OperationLabel, &appsv1.ControllerRevisionList{},
		func(l *appsv1.ControllerRevisionList) {
			for i := range l.Items {
				if link := api.RevisionLink(&l.Items[i]); link != nil {
					use(&l.Items[i], link)
				}
			}
		})
}
