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

// sweep finds every unfinished piece of work from the objects alone, so that a lost event delays and never stalls: the
// opted-in sets with an operation or an unmet request, the journals of operations whose set is gone, and the old
// volumes whose window is over. It sends one event for each set that needs a look.
func (f *Function) sweep(ctx context.Context) error {
	now := time.Now()
	found := &findings{tick: fmt.Sprint(now.Unix()), looks: map[events.Ref]look{}, active: map[string]bool{}, given: map[string]bool{},
		scaled: map[events.Ref]scaled{}}
	if err := f.sweepAll(ctx, now, found); err != nil {
		return fmt.Errorf("sweeping: %w", err)
	}
	err := f.sendAll(ctx, found)
	if err == nil {
		f.swept = now
	}
	f.log.Debug("swept", "sets", found.sets, "found", len(found.order))
	return err
}

// sweepAll looks at everything in the namespaces, and at the volumes of all of them.
func (f *Function) sweepAll(ctx context.Context, now time.Time, found *findings) error {
	for _, namespace := range f.namespaces {
		if err := errors.Join(f.sweepSets(ctx, namespace, now, found), f.sweepJournals(ctx, namespace, now, found), f.sweepPods(ctx, namespace, found), f.sweepFinalizers(ctx, namespace, now, found), f.sweepScalers(ctx, namespace, found), f.sweepHooks(ctx, namespace, found)); err != nil {
			return err
		}
	}
	return f.sweepVolumes(ctx, now, found)
}

// findings collects what a sweep found, one look a set.
type findings struct {
	tick  string
	sets  int
	order []events.Ref
	looks map[events.Ref]look
	// active holds the operations that are named in the status of their set.
	active map[string]bool
	// given holds those of them that have given the set its replicas back: a paused owner is to be resumed.
	given map[string]bool
	// scaled are the sets that a Scaler scales, or has scaled.
	scaled map[events.Ref]scaled
	// recorded holds the operations that are named in a ControllerRevision.
	recorded map[string]bool
}

// scaled is a set with the record of a Scaler.
type scaled struct {
	members int32
	look    look
}

// record notes that the operation is named in a ControllerRevision.
func (r *findings) record(operation string) {
	if r.recorded == nil {
		r.recorded = map[string]bool{}
	}
	r.recorded[operation] = true
}

// add notes who has to look at a set. A set may have an unmet request and the rest of another operation at once, and
// the request may wait for that rest to be cleared, so both are told.
func (r *findings) add(l look) {
	key := events.Ref{Namespace: l.ref.Namespace, Name: l.ref.Name}
	if known, ok := r.looks[key]; ok {
		for _, f := range l.concerns {
			if !slices.Contains(known.concerns, f) {
				known.concerns = append(slices.Clip(known.concerns), f)
			}
		}
		r.looks[key] = known
		return
	}
	if len(l.concerns) == 0 {
		return
	}
	l.seen = "tick/" + r.tick + "/" + l.seen
	r.order, r.looks[key] = append(r.order, key), l
}

func (f *Function) sweepSets(ctx context.Context, namespace string, now time.Time, found *findings) error {
	growth, err := f.growth(ctx, namespace)
	if err != nil {
		return err
	}
	groups := map[events.Ref]idle.Group{}
	lag := map[string][]*lagging{} // by namespace
	selector := api.ManagedLabel + "=true"
	err = kube.Pages(ctx, f.client, plan.StatefulSets, namespace, selector, &appsv1.StatefulSetList{}, func(l *appsv1.StatefulSetList) {
		for i := range l.Items {
			set := &l.Items[i]
			change := operation.Change{Set: set, Records: operation.Of(set), Now: now, Swept: true, Retry: f.retry}
			found.note(set, change.Records)
			concerns := resize.Concerned(change)
			found.add(lookOf(set, slices.Concat(concerns, cleanup.Concerned(change), scale.Concerned(change), growth.Concerned(change))))
			if change.Records.Scale != nil {
				found.scaled[events.Ref{Namespace: set.Namespace, Name: set.Name}] = scaled{set.Status.Replicas, lookOf(set, []api.Function{api.ScaleHooks})}
			}
			if lagging := lags(change); lagging != nil && !slices.Contains(concerns, api.DetectResize) {
				lag[set.Namespace] = append(lag[set.Namespace], lagging)
			}
			member := idle.NewMember(set, change.Records)
			member.Set = slimSet(set)
			groups[groupOf(set)] = append(groups[groupOf(set)], member)
		}
	})
	if err != nil {
		return err
	}
	for _, key := range slices.SortedFunc(maps.Keys(groups), func(a, b events.Ref) int { return strings.Compare(a.String(), b.String()) }) {
		group := groups[key].InOrder() // judged when all its members are known
		for i, concerns := range group.Concerned(now, f.retry) {
			found.add(lookOf(group[i].Set, concerns))
		}
	}
	for namespace, sets := range lag {
		if err := f.sweepClaims(ctx, found, namespace, sets); err != nil {
			return err
		}
	}
	return nil
}

