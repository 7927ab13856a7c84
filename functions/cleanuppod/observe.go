package cleanuppod

import (
	"context"
	"math"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/events"
	"drydock.dev/shared/fault"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
)

// observe reads the objects that Decide needs.
func (f *Function) observe(ctx context.Context, ref events.Ref, retry bool) (Input, error) {
	in := Input{Now: time.Now(), Name: ref.Name, Settings: f.settings, Retry: retry}
	set := &appsv1.StatefulSet{}
	found, err := f.client.Get(ctx, plan.StatefulSets, ref.Namespace, ref.Name, set)
	if err != nil {
		return in, err
	}
	selector := ""
	if found {
		in.Set = set
		if err := f.observeClaims(ctx, &in); err != nil {
			return in, err
		}
	} else {
		selector = api.OperationLabel // only cleanup pods matter
	}
	err = kube.Pages(ctx, f.client, plan.Pods, ref.Namespace, selector, &corev1.PodList{}, func(l *corev1.PodList) {
		for i := range l.Items {
			if pod := &l.Items[i]; in.isRelevant(pod) {
				in.Pods = append(in.Pods, pod)
			}
		}
	})
	if err != nil || !found {
		return in, err
	}
	in.Kills = f.client.Kills(ctx, in.cleanupPods())
	held := set.DeletionTimestamp != nil && cleanup.HasFinalizer(set)
	noneWanted := statefulset.CleanupAsked(set) && (held || statefulset.Replicas(set) == 0)
	if noneWanted || statefulset.Controller(set) != nil && in.hasLeftovers() {
		if err := f.observeRecords(ctx, &in, noneWanted); err != nil {
			return in, err
		}
	}
	if noneWanted || in.needsScalers() {
		if err := f.observeScalers(ctx, &in); err != nil {
			return in, err
		}
	}
	if held {
		return in, f.observeRevision(ctx, &in)
	}
	return in, f.tryTemplate(ctx, &in)
}

// observeRecords reads the roles of the records that other operations keep for the set. Each operation creates its record before it
// removes replicas. An operator that Drydock has stopped for another set also stops this one, if both have the same owner.
func (f *Function) observeRecords(ctx context.Context, in *Input, noneWanted bool) error {
	return kube.Pages(ctx, f.client, plan.ControllerRevisions, in.Set.Namespace, api.OperationLabel, &appsv1.ControllerRevisionList{},
		func(l *appsv1.ControllerRevisionList) {
			for i := range l.Items {
				link := api.RevisionLink(&l.Items[i])
				if link == nil {
					continue
				}
				// Of a set with members, only an operator that was stopped matters.
				owner, err := api.LoadPausedOwner(&l.Items[i])
				stopped := link.Role == api.RoleOwner && err == nil && owner.Stopped
				ours := link.Set.Name == in.Name && (noneWanted && !isOver(in.Set, link) || stopped)
				if ours || stopped && operation.MayStop(in.Set, owner.UID, owner.KindBelow) {
					in.Records = append(in.Records, link.Role)
				}
			}
		})
}

// isOver reports whether the record of a paused owner is the rest of a resize that has ended. It stays while the owner cannot be resumed.
func isOver(set *appsv1.StatefulSet, link *api.Link) bool {
	record := operation.Of(set).Resize
	return link.Role == api.RoleOwner && record != nil && record.Operation == link.Operation && record.Phase.Terminal()
}

// needsScalers reports whether a cleanup could begin or continue on members that a Scaler wants, because the set has no record of it.
func (in *Input) needsScalers() bool {
	records := operation.Of(in.Set)
	return records.Scale == nil && records.ScaleErr == nil && in.hasLeftovers()
}

// hasLeftovers reports whether a cleanup could begin or continue.
func (in *Input) hasLeftovers() bool {
	return statefulset.CleanupAsked(in.Set) && len(in.leftBehind(operation.Of(in.Set).Cleanup, in.ordinals())) > 0
}

