package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
)

const (

	// clearTime is how long the deletion of everything may take.
	clearTime = 3 * time.Minute

	// unusedUID is a UID that no object has.
	unusedUID types.UID = "00000000-0000-0000-0000-000000000000"
)

// clear deletes the namespace and the storage of its claims. It handles every state that a killed run can leave.
// No Drydock may run in the namespace.
func (c *cluster) clear(ctx context.Context, namespace string) error {
	if err := c.deleteNamespace(ctx, namespace); err != nil {
		return err
	}
	return waitFor(ctx, clearTime, func(ctx context.Context) (string, error) {
		if err := errors.Join(c.releaseClaims(ctx, namespace), c.releasePods(ctx, namespace)); err != nil {
			return "", err
		}
		_, err := c.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		if err == nil {
			return fmt.Sprintf("namespace %s is being deleted", namespace), nil
		}
		if !apierrors.IsNotFound(err) {
			return "", fmt.Errorf("reading namespace %s: %w", namespace, err)
		}
		return c.releaseVolumes(ctx, namespace)
	})
}

func (c *cluster) deleteNamespace(ctx context.Context, name string) error {
	namespace, err := c.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading namespace %s: %w", name, err)
	}
	if namespace.Labels[demoLabel] != demoValue {
		return fmt.Errorf("namespace %s lacks the label %s=%s, so it does not belong to the demo. Choose another one with --namespace",
			name, demoLabel, demoValue)
	}
	uid := metav1.Preconditions{UID: &namespace.UID}
	err = c.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{Preconditions: &uid})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting namespace %s: %w", name, err)
	}
	return nil
}

// releaseClaims removes Drydock's finalizers, which keep a claim during a swap.
func (c *cluster) releaseClaims(ctx context.Context, namespace string) error {
	claims, err := c.CoreV1().PersistentVolumeClaims(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing claims: %w", err)
	}
	for _, claim := range claims.Items {
		others := foreignFinalizers(claim.Finalizers)
		if len(others) == len(claim.Finalizers) {
			continue
		}
		patch := mergePatch("metadata", map[string]any{"finalizers": others, "resourceVersion": claim.ResourceVersion})
		if _, err := c.CoreV1().PersistentVolumeClaims(namespace).Patch(ctx, claim.Name, types.MergePatchType, patch,
			metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("releasing claim %s: %w", claim.Name, err)
		}
	}
	return nil
}

// releasePods removes Drydock's finalizers, which hold a stopped pod.
func (c *cluster) releasePods(ctx context.Context, namespace string) error {
	pods, err := c.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	for _, pod := range pods.Items {
		others := foreignFinalizers(pod.Finalizers)
		if len(others) == len(pod.Finalizers) {
			continue
		}
		patch := mergePatch("metadata", map[string]any{"finalizers": others, "resourceVersion": pod.ResourceVersion})
		if _, err := c.CoreV1().Pods(namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("releasing pod %s: %w", pod.Name, err)
		}
	}
	return nil
}

// foreignFinalizers returns the finalizers that do not belong to Drydock.
func foreignFinalizers(all []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(f string) bool { return strings.HasPrefix(f, api.Prefix) })
}

// releaseVolumes lets the provisioner delete every volume of the deleted namespace. It returns a text about a remaining volume, or
// an empty one.
func (c *cluster) releaseVolumes(ctx context.Context, namespace string) (string, error) {
	volumes, err := c.namespaceVolumes(ctx, namespace)
	if err != nil {
		return "", err
	}
	left := ""
	for _, volume := range volumes {
		left = fmt.Sprintf("volume %s is %s", volume.Name, volume.Status.Phase)
		change := releasePatch(volume)
		if len(change) == 0 || volume.DeletionTimestamp != nil {
			continue
		}
		if _, err := c.CoreV1().PersistentVolumes().Patch(ctx, volume.Name, types.MergePatchType, mergePatch("spec", change),
			metav1.PatchOptions{}); err != nil {
			return "", fmt.Errorf("releasePatch volume %s: %w", volume.Name, err)
		}
	}
	return left, nil
}

// releasePatch returns the change of a volume's spec that makes Kubernetes delete the volume. A volume that is only reserved for a
// claim was never bound, so no controller would release it. A UID in its claimRef makes it look bound to a deleted claim.
func releasePatch(volume *corev1.PersistentVolume) map[string]any {
	change := map[string]any{}
	if volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		change["persistentVolumeReclaimPolicy"] = corev1.PersistentVolumeReclaimDelete
	}
	if ref := volume.Spec.ClaimRef; ref != nil && ref.UID == "" {
		change["claimRef"] = map[string]any{"uid": unusedUID}
	}
	return change
}

// mergePatch returns a mergePatch patch for one top-level field of an object.
func mergePatch(part string, change map[string]any) []byte {
	patch, err := json.Marshal(map[string]any{part: change})
	if err != nil {
		panic(fmt.Sprintf("marshalling a patch: %v", err)) // unreachable: plain values
	}
	return patch
}

// foundObject is an object in the namespace, or a volume of one of its claims.
type foundObject struct {
	kind string
	metav1.ObjectMeta
	volume *corev1.PersistentVolume // for volumes
}

func (f foundObject) String() string { return f.kind + " " + f.Name }