// note counts the set and its operations.
func (r *findings) note(set *appsv1.StatefulSet, records operation.Records) {
	r.sets++
	for _, record := range records.All() {
		id := record.Head().Operation
		if record.Active() {
			r.active[id] = true
		}
		if operation.GivenBack(set, record) {
			r.given[id] = true
		}
	}
}

// groupOf names the group that a set sleeps and wakes with: of its own name where it has none.
func groupOf(set *appsv1.StatefulSet) events.Ref {
	if group := set.Labels[api.GroupLabel]; group != "" {
		return events.Ref{Namespace: set.Namespace, Name: group, Operation: "group"}
	}
	return events.Ref{Namespace: set.Namespace, Name: set.Name}
}

// sweepClaims compares the sets' claims with what they ask for, page by page.
func (f *Function) sweepClaims(ctx context.Context, found *findings, namespace string, sets []*lagging) error {
	return kube.Pages(ctx, f.client, plan.Claims, namespace, "", &corev1.PersistentVolumeClaimList{}, func(l *corev1.PersistentVolumeClaimList) {
		claims := make([]*corev1.PersistentVolumeClaim, len(l.Items))
		for i := range l.Items {
			claims[i] = &l.Items[i]
		}
		sets = slices.DeleteFunc(sets, func(set *lagging) bool {
			behind := set.behind(claims)
			if behind {
				found.add(set.look)
			}
			return behind
		})
	})
}

// ownerMinutes is how many minutes pass between two looks at a paused owner.
const ownerMinutes = 10

// sweepJournals finds operations that no set tells of: the set was deleted, replaced, or lost its status or its label. And
// now and then it has a paused owner looked at: nothing else tells that somebody deletes it, and an operator that is paused
// may never let it go.
func (f *Function) sweepJournals(ctx context.Context, namespace string, now time.Time, found *findings) error {
	return kube.Pages(ctx, f.client, plan.ControllerRevisions, namespace, api.OperationLabel, &appsv1.ControllerRevisionList{}, func(l *appsv1.ControllerRevisionList) {
		for i := range l.Items {
			link := api.LoadRecord(&l.Items[i])
			if link == nil {
				continue
			}
			found.record(link.Operation)
			active := found.active[link.Operation]
			switch {
			case !active && link.Role == api.RoleSleep:
				found.add(lookOfLinked(&l.Items[i], []api.Function{api.IdleTimeout}))
			case !active && link.Role == api.RoleOwner:
				found.add(lookOfLinked(&l.Items[i], []api.Function{api.PauseOwner, api.IdleTimeout, api.Restore}))
			case !active:
				found.add(lookOfLinked(&l.Items[i], []api.Function{api.Restore, api.Backup, api.PauseOwner}))
			case link.Role == api.RoleOwner && (found.given[link.Operation] || now.Minute()%ownerMinutes == 0):
				found.add(lookOfLinked(&l.Items[i], []api.Function{api.PauseOwner}))
			}
		}
	})
}

// sweepVolumes finds old volumes whose window is over, and volumes of operations of which no set and no journal tells, as after the end
// of a namespace. Volumes are not namespaced; their links are. It also counts the volumes that operations keep from being reclaimed.
func (f *Function) sweepVolumes(ctx context.Context, now time.Time, found *findings) error {
	selector := api.OperationLabel
	if !slices.Contains(f.namespaces, metav1.NamespaceAll) {
		selector += fmt.Sprintf(",%s in (%s)", api.NamespaceLabel, strings.Join(f.namespaces, ","))
	}
	kept := telemetry.Kept{}
	err := kube.Pages(ctx, f.client, plan.Volumes, "", selector, &corev1.PersistentVolumeList{}, func(l *corev1.PersistentVolumeList) {
		for i := range l.Items {
			link, err := api.LoadLink(&l.Items[i])
			if err != nil || link == nil || !f.looksAfter(link.Namespace) {
				continue
			}
			orphaned := found.orphaned(&l.Items[i], link, now)
			count(&kept, &l.Items[i], orphaned)
			if !orphaned && !world.Expired(&l.Items[i], now) {
				continue
			}
			ref := events.Ref{Namespace: link.Namespace, Name: link.Set.Name, UID: link.Set.UID}
			found.add(look{ref: ref, seen: seen(&l.Items[i]), concerns: []api.Function{api.Restore}})
		}
	})
	if err == nil {
		telemetry.From(ctx).Volumes(kept)
	}
	return err
}

