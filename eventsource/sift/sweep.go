package sift

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/events"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/scale"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/telemetry"
	"drydock.dev/shared/world"
)

// sweep finds all unfinished work from the objects alone, so that a lost event only delays an operation. It finds opted-in sets with an
// active operation or an unmet request, journals of operations whose set is deleted, and old volumes whose retention has expired. It sends
// one event for each set that a function must observe.
func (f *Function) sweep(ctx context.Context) error {
	now := time.Now()
	found := &findings{tick: fmt.Sprint(now.Unix()), notices: map[events.Ref]notice{}, active: map[string]bool{},
		replicasRestored: map[string]bool{}, scaledSets: map[events.Ref]scaledSet{}}
	if err := f.sweepAll(ctx, now, found); err != nil {
		return fmt.Errorf("sweeping: %w", err)
	}
	err := f.sendAll(ctx, found)
	if err == nil {
		f.lastSweep = now
	}
	f.log.Debug("sweep ended", "sets", found.sets, "found", len(found.order))
	return err
}

// sweepAll reads the objects of each namespace, and then the volumes, which have no namespace.
func (f *Function) sweepAll(ctx context.Context, now time.Time, found *findings) error {
	for _, namespace := range f.namespaces {
		if err := errors.Join(
			f.sweepSets(ctx, namespace, now, found),
			f.sweepJournals(ctx, namespace, now, found),
			f.sweepPods(ctx, namespace, found),
			f.sweepFinalizers(ctx, namespace, now, found),
			f.sweepScalers(ctx, namespace, found),
			f.sweepHooks(ctx, namespace, found),
		); err != nil {
			return err
		}
	}
	return f.sweepVolumes(ctx, now, found)
}

// findings are the results of a sweep: one notice for each set, and the operations that it has seen.
type findings struct {
	tick    string
	sets    int
	order   []events.Ref
	notices map[events.Ref]notice
	// active holds the ids of active operations that a record on their set names.
	active map[string]bool
	// replicasRestored holds the ids of operations that have restored the replicas of their set. Their paused owner must be resumed.
	replicasRestored map[string]bool
	// scaledSets holds the sets with a scale record: a Scaler scales them, or has scaled them.
	scaledSets map[events.Ref]scaledSet
	// inJournals holds the ids of operations that a journal (a ControllerRevision) names.
	inJournals map[string]bool
}

// scaledSet is a set with a scale record.
type scaledSet struct {
	members int32
	notice  notice
}

// addJournal adds an operation that a journal names.
func (r *findings) addJournal(operation string) {
	if r.inJournals == nil {
		r.inJournals = map[string]bool{}
	}
	r.inJournals[operation] = true
}

// add adds a notice. Notices for the same set are merged: an unmet request may wait until the rest of an older operation is removed, so
// both functions must be woken.
func (r *findings) add(n notice) {
	key := events.Ref{Namespace: n.ref.Namespace, Name: n.ref.Name}
	if known, ok := r.notices[key]; ok {
		for _, f := range n.functions {
			if !slices.Contains(known.functions, f) {
				known.functions = append(slices.Clip(known.functions), f)
			}
		}
		r.notices[key] = known
		return
	}
	if len(n.functions) == 0 {
		return
	}
	n.cause = "tick/" + r.tick + "/" + n.cause
	r.order, r.notices[key] = append(r.order, key), n
}

func (f *Function) sweepSets(ctx context.Context, namespace string, now time.Time, found *findings) error {
	growth, err := f.growthPlan(ctx, namespace)
	if err != nil {
		return err
	}
	groups := map[events.Ref]idle.Group{}
	unmet := map[string][]*unmetRequest{} // by namespace
	selector := api.ManagedLabel + "=true"
	err = kube.Pages(ctx, f.client, plan.StatefulSets, namespace, selector, &appsv1.StatefulSetList{}, func(l *appsv1.StatefulSetList) {
		for i := range l.Items {
			set := &l.Items[i]
			change := operation.Change{Set: set, Records: operation.Of(set), Now: now, Swept: true, Retry: f.retry}
			found.addRecords(set, change.Records)
			concerns := resize.Concerned(change)
			found.add(noticeOf(set, slices.Concat(concerns, cleanup.Concerned(change), scale.Concerned(change), growth.Concerned(change))))
			if change.Records.Scale != nil {
				found.scaledSets[events.Ref{Namespace: set.Namespace, Name: set.Name}] = scaledSet{set.Status.Replicas,
					noticeOf(set, []api.Function{api.ScaleHooks})}
			}
			if request := unmetRequestOf(change); request != nil && !slices.Contains(concerns, api.DetectResize) {
				unmet[set.Namespace] = append(unmet[set.Namespace], request)
			}
			member := idle.NewMember(set, change.Records)
			member.Set = reducedSet(set)
			groups[groupOf(set)] = append(groups[groupOf(set)], member)
		}
	})
	if err != nil {
		return err
	}
	for _, key := range slices.SortedFunc(maps.Keys(groups), func(a, b events.Ref) int { return strings.Compare(a.String(), b.String()) }) {
		group := groups[key].InWakeOrder() // complete only now that all sets were read
		for i, concerns := range group.Concerned(now, f.retry) {
			found.add(noticeOf(group[i].Set, concerns))
		}
	}
	for namespace, sets := range unmet {
		if err := f.sweepClaims(ctx, found, namespace, sets); err != nil {
			return err
		}
	}
	return nil
}