// observeScalers sets Paused if a Scaler keeps members away, and ScalerWants. If the custom resource is not installed, there is no Scaler.
func (f *Function) observeScalers(ctx context.Context, in *Input) error {
	err := kube.Pages(ctx, f.client, plan.Scalers, in.Set.Namespace, "", &v1alpha1.ScalerList{}, func(l *v1alpha1.ScalerList) {
		for i := range l.Items {
			scaler, record := &l.Items[i], operation.Of(in.Set).Scale
			if scaler.Spec.Target != in.Name {
				continue
			}
			in.Paused = in.Paused || keepsMembersAway(&scaler.Spec, record)
			if record == nil && scaler.DeletionTimestamp == nil {
				in.ScalerWants = max(in.ScalerWants, membersOf(scaler))
			}
		}
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// membersOf returns how many members the Scaler wants during and after a pause. If the manifest of a paused Scaler says no count, nothing
// knows how many members come back.
func membersOf(scaler *v1alpha1.Scaler) int {
	if members := scaler.Members(); members > 0 || scaler.Spec.Replicas != nil || !scaler.Spec.Paused {
		return int(members)
	}
	return math.MaxInt32
}

// keepsMembersAway reports whether the Scaler is paused, or may have been: it wants members, and the record of its last scaling is lost.
func keepsMembersAway(scaler *v1alpha1.ScalerSpec, record *api.Scale) bool {
	wanted := scaler.Paused || record == nil && scaler.Replicas != nil
	return wanted && ptr.Deref(scaler.Replicas, 1) > 0
}

// observeClaims reads the claims whose names belong to the set.
func (f *Function) observeClaims(ctx context.Context, in *Input) error {
	return kube.Pages(ctx, f.client, plan.Claims, in.Set.Namespace, "", &corev1.PersistentVolumeClaimList{},
		func(l *corev1.PersistentVolumeClaimList) {
			for i := range l.Items {
				if _, _, ok := statefulset.ParseClaimName(in.Set, l.Items[i].Name); ok {
					in.Claims = append(in.Claims, &l.Items[i])
				}
			}
		})
}

// isRelevant reports whether the pod is a cleanup pod of a set of this name, has the name of a replica, or uses a claim.
func (in *Input) isRelevant(pod *corev1.Pod) bool {
	if cleanup.LinkOf(pod, in.Name) != nil {
		return true
	}
	if in.Set == nil {
		return false
	}
	if _, replica := statefulset.ParsePodName(in.Set, pod.Name); replica {
		return true
	}
	for _, c := range in.Claims {
		if statefulset.Mounts(pod, c.Name) {
			return true
		}
	}
	return false
}

// cleanupPods returns the cleanup pods of a set of this name.
func (in *Input) cleanupPods() []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(in.Pods), func(pod *corev1.Pod) bool { return cleanup.LinkOf(pod, in.Name) == nil })
}

// observeRevision reads the ControllerRevision of the set's pods. Its owner reference shows how the set is deleted.
func (f *Function) observeRevision(ctx context.Context, in *Input) error {
	if in.Set.Status.UpdateRevision == "" {
		return nil
	}
	revision := &appsv1.ControllerRevision{}
	found, err := f.client.Get(ctx, plan.ControllerRevisions, in.Set.Namespace, in.Set.Status.UpdateRevision, revision)
	if found {
		in.Revision = revision
	}
	return err
}

// tryTemplate creates a pod of a new template as a dry run, to learn whether the API server accepts it.
func (f *Function) tryTemplate(ctx context.Context, in *Input) error {
	template, problem := in.newTemplate()
	if template == nil || problem != nil {
		return nil
	}
	pod := resources.MakeCleanupPod(in.Set, template, api.OperationID(in.Set.UID, string(api.KindCleanup), 0), statefulset.Span(in.Set).End,
		nil)
	pod.Name, pod.OwnerReferences = "", nil
	pod.GenerateName = "drydock-"
	err := fault.FromAPI(f.client.Create(ctx, plan.Pods, in.Set.Namespace, pod, true))
	switch {
	case apierrors.IsForbidden(err): // for example by a quota, which has room after a scale-down
		in.Doubt = err.Error()
	case fault.IsPermanent(err):
		in.PodRejected = err.Error()
	default:
		return err
	}
	return nil
}