// orphaned reports whether the operation that holds the volume is named in no set and no journal that the sweep saw.
func (r *findings) orphaned(volume *corev1.PersistentVolume, link *api.Link, now time.Time) bool {
	return !r.active[link.Operation] && !r.recorded[link.Operation] && world.MayBeOrphan(volume, now)
}

func count(kept *telemetry.Kept, volume *corev1.PersistentVolume, orphaned bool) {
	switch {
	case orphaned:
		kept.Orphaned++
	case world.InWindow(volume):
		kept.Retained++
	default:
		kept.InUse++
	}
}

// sweepPods finds cleanup pods whose set is gone, is another one, or has lost its document. It also finds every held pod: one that no
// operation needs any more is never replaced, so restore has to release it.
func (f *Function) sweepPods(ctx context.Context, namespace string, found *findings) error {
	return kube.Pages(ctx, f.client, plan.Pods, namespace, api.OperationLabel, &corev1.PodList{}, func(l *corev1.PodList) {
		for i := range l.Items {
			link, err := api.LoadLink(&l.Items[i])
			switch {
			case err != nil || link == nil:
			case link.Role == api.RoleCleaner && !found.active[link.Operation]:
				found.add(lookOfLinked(&l.Items[i], []api.Function{api.CleanupPod}))
			case link.Role == api.RoleHeld && statefulset.Held(&l.Items[i]):
				found.add(lookOfLinked(&l.Items[i], []api.Function{api.Restore}))
			}
		}
	})
}

// sweepFinalizers finds sets with our finalizer that are not opted in any more and could not be deleted.
func (f *Function) sweepFinalizers(ctx context.Context, namespace string, now time.Time, found *findings) error {
	selector := api.FinalizerLabel + "=" + api.FinalizerForCleanup + "," + api.ManagedLabel + "!=true"
	return kube.Pages(ctx, f.client, plan.StatefulSets, namespace, selector, &appsv1.StatefulSetList{}, func(l *appsv1.StatefulSetList) {
		for i := range l.Items {
			set := &l.Items[i]
			found.add(lookOf(set, cleanup.Concerned(operation.Change{Set: set, Records: operation.Of(set), Now: now, Swept: true})))
		}
	})
}

// sweepScalers finds Scalers that a change of theirs, or of their sets, has left behind, and sets whose Scaler is gone. Where the custom resource is not installed, there are
// none.
func (f *Function) sweepScalers(ctx context.Context, namespace string, found *findings) error {
	targets := map[events.Ref]bool{}
	err := kube.Pages(ctx, f.client, plan.Scalers, namespace, "", &v1alpha1.ScalerList{}, func(l *v1alpha1.ScalerList) {
		for i := range l.Items {
			scaler := &l.Items[i]
			concerns := scale.ConcernedByScaler(scaler, false)
			target := events.Ref{Namespace: scaler.Namespace, Name: scaler.Spec.Target}
			if set, known := found.scaled[target]; !known || set.members != scaler.Status.Replicas {
				concerns = []api.Function{api.ScaleHooks}
			}
			found.add(lookOfScaler(scaler, concerns))
			targets[target] = true
		}
	})
	switch {
	case apierrors.IsForbidden(err): // the roles may be older than this Drydock; everything else is swept
		f.log.Warn("Scalers are not swept", "error", err.Error())
		return nil
	case err != nil && !apierrors.IsNotFound(err):
		return err
	}
	for ref, set := range found.scaled {
		if !targets[ref] && (namespace == metav1.NamespaceAll || ref.Namespace == namespace) {
			found.add(set.look)
		}
	}
	return nil
}

// sweepHooks finds the Jobs of scalings that have ended.
func (f *Function) sweepHooks(ctx context.Context, namespace string, found *findings) error {
	return kube.Pages(ctx, f.client, plan.Jobs, namespace, api.OperationLabel, &batchv1.JobList{}, func(l *batchv1.JobList) {
		for i := range l.Items {
			if link, err := api.LoadLink(&l.Items[i]); err == nil && link != nil && link.Role == api.RoleScaleHook && !found.active[link.Operation] {
				found.add(lookOfLinked(&l.Items[i], []api.Function{api.ScaleHooks}))
			}
		}
	})
}

func (f *Function) looksAfter(namespace string) bool {
	return f.namespaces[0] == "" || slices.Contains(f.namespaces, namespace)
}
