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
	// stageLabel marks the namespace as one that may be deleted.
	stageLabel = "app.kubernetes.io/part-of"
	stageValue = "drydock-demo"

	// clearTime is how long everything may take to go.
	clearTime = 3 * time.Minute

	// nobody is a UID that no object has.
	nobody types.UID = "00000000-0000-0000-0000-000000000000"
)

// clear removes the namespace and the storage of its claims, whatever state a run that was killed has left them in.
// No Drydock may be at work there.
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
		return c.freeVolumes(ctx, namespace)
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
	if namespace.Labels[stageLabel] != stageValue {
		return fmt.Errorf("namespace %s is not the demo's, it lacks the label %s=%s; choose another one with --namespace", name, stageLabel, stageValue)
	}
	uid := metav1.Preconditions{UID: &namespace.UID}
	err = c.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{Preconditions: &uid})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting namespace %s: %w", name, err)
	}
	return nil
}

// releaseClaims removes Drydock's finalizers, which hold a claim in the midst of its switch.
func (c *cluster) releaseClaims(ctx context.Context, namespace string) error {
	claims, err := c.CoreV1().PersistentVolumeClaims(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing claims: %w", err)
	}
	for _, claim := range claims.Items {
		others := slices.DeleteFunc(slices.Clone(claim.Finalizers), func(f string) bool { return strings.HasPrefix(f, api.Prefix) })
		if len(others) == len(claim.Finalizers) {
			continue
		}
		patch := merge("metadata", map[string]any{"finalizers": others, "resourceVersion": claim.ResourceVersion})
		if _, err := c.CoreV1().PersistentVolumeClaims(namespace).Patch(ctx, claim.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("releasing claim %s: %w", claim.Name, err)
		}
	}
	return nil
}

// releasePods removes Drydock's finalizers, which hold a pod that has stopped.
func (c *cluster) releasePods(ctx context.Context, namespace string) error {
	pods, err := c.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	for _, pod := range pods.Items {
		others := slices.DeleteFunc(slices.Clone(pod.Finalizers), func(f string) bool { return strings.HasPrefix(f, api.Prefix) })
		if len(others) == len(pod.Finalizers) {
			continue
		}
		patch := merge("metadata", map[string]any{"finalizers": others, "resourceVersion": pod.ResourceVersion})
		if _, err := c.CoreV1().Pods(namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("releasing pod %s: %w", pod.Name, err)
		}
	}
	return nil
}

// freeVolumes lets the provisioner remove every volume of the namespace, which is gone, and says which is still there.
func (c *cluster) freeVolumes(ctx context.Context, namespace string) (string, error) {
	volumes, err := c.volumes(ctx, namespace)
	if err != nil {
		return "", err
	}
	left := ""
	for _, volume := range volumes {
		left = fmt.Sprintf("volume %s is %s", volume.Name, volume.Status.Phase)
		change := freeing(volume)
		if len(change) == 0 || volume.DeletionTimestamp != nil {
			continue
		}
		if _, err := c.CoreV1().PersistentVolumes().Patch(ctx, volume.Name, types.MergePatchType, merge("spec", change), metav1.PatchOptions{}); err != nil {
			return "", fmt.Errorf("freeing volume %s: %w", volume.Name, err)
		}
	}
	return left, nil
}

// freeing is what has to change in a volume's spec so that it goes. A volume that is only reserved for a claim was never
// bound, so nobody would release it: it is said to have had a claim that is no more.
func freeing(volume *corev1.PersistentVolume) map[string]any {
	change := map[string]any{}
	if volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		change["persistentVolumeReclaimPolicy"] = corev1.PersistentVolumeReclaimDelete
	}
	if ref := volume.Spec.ClaimRef; ref != nil && ref.UID == "" {
		change["claimRef"] = map[string]any{"uid": nobody}
	}
	return change
}

// merge renders a merge patch of one part of an object.
func merge(part string, change map[string]any) []byte {
	patch, err := json.Marshal(map[string]any{part: change})
	if err != nil {
		panic(fmt.Sprintf("marshalling a patch: %v", err)) // unreachable: plain values
	}
	return patch
}
