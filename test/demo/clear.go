package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
