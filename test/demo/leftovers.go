package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"drydock.dev/shared/api"
)

// found is an object in the namespace, or a volume of one of its claims.
type found struct {
	kind string
	metav1.ObjectMeta
	volume *corev1.PersistentVolume // for volumes
}

func (f found) String() string { return f.kind + " " + f.Name }

// searched are the kinds of objects that an operation makes or changes, or might.
var searched = []schema.GroupVersionResource{
	{Version: "v1", Resource: "pods"},
	{Version: "v1", Resource: "persistentvolumeclaims"},
	{Version: "v1", Resource: "configmaps"},
	{Version: "v1", Resource: "secrets"},
	{Version: "v1", Resource: "serviceaccounts"},
	{Version: "v1", Resource: "services"},
	{Group: "apps", Version: "v1", Resource: "statefulsets"},
	{Group: "apps", Version: "v1", Resource: "controllerrevisions"},
	{Group: "batch", Version: "v1", Resource: "jobs"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
	{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
	{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"},
}

// search lists the namespace, everything in it, and the volumes of its claims.
func (c *cluster) search(ctx context.Context, namespace string) ([]found, error) {
	var all []found
	for _, resource := range searched {
		list, err := c.meta.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", resource.Resource, err)
		}
		for _, item := range list.Items {
			all = append(all, found{kind: resource.Resource, ObjectMeta: item.ObjectMeta})
		}
	}
	own, err := c.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading namespace %s: %w", namespace, err)
	}
	all = append(all, found{kind: "namespaces", ObjectMeta: own.ObjectMeta})
	volumes, err := c.volumes(ctx, namespace)
	if err != nil {
		return nil, err
	}
	for _, volume := range volumes {
		all = append(all, found{kind: volumesKind, ObjectMeta: volume.ObjectMeta, volume: volume})
	}
	return all, nil
}

const (
	volumesKind = "persistentvolumes"
	setsKind    = "statefulsets"
)

// volumes are those that are, were or are to be bound to a claim of the namespace, or that say so in their link.
func (c *cluster) volumes(ctx context.Context, namespace string) ([]*corev1.PersistentVolume, error) {
	list, err := c.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing volumes: %w", err)
	}
	var ours []*corev1.PersistentVolume
	for i := range list.Items {
		volume := &list.Items[i]
		link, err := api.LoadLink(volume)
		linked := err == nil && link != nil && link.Namespace == namespace
		if ref := volume.Spec.ClaimRef; linked || ref != nil && ref.Namespace == namespace {
			ours = append(ours, volume)
		}
	}
	return ours, nil
}

// leftBehind compares what there is after the operation with what there was before it. It returns the old volumes that
// are kept for their window, and what should not be there, or not be so.
func leftBehind(before, after []found, operation string, now time.Time) (kept []found, wrong []string) {
	var set found
	was := map[string]found{}
	for _, f := range before {
		was[f.String()] = f
	}
	for _, f := range after {
		if f.kind == setsKind {
			set = f
		}
	}
	for _, f := range after {
		earlier, known := was[f.String()]
		delete(was, f.String())
		switch retired, problem := retiredVolume(f, operation, now); {
		case problem != "":
			wrong = append(wrong, f.String()+" "+problem)
		case retired:
			kept = append(kept, f)
		case f.kind == volumesKind:
			wrong = append(wrong, boundVolume(f, before)...)
		case !known:
			wrong = append(wrong, f.String()+" was made and is still there")
		}
		if !retiredRole(f) {
			wrong = append(wrong, traces(f, earlier)...)
		}
		wrong = append(wrong, deadOwners(f, set)...)
	}
	for _, name := range slices.Sorted(maps.Keys(was)) {
		wrong = append(wrong, name+" is gone")
	}
	return kept, wrong
}

func retiredRole(f found) bool {
	return f.volume != nil && api.Linked(f.volume, f.Labels[api.OperationLabel], api.RoleRetired)
}

// retiredVolume reports whether it is an old volume of the operation in its window, or what is wrong with it.
func retiredVolume(f found, operation string, now time.Time) (retired bool, problem string) {
	if !retiredRole(f) {
		return false, ""
	}
	until, err := time.Parse(time.RFC3339, f.Annotations[api.RetainedUntilAnnotation])
	switch {
	case f.Labels[api.OperationLabel] != operation:
		return false, "is kept for another operation, " + f.Labels[api.OperationLabel]
	case f.volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain:
		return false, fmt.Sprintf("is to be kept, but has the reclaim policy %s", f.volume.Spec.PersistentVolumeReclaimPolicy)
	case err != nil || !until.After(now):
		return false, fmt.Sprintf("is to be kept until %q", f.Annotations[api.RetainedUntilAnnotation])
	}
	return true, ""
}

// boundVolume says what is wrong with a volume that is not a retired one.
func boundVolume(f found, before []found) (wrong []string) {
	if f.volume.Status.Phase != corev1.VolumeBound {
		wrong = append(wrong, fmt.Sprintf("%s is %s and not marked as an old one", f, f.volume.Status.Phase))
	}
	for _, b := range before {
		if b.volume != nil && b.volume.Spec.PersistentVolumeReclaimPolicy != f.volume.Spec.PersistentVolumeReclaimPolicy {
			return append(wrong, fmt.Sprintf("%s has the reclaim policy %s, those before had %s", f,
				f.volume.Spec.PersistentVolumeReclaimPolicy, b.volume.Spec.PersistentVolumeReclaimPolicy))
		}
	}
	return wrong
}

// staying are the keys that an operation leaves on a StatefulSet.
var staying = []string{api.ResizeAnnotation, api.StatusAnnotation}

// marks are what can be found on an object, by what it is called.
func (f found) marks() map[string][]string {
	return map[string][]string{
		"label": slices.Collect(maps.Keys(f.Labels)), "annotation": slices.Collect(maps.Keys(f.Annotations)), "finalizer": f.Finalizers}
}

// traces are Drydock's labels, annotations and finalizers on an object that it had not earlier.
func traces(f, earlier found) (wrong []string) {
	users := earlier.marks()
	for what, keys := range f.marks() {
		for _, key := range keys {
			stays := slices.Contains(users[what], key) || f.kind == setsKind && slices.Contains(staying, key)
			if strings.HasPrefix(key, api.Prefix) && !stays {
				wrong = append(wrong, fmt.Sprintf("%s has the %s %s", f, what, key))
			}
		}
	}
	slices.Sort(wrong)
	return wrong
}

// deadOwners finds references to a StatefulSet that is no more: the garbage collector deletes what only such own.
func deadOwners(f, set found) (wrong []string) {
	for _, owner := range f.OwnerReferences {
		if owner.Kind == "StatefulSet" && owner.UID != set.UID {
			wrong = append(wrong, fmt.Sprintf("%s is owned by a StatefulSet that is no more", f))
		}
	}
	return wrong
}
