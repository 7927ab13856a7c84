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
	"drydock.dev/shared/members"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/scaling"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/telemetry"
	"drydock.dev/shared/turns"
	"drydock.dev/shared/world"
)

// sweep finds all unfinished work from the objects alone, so that a lost event only delays an operation. It finds opted-in sets with an
// active operation or an unmet request, journals of operations whose set is deleted, and old volumes whose retention has expired. It sends
// one event for each set that a function must observe.
func (f *Function) sweep(ctx context.Context) error {
	now := time.Now()
	found := newFindings(now)
	if err := f.sweepAll(ctx, now, found); err != nil {
		return fmt.Errorf("sweeping: %w", err)
	}
	found.figures.At = now
	telemetry.From(ctx).SetSweep(telemetry.Sweep(found.figures.sums))
	err := f.sendAll(ctx, found)
	if err == nil {
		f.lastSweep = now
	}
	f.log.Debug("sweep ended", "sets", found.sets, "found", len(found.order))
	return err
}

// sweepAll reads the objects of each namespace, and then the volumes, which have no namespace. A namespace that Drydock may not read, for
// example because its tenant has deleted the RoleBinding, delays no other.
func (f *Function) sweepAll(ctx context.Context, now time.Time, found *findings) error {
	for _, namespace := range f.namespaces {
		errs := []error{
			f.sweepSets(ctx, namespace, now, found),
			f.sweepJournals(ctx, namespace, now, found),
			f.sweepPods(ctx, namespace, found),
			f.sweepLinkedClaims(ctx, namespace, found),
			f.sweepFinalizers(ctx, namespace, now, found),
			f.sweepScalers(ctx, namespace, found),
			f.sweepHooks(ctx, namespace, found),
		}
		err := errors.Join(errs...)
		isOther := func(err error) bool { return err != nil && !apierrors.IsForbidden(err) }
		switch last := len(found.incomplete) == len(f.namespaces)-1; {
		case err == nil:
		case last || slices.ContainsFunc(errs, isOther): // if every namespace is forbidden, the installation is broken
			return err
		default:
			f.log.Warn("cannot read a namespace; restore its RoleBindings, or remove it from DRYDOCK_NAMESPACES", "namespace", namespace,
				"error", err.Error())
			found.incomplete[namespace] = true
		}
	}
	return errors.Join(f.sweepTurns(ctx, now, found), f.sweepVolumes(ctx, now, found))
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
			change := operation.Change{Set: set, Records: operation.Of(set), Now: now, Swept: true, PreviousSweep: f.lastSweep,
				Retry: f.settings.SleepRetry}
			found.addRecords(set, change.Records)
			found.figures.addSet(set, change.Records, now)
			concerns := resize.Concerned(change)
			if resize.WaitsForTurn(change) {
				n := noticeOf(set, concerns)
				found.waitingTurns[change.Records.Resize.Operation], concerns = &n, nil
			}
			found.add(noticeOf(set, slices.Concat(concerns, cleanup.Concerned(change), scaling.Concerned(change), growth.Concerned(change),
				operation.OwnerConcerned(change))))
			if change.Records.Scale != nil {
				found.scaledSets[events.Ref{Namespace: set.Namespace, Name: set.Name}] = scaledSet{set.Status.Replicas,
					members.Asleep(set), noticeOf(set, []api.Function{api.ScaleFunction})}
			}
			if request := unmetRequestOf(change); request != nil && !slices.Contains(concerns, api.DetectResize) && claimsDue(change) {
				unmet[set.Namespace] = append(unmet[set.Namespace], request)
			}
			groups[groupOf(set)] = append(groups[groupOf(set)], idle.NewMember(set, change.Records).Reduced())
		}
	})
	if err != nil {
		return err
	}
	for _, key := range slices.SortedFunc(maps.Keys(groups), func(a, b events.Ref) int { return strings.Compare(a.String(), b.String()) }) {
		group := groups[key].InWakeOrder() // complete only now that all sets were read
		for i, concerns := range group.Concerned(operation.Change{Now: now, Swept: true, PreviousSweep: f.lastSweep,
			Retry: f.settings.SleepRetry}) {
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

// claimPeriod is the time between two comparisons of a set's claims with a request that has succeeded before. Most sets of a large cluster
// have such a request, and the comparison lists all claims of the namespace.
const claimPeriod = 15 * time.Minute

// claimsDue reports whether this sweep compares the claims of the set with its request and its floors. After a resize each sweep does so
// for one period, because a replica that was added during the resize has a claim of the old size. Later the namespaces take turns.
func claimsDue(c operation.Change) bool {
	record, growTo := c.Records.Resize, world.GrowTo(c.Set, c.Records.Resize, false)
	request, _ := api.RequestOf(c.Set)
	if record == nil || record.Phase != api.Succeeded && !record.IsGrowth() || record.Finished == nil ||
		record.Request != request || growTo != "" && growTo != record.GrowTo ||
		c.Now.Sub(record.Finished.Time) < claimPeriod {
		return true
	}
	return c.Due(c.Set.Namespace, claimPeriod)
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

// ownerCheckPeriod is the time between two checks of a paused owner.
const ownerCheckPeriod = 10 * time.Minute

// sweepJournals finds operations that no set names, because the set was deleted, was replaced, or lost its record or its label. Every
// ownerCheckPeriod it also wakes pause-owner for each paused owner: no event reports the deletion of an owner, and a paused operator may
// never remove its finalizer.
func (f *Function) sweepJournals(ctx context.Context, namespace string, now time.Time, found *findings) error {
	return kube.Pages(ctx, f.client, plan.ControllerRevisions, namespace, api.OperationLabel, &appsv1.ControllerRevisionList{},
		func(l *appsv1.ControllerRevisionList) {
			for i := range l.Items {
				link := api.RevisionLink(&l.Items[i])
				if link == nil || link.Namespace != l.Items[i].Namespace {
					continue // forged: no function works on it, so it must not count either
				}
				key := operationKey{link.Namespace, link.Operation}
				found.inJournals[key] = true
				kind, active := found.active[key]
				if link.Role == api.RoleOwner {
					found.figures.addOwner(&l.Items[i], kind)
				}
				switch {
				case link.Role == api.RoleStop && found.stops[key]:
				case link.Role == api.RoleStop: // its set has lost the Stop or the opt-in label, or is about to be stopped
					found.add(noticeOfLinked(&l.Items[i], []api.Function{api.IdleTimeout, api.ScaleFunction}))
				case !active && link.Role == api.RoleOwner:
					found.add(noticeOfLinked(&l.Items[i], []api.Function{api.PauseOwner, api.IdleTimeout, api.Restore}))
				case !active:
					found.add(noticeOfLinked(&l.Items[i], []api.Function{api.Restore, api.Backup, api.PauseOwner}))
				case link.Role == api.RoleOwner && (found.replicasRestored[key] ||
					operation.Due(link.Operation, ownerCheckPeriod, f.lastSweep, now)):
					found.add(noticeOfLinked(&l.Items[i], []api.Function{api.PauseOwner}))
				}
			}
		})
}

// sweepPods finds cleanup pods whose set was deleted, was replaced, or has lost its record, and movers of operations that have ended: a
// slow process may have created their Job afterwards. It also finds every held pod: a held pod that no operation needs is never replaced,
// so restore must release it.
func (f *Function) sweepPods(ctx context.Context, namespace string, found *findings) error {
	return kube.Pages(ctx, f.client, plan.Pods, namespace, api.OperationLabel, &corev1.PodList{}, func(l *corev1.PodList) {
		for i := range l.Items {
			link, err := api.LoadLink(&l.Items[i])
			switch {
			case err != nil || link == nil || link.Namespace != l.Items[i].Namespace: // forged, as in sweepJournals
			case link.Role == api.RoleCleaner && !found.isActive(operationKey{link.Namespace, link.Operation}):
				found.add(noticeOfLinked(&l.Items[i], []api.Function{api.CleanupPod}))
			case link.Role == api.RoleMover && found.isOver(operationKey{link.Namespace, link.Operation}):
				found.add(noticeOfLinked(&l.Items[i], []api.Function{api.Restore}))
			case link.Role == api.RoleHeld && statefulset.Held(&l.Items[i]):
				found.figures.addHeld(&l.Items[i])
				found.add(noticeOfLinked(&l.Items[i], []api.Function{api.Restore}))
			}
		}
	})
}

// sweepLinkedClaims finds the claims of operations that have ended: a slow process may have linked them afterwards.
func (f *Function) sweepLinkedClaims(ctx context.Context, namespace string, found *findings) error {
	return kube.Pages(ctx, f.client, plan.Claims, namespace, api.OperationLabel, &corev1.PersistentVolumeClaimList{},
		func(l *corev1.PersistentVolumeClaimList) {
			for i := range l.Items {
				link, err := api.LoadLink(&l.Items[i])
				if err == nil && link != nil && link.Role == api.RoleSource && link.Namespace == l.Items[i].Namespace &&
					found.isOver(operationKey{link.Namespace, link.Operation}) {
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
			found.add(noticeOf(set, cleanup.Concerned(operation.Change{Set: set, Records: operation.Of(set), Now: now, Swept: true,
				PreviousSweep: f.lastSweep})))
		}
	})
}

// sweepHooks finds hook Jobs of scalings that have ended.
func (f *Function) sweepHooks(ctx context.Context, namespace string, found *findings) error {
	return kube.Pages(ctx, f.client, plan.Jobs, namespace, api.OperationLabel, &batchv1.JobList{}, func(l *batchv1.JobList) {
		for i := range l.Items {
			if link, err := api.LoadLink(&l.Items[i]); err == nil && link != nil && link.Role == api.RoleScaleHook &&
				!found.isActive(operationKey{link.Namespace, link.Operation}) {
				found.add(noticeOfLinked(&l.Items[i], []api.Function{api.ScaleFunction}))
			}
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
			target := events.Ref{Namespace: scaler.Namespace, Name: scaler.Spec.Target}
			concerns := scaling.ConcernedByScaler(scaler, found.scaledSets[target].asleep, false)
			if set, known := found.scaledSets[target]; !known || set.members != scaler.Status.Replicas {
				concerns = []api.Function{api.ScaleFunction}
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

// sweepTurns finds resizes that may have their turn now, and turns whose operation is over. All other resizes that wait for their turn
// stay asleep: there may be thousands.
func (f *Function) sweepTurns(ctx context.Context, now time.Time, found *findings) error {
	config, err := f.client.TurnsConfig(ctx, f.settings)
	if apierrors.IsForbidden(err) { // the Roles may be older than this Drydock; the rest of the sweep continues
		f.log.Warn("cannot read the list of turns; apply the current Roles", "error", err.Error())
		err = nil
	}
	if err != nil {
		return err
	}
	list := turns.Read(config, f.settings, now)
	due := map[string]bool{}
	for _, t := range list.Next() {
		due[t.Operation] = true
	}
	if list.LacksOffer() {
		found.addOneThatWaits(due)
	}
	listed := map[string]bool{}
	for _, t := range list.All() {
		listed[t.Operation] = true
		waiting := found.waitingTurns[t.Operation]
		over := found.isOver(operationKey{t.Namespace, t.Operation})
		if f.covers(t.Namespace) && !found.incomplete[t.Namespace] && (over || waiting != nil && (t.Taken() || due[t.Operation])) {
			found.add(noticeOfTurn(t))
		}
	}
	for operation, notice := range found.waitingTurns {
		if !listed[operation] && list.HasRoom(notice.ref.Namespace) { // without a list, every resize has its turn
			found.add(*notice)
		}
	}
	return nil
}

// addOneThatWaits adds a resize that waits and may not have its turn yet. It asks again, and so stores who may have a turn.
func (f *findings) addOneThatWaits(due map[string]bool) {
	for _, operation := range slices.Sorted(maps.Keys(f.waitingTurns)) {
		if !due[operation] {
			f.add(*f.waitingTurns[operation])
			return
		}
	}
}

func noticeOfTurn(t turns.Turn) notice {
	return notice{ref: events.Ref{Namespace: t.Namespace, Name: t.Set, UID: t.UID}, cause: "turn/" + t.Operation,
		functions: []api.Function{api.PauseOwner}}
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
			if err != nil || link == nil || !f.covers(link.Namespace) || found.incomplete[link.Namespace] {
				continue
			}
			orphaned := found.isOrphaned(&l.Items[i], link, now)
			countVolume(&counts, &l.Items[i], orphaned)
			if !orphaned && world.IsRetained(&l.Items[i]) {
				found.figures.addRetained(&l.Items[i])
			}
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

// isOrphaned reports whether the volume's operation is over and has left the volume.
func (r *findings) isOrphaned(volume *corev1.PersistentVolume, link *api.Link, now time.Time) bool {
	return r.isOver(operationKey{link.Namespace, link.Operation}) && world.MayBeOrphan(volume, now)
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

// covers reports whether Drydock looks after the namespace.
func (f *Function) covers(namespace string) bool {
	return f.namespaces[0] == "" || slices.Contains(f.namespaces, namespace)
}