// addRecords counts the set, and adds the operations of its records.
func (r *findings) addRecords(set *appsv1.StatefulSet, records operation.Records) {
	r.sets++
	for _, record := range records.All() {
		id := record.Head().Operation
		if record.Active() {
			r.active[id] = true
		}
		if operation.NoLongerStops(set, record) {
			r.replicasRestored[id] = true
		}
	}
}

// groupOf returns the key of the group that the set sleeps and wakes with. A set without a group is a group by itself.
func groupOf(set *appsv1.StatefulSet) events.Ref {
	if group := set.Labels[api.GroupLabel]; group != "" {
		return events.Ref{Namespace: set.Namespace, Name: group, Operation: "group"}
	}
	return events.Ref{Namespace: set.Namespace, Name: set.Name}
}

// sweepClaims compares the claims of the sets with the sets' requests, page by page.
func (f *Function) sweepClaims(ctx context.Context, found *findings, namespace string, sets []*unmetRequest) error {
	return kube.Pages(ctx, f.client, plan.Claims, namespace, "", &corev1.PersistentVolumeClaimList{},
		func(l *corev1.PersistentVolumeClaimList) {
			claims := make([]*corev1.PersistentVolumeClaim, len(l.Items))
			for i := range l.Items {
				claims[i] = &l.Items[i]
			}
			sets = slices.DeleteFunc(sets, func(set *unmetRequest) bool {
				isUnmet := set.isUnmetBy(claims)
				if isUnmet {
					found.add(set.notice)
				}
				return isUnmet
			})
		})
}

// ownerCheckMinutes is the number of minutes between two checks of a paused owner.
const ownerCheckMinutes = 10

// sweepJournals finds operations that no set names, because the set was deleted, was replaced, or lost its record or its label. Every
// ownerCheckMinutes it also wakes pause-owner for each paused owner: no event reports the deletion of an owner, and a paused operator may
// never remove its finalizer.
func (f *Function) sweepJournals(ctx context.Context, namespace string, now time.Time, found *findings) error {
	return kube.Pages(ctx, f.client, plan.ControllerRevisions, namespace, api.OperationLabel, &appsv1.ControllerRevisionList{},
		func(l *appsv1.ControllerRevisionList) {
			for i := range l.Items {
				link := api.LoadRecord(&l.Items[i])
				if link == nil {
					continue
				}
				found.addJournal(link.Operation)
				active := found.active[link.Operation]
				switch {
				case !active && link.Role == api.RoleSleep:
					found.add(noticeOfLinked(&l.Items[i], []api.Function{api.IdleTimeout}))
				case !active && link.Role == api.RoleOwner:
					found.add(noticeOfLinked(&l.Items[i], []api.Function{api.PauseOwner, api.IdleTimeout, api.Restore}))
				case !active:
					found.add(noticeOfLinked(&l.Items[i], []api.Function{api.Restore, api.Backup, api.PauseOwner}))
				case link.Role == api.RoleOwner && (found.replicasRestored[link.Operation] || now.Minute()%ownerCheckMinutes == 0):
					found.add(noticeOfLinked(&l.Items[i], []api.Function{api.PauseOwner}))
				}
			}
		})
}

// sweepVolumes finds old volumes whose retention has expired, and volumes of operations that no set and no journal names, for example
// after the deletion of their namespace. Volumes have no namespace, but their links do. It also counts the volumes that operations keep
// from being reclaimed.
func (f *Function) sweepVolumes(ctx context.Context, now time.Time, found *findings) error {
	selector := api.OperationLabel
	if !slices.Contains(f.namespaces, metav1.NamespaceAll) {
		selector += fmt.Sprintf(",%s in (%s)", api.NamespaceLabel, strings.Join(f.namespaces, ","))
	}
	counts := telemetry.ProtectedVolumes{}
	err := kube.Pages(ctx, f.client, plan.Volumes, "", selector, &corev1.PersistentVolumeList{}, func(l *corev1.PersistentVolumeList) {
		for i := range l.Items {
			link, err := api.LoadLink(&l.Items[i])
			if err != nil || link == nil || !f.covers(link.Namespace) {
				continue
			}
			orphaned := found.isOrphaned(&l.Items[i], link, now)
			countVolume(&counts, &l.Items[i], orphaned)
			if !orphaned && !world.Expired(&l.Items[i], now) {
				continue
			}
			ref := events.Ref{Namespace: link.Namespace, Name: link.Set.Name, UID: link.Set.UID}
			found.add(notice{ref: ref, cause: stateID(&l.Items[i]), functions: []api.Function{api.Restore}})
		}
	})
	if err == nil {
		telemetry.From(ctx).SetProtectedVolumes(counts)
	}
	return err
}

