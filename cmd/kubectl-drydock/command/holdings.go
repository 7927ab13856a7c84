package command

import (
	"cmp"
	"context"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/cmd/kubectl-drydock/release"
	"drydock.dev/shared/api"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// holdings reads every set of the namespace with something to release, sorted by namespace and name.
func (s *session) holdings(ctx context.Context) ([]release.Input, error) {
	found := map[types.NamespacedName]*release.Input{}
	inputOf := func(namespace, name string) *release.Input {
		key := types.NamespacedName{Namespace: namespace, Name: name}
		if found[key] == nil {
			found[key] = &release.Input{Now: time.Now(), Namespace: namespace, Name: name}
		}
		return found[key]
	}
	var revisions []*appsv1.ControllerRevision
	gather := func(l *appsv1.ControllerRevisionList) {
		for i := range l.Items {
			revisions = append(revisions, &l.Items[i])
		}
	}
	err := kube.Pages(ctx, s.client, plan.ControllerRevisions, s.namespace, api.OperationLabel, &appsv1.ControllerRevisionList{}, gather)
	if err != nil {
		return nil, err
	}
	for _, revision := range revisions {
		link := api.RevisionLink(revision)
		if link == nil || link.Namespace != revision.Namespace {
			continue // not a record of Drydock
		}
		s.addRecord(ctx, inputOf(link.Namespace, link.Set.Name), revision, link)
	}
	if err := s.addHeldPods(ctx, inputOf); err != nil {
		return nil, err
	}
	err = kube.Pages(ctx, s.client, plan.StatefulSets, s.namespace, "", &appsv1.StatefulSetList{}, func(l *appsv1.StatefulSetList) {
		for i := range l.Items {
			set := &l.Items[i]
			if _, known := found[types.NamespacedName{Namespace: set.Namespace, Name: set.Name}]; known || isMarked(set) {
				inputOf(set.Namespace, set.Name).Set = set
			}
		}
	})
	var all []release.Input
	for _, in := range found {
		all = append(all, *in)
	}
	slices.SortFunc(all, func(a, b release.Input) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all, err
}

// addHeldPods adds the pods with a hold to their sets, and the claims of their namespaces.
func (s *session) addHeldPods(ctx context.Context, inputOf func(namespace, name string) *release.Input) error {
	setsIn := map[string][]*release.Input{} // by namespace
	err := kube.Pages(ctx, s.client, plan.Pods, s.namespace, api.OperationLabel, &corev1.PodList{}, func(l *corev1.PodList) {
		for i := range l.Items {
			pod := &l.Items[i]
			link, err := api.LoadLink(pod)
			if err != nil || link == nil || link.Role != api.RoleHeld || !statefulset.Held(pod) {
				continue
			}
			in := inputOf(pod.Namespace, link.Set.Name)
			in.Held = append(in.Held, pod)
			if !slices.Contains(setsIn[pod.Namespace], in) {
				setsIn[pod.Namespace] = append(setsIn[pod.Namespace], in)
			}
		}
	})
	if err != nil {
		return err
	}
	for namespace, sets := range setsIn {
		var claims []*corev1.PersistentVolumeClaim
		gather := func(l *corev1.PersistentVolumeClaimList) {
			for i := range l.Items {
				claims = append(claims, &l.Items[i])
			}
		}
		if err := kube.Pages(ctx, s.client, plan.Claims, namespace, "", &corev1.PersistentVolumeClaimList{}, gather); err != nil {
			return err
		}
		for _, in := range sets {
			in.Claims = claims
		}
	}
	return nil
}

// isMarked reports whether the set has a label, finalizer or active record of Drydock. A release keeps its configuration and the records of
// ended operations.
func isMarked(set *appsv1.StatefulSet) bool {
	for _, label := range []string{api.ManagedLabel, api.FinalizerLabel} {
		if _, ok := set.Labels[label]; ok {
			return true
		}
	}
	records := operation.Of(set)
	return records.Resizing() || records.Sleeping() || slices.Contains(set.Finalizers, api.CleanupFinalizer)
}

// addRecord adds a record to the facts about its set.
func (s *session) addRecord(ctx context.Context, in *release.Input, revision *appsv1.ControllerRevision, link *api.Link) {
	switch link.Role {
	case api.RoleStop:
		in.Stops = append(in.Stops, revision)
	case api.RoleJournal:
		in.Journals = append(in.Journals, revision)
	case api.RoleOwner:
		o := release.Owner{Record: revision, Operation: link.Operation, Set: link.Set.Name}
		o.Err = s.readOwner(ctx, &o)
		in.Owners = append(in.Owners, o)
	}
}

// readOwner reads the owner that the record names.
func (s *session) readOwner(ctx context.Context, o *release.Owner) error {
	doc, err := api.LoadPausedOwner(o.Record)
	if err != nil {
		return err
	}
	gv, err := schema.ParseGroupVersion(doc.APIVersion)
	if err != nil {
		return err
	}
	// Any user of the namespace may have written the record, and the user of this command may have more rights.
	if err := owners.CheckGroup(gv.Group); err != nil {
		return err
	}
	o.Doc = doc
	object, resource, err := s.client.GetCustom(ctx, plan.CustomResource(doc.Resource, gv), o.Record.Namespace, doc.Name)
	o.Resource = resource
	if object != nil && owners.IsRecorded(object, doc, o.Operation, o.Set) {
		o.Object = object
	}
	return err
}

// holdingsOf reads the facts about one set again.
func (s *session) holdingsOf(ctx context.Context, namespace, name string) (release.Input, error) {
	one := *s
	one.namespace = namespace
	all, err := one.holdings(ctx)
	for _, in := range all {
		if in.Name == name {
			return in, err
		}
	}
	return release.Input{Namespace: namespace, Name: name}, err
}

// oldVolumes returns the names of the volumes that operations have replaced and that are retained, and one of them that no claim uses. A
// user may have bound a claim to an old volume again, which then has the only data.
func (s *session) oldVolumes(ctx context.Context) (names []string, unused string, err error) {
	selector := api.OperationLabel
	if s.namespace != "" {
		selector += "," + api.NamespaceLabel + "=" + s.namespace
	}
	err = kube.Pages(ctx, s.client, plan.Volumes, "", selector, &corev1.PersistentVolumeList{}, func(l *corev1.PersistentVolumeList) {
		for i := range l.Items {
			volume := &l.Items[i]
			link, err := api.LoadLink(volume)
			if err != nil || link == nil || link.Role != api.RoleOldVolume {
				continue
			}
			names = append(names, volume.Name)
			if volume.Status.Phase == corev1.VolumeReleased && (unused == "" || volume.Name < unused) {
				unused = volume.Name
			}
		}
	})
	slices.Sort(names)
	return names, unused, err
}