// searchedResources lists the kinds of objects that an operation may create or change.
var searchedResources = []schema.GroupVersionResource{
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

// listObjects returns the namespace, every object in it, and the volumes of its claims.
func (c *cluster) listObjects(ctx context.Context, namespace string) ([]foundObject, error) {
	var all []foundObject
	for _, resource := range searchedResources {
		list, err := c.meta.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", resource.Resource, err)
		}
		for _, item := range list.Items {
			all = append(all, foundObject{kind: resource.Resource, ObjectMeta: item.ObjectMeta})
		}
	}
	own, err := c.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading namespace %s: %w", namespace, err)
	}
	all = append(all, foundObject{kind: "namespaces", ObjectMeta: own.ObjectMeta})
	volumes, err := c.namespaceVolumes(ctx, namespace)
	if err != nil {
		return nil, err
	}
	for _, volume := range volumes {
		all = append(all, foundObject{kind: volumesKind, ObjectMeta: volume.ObjectMeta, volume: volume})
	}
	return all, nil
}

const (
	volumesKind = "persistentvolumes"
	setsKind    = "statefulsets"
)

// namespaceVolumes returns the volumes that refer to the namespace in their claimRef or in Drydock's link.
func (c *cluster) namespaceVolumes(ctx context.Context, namespace string) ([]*corev1.PersistentVolume, error) {
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

// findLeftovers compares the objects after the operation with the objects before it. It returns the retained old volumes, and a text
// for each object that should not exist or is in a wrong state.
func findLeftovers(before, after []foundObject, operation string, now time.Time) (kept []foundObject, wrong []string) {
	var set foundObject
	was := map[string]foundObject{}
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
			wrong = append(wrong, f.String()+" was created and still exists")
		}
		if !retiredRole(f) {
			wrong = append(wrong, newMarks(f, earlier)...)
		}
		wrong = append(wrong, staleOwners(f, set)...)
	}
	for _, name := range slices.Sorted(maps.Keys(was)) {
		wrong = append(wrong, name+" no longer exists")
	}
	return kept, wrong
}

func retiredRole(f foundObject) bool {
	return f.volume != nil && api.HasLink(f.volume, f.Labels[api.OperationLabel], api.RoleOldVolume)
}

// retiredVolume reports whether the object is an old volume of the operation within its retention, or describes its problem.
func retiredVolume(f foundObject, operation string, now time.Time) (retired bool, problem string) {
	if !retiredRole(f) {
		return false, ""
	}
	until, err := time.Parse(time.RFC3339, f.Annotations[api.RetainedUntilAnnotation])
	switch {
	case f.Labels[api.OperationLabel] != operation:
		return false, "belongs to another operation, " + f.Labels[api.OperationLabel]
	case f.volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain:
		return false, fmt.Sprintf("is an old volume, but has the reclaim policy %s", f.volume.Spec.PersistentVolumeReclaimPolicy)
	case err != nil || !until.After(now):
		return false, fmt.Sprintf("is an old volume with the invalid retention end %q", f.Annotations[api.RetainedUntilAnnotation])
	}
	return true, ""
}

// boundVolume checks a volume that is not an old volume.
func boundVolume(f foundObject, before []foundObject) (wrong []string) {
	if f.volume.Status.Phase != corev1.VolumeBound {
		wrong = append(wrong, fmt.Sprintf("%s is %s and is not marked as an old volume", f, f.volume.Status.Phase))
	}
	for _, b := range before {
		if b.volume != nil && b.volume.Spec.PersistentVolumeReclaimPolicy != f.volume.Spec.PersistentVolumeReclaimPolicy {
			return append(wrong, fmt.Sprintf("%s has the reclaim policy %s, the volumes before had %s", f,
				f.volume.Spec.PersistentVolumeReclaimPolicy, b.volume.Spec.PersistentVolumeReclaimPolicy))
		}
	}
	return wrong
}

// keptKeys lists the keys that an operation leaves on a StatefulSet.
var keptKeys = []string{api.ResizeAnnotation, api.StatusAnnotation}

// marks returns the object's labels, annotations and finalizers, by kind.
func (f foundObject) marks() map[string][]string {
	return map[string][]string{
		"label": slices.Collect(maps.Keys(f.Labels)), "annotation": slices.Collect(maps.Keys(f.Annotations)), "finalizer": f.Finalizers}
}

// newMarks returns a text for each label, annotation and finalizer of Drydock that the object did not have before.
func newMarks(f, earlier foundObject) (wrong []string) {
	users := earlier.marks()
	for what, keys := range f.marks() {
		for _, key := range keys {
			stays := slices.Contains(users[what], key) || f.kind == setsKind && slices.Contains(keptKeys, key)
			if strings.HasPrefix(key, api.Prefix) && !stays {
				wrong = append(wrong, fmt.Sprintf("%s has the %s %s", f, what, key))
			}
		}
	}
	slices.Sort(wrong)
	return wrong
}

// staleOwners returns a text for each reference to a deleted StatefulSet. The garbage collector would delete an object that has
// no other owner.
func staleOwners(f, set foundObject) (wrong []string) {
	for _, owner := range f.OwnerReferences {
		if owner.Kind == "StatefulSet" && owner.UID != set.UID {
			wrong = append(wrong, fmt.Sprintf("%s is owned by a deleted StatefulSet", f))
		}
	}
	return wrong
}