// isOrphaned reports whether the sweep found no set and no journal that names the volume's operation.
func (r *findings) isOrphaned(volume *corev1.PersistentVolume, link *api.Link, now time.Time) bool {
	return !r.active[link.Operation] && !r.inJournals[link.Operation] && world.MayBeOrphan(volume, now)
}

func countVolume(counts *telemetry.ProtectedVolumes, volume *corev1.PersistentVolume, orphaned bool) {
	switch {
	case orphaned:
		counts.Orphaned++
	case world.IsRetained(volume):
		counts.Retained++
	default:
		counts.InUse++
	}
}

// sweepPods finds cleanup pods whose set was deleted, was replaced, or has lost its record. It also finds every held pod: a held pod that
// no operation needs is never replaced, so restore must release it.
func (f *Function) sweepPods(ctx context.Context, namespace string, found *findings) error {
	return kube.Pages(ctx, f.client, plan.Pods, namespace, api.OperationLabel, &corev1.PodList{}, func(l *corev1.PodList) {
		for i := range l.Items {
			link, err := api.LoadLink(&l.Items[i])
			switch {
			case err != nil || link == nil:
			case link.Role == api.RoleCleaner && !found.active[link.Operation]:
				found.add(noticeOfLinked(&l.Items[i], []api.Function{api.CleanupPod}))
			case link.Role == api.RoleHeld && statefulset.Held(&l.Items[i]):
				found.add(noticeOfLinked(&l.Items[i], []api.Function{api.Restore}))
			}
		}
	})
}

// sweepFinalizers finds sets with Drydock's finalizer that are no longer opted in. They could not be deleted.
func (f *Function) sweepFinalizers(ctx context.Context, namespace string, now time.Time, found *findings) error {
	selector := api.FinalizerLabel + "=" + api.FinalizerForCleanup + "," + api.ManagedLabel + "!=true"
	return kube.Pages(ctx, f.client, plan.StatefulSets, namespace, selector, &appsv1.StatefulSetList{}, func(l *appsv1.StatefulSetList) {
		for i := range l.Items {
			set := &l.Items[i]
			found.add(noticeOf(set, cleanup.Concerned(operation.Change{Set: set, Records: operation.Of(set), Now: now, Swept: true})))
		}
	})
}

// sweepScalers finds Scalers whose status is not up to date, and sets whose Scaler was deleted. Without the CustomResourceDefinition there
// are none.
func (f *Function) sweepScalers(ctx context.Context, namespace string, found *findings) error {
	targets := map[events.Ref]bool{}
	err := kube.Pages(ctx, f.client, plan.Scalers, namespace, "", &v1alpha1.ScalerList{}, func(l *v1alpha1.ScalerList) {
		for i := range l.Items {
			scaler := &l.Items[i]
			concerns := scale.ConcernedByScaler(scaler, false)
			target := events.Ref{Namespace: scaler.Namespace, Name: scaler.Spec.Target}
			if set, known := found.scaledSets[target]; !known || set.members != scaler.Status.Replicas {
				concerns = []api.Function{api.ScaleHooks}
			}
			found.add(noticeOfScaler(scaler, concerns))
			targets[target] = true
		}
	})
	switch {
	case apierrors.IsForbidden(err): // the ClusterRoles may be older than this Drydock; the rest of the sweep continues
		f.log.Warn("cannot list Scalers; apply the current ClusterRoles", "error", err.Error())
		return nil
	case err != nil && !apierrors.IsNotFound(err):
		return err
	}
	for ref, set := range found.scaledSets {
		if !targets[ref] && (namespace == metav1.NamespaceAll || ref.Namespace == namespace) {
			found.add(set.notice)
		}
	}
	return nil
}

// sweepHooks finds hook Jobs of scalings that have ended.
func (f *Function) sweepHooks(ctx context.Context, namespace string, found *findings) error {
	return kube.Pages(ctx, f.client, plan.Jobs, namespace, api.OperationLabel, &batchv1.JobList{}, func(l *batchv1.JobList) {
		for i := range l.Items {
			if link, err := api.LoadLink(&l.Items[i]); err == nil && link != nil && link.Role == api.RoleScaleHook &&
				!found.active[link.Operation] {
				found.add(noticeOfLinked(&l.Items[i], []api.Function{api.ScaleHooks}))
			}
		}
	})
}

// covers reports whether Drydock looks after the namespace.
func (f *Function) covers(namespace string) bool {
	return f.namespaces[0] == "" || slices.Contains(f.namespaces, namespace)
}
