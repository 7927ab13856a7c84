//go:build cluster

package api

import (
	"context"
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// startHeld creates a set that asks for a cleanup before its deletion, and waits until it has the finalizer.
func startHeld(w *kit.World, drive *kit.Drive, set *appsv1.StatefulSet) {
	set.Annotations[api.CleanupOnDeleteAnnotation] = "true"
	startCleaned(w, drive, set)
	w.Eventually("the set is held", func() string {
		_ = drive.Tick(context.Background())
		if now := w.Set(set.Name); !slices.Contains(now.Finalizers, api.CleanupFinalizer) || now.Labels[api.FinalizerLabel] == "" {
			return fmt.Sprintf("finalizers %v, labels %v", now.Finalizers, now.Labels)
		}
		return ""
	})
}

// heldWorld returns a new world with such a set named web.
func heldWorld(t *testing.T, replicas int32) (*kit.World, *kit.Drive) {
	t.Helper()
	t.Parallel()
	w := kit.NewWorld(t)
	drive := w.Drive(nil)
	startHeld(w, drive, w.SetWithCleanup("web", replicas))
	return w, drive
}

// deleteSet requests the deletion of the set, and does not wait for it.
func deleteSet(t *testing.T, w *kit.World, name string, propagation metav1.DeletionPropagation) {
	t.Helper()
	err := w.Kube.AppsV1().StatefulSets(w.Namespace).Delete(context.Background(), name,
		metav1.DeleteOptions{PropagationPolicy: &propagation})
	if err != nil {
		t.Fatal(err)
	}
}

func untilGone(w *kit.World, drive *kit.Drive, name string) {
	w.Eventually("the set is gone", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		if set := w.Set(name); set != nil {
			doc, _ := api.LoadCleanup(set)
			return fmt.Sprintf("finalizers %v, %+v", set.Finalizers, doc)
		}
		return ""
	})
}

// TestDeletedSetIsCleanedUp: every ordinal is cleaned up, the highest first, and then the set is gone.
func TestDeletedSetIsCleanedUp(t *testing.T) {
	for _, propagation := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground} {
		t.Run(string(propagation), func(t *testing.T) {
			w, drive := heldWorld(t, 3)
			deleteSet(t, w, "web", propagation)
			untilGone(w, drive, "web")
			expectDeleted(t, w, []string{"data-web-0", "data-web-1", "data-web-2"}, []string{"web-2", "web-1", "web-0"})
			expectClean(t, w, drive)
		})
	}
}

// TestDeletedSetWithForeignFinalizer: only Drydock's finalizer is removed, wherever it is in the list.
func TestDeletedSetWithForeignFinalizer(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	drive := w.Drive(nil)
	set := w.SetWithCleanup("web", 2)
	set.Finalizers = []string{"example.com/audit"}
	startHeld(w, drive, set)
	deleteSet(t, w, "web", metav1.DeletePropagationBackground)
	w.Eventually("only the foreign finalizer is left", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		if f := w.Set("web").Finalizers; !slices.Equal(f, []string{"example.com/audit"}) {
			return fmt.Sprint(f)
		}
		return ""
	})
	expectDeleted(t, w, []string{"data-web-0", "data-web-1"}, []string{"web-1", "web-0"})
	w.PatchSet("web", `{"metadata":{"finalizers":null}}`)
	untilGone(w, drive, "web")
	expectClean(t, w, drive)
}

// TestOrphaningDeletionCleansNothingUp: a user who orphans the pods wants to keep them.
func TestOrphaningDeletionCleansNothingUp(t *testing.T) {
	w, drive := heldWorld(t, 2)
	before := w.ClaimUIDs()
	deleteSet(t, w, "web", metav1.DeletePropagationOrphan)
	w.Eventually("the garbage collector has orphaned the pods", func() string { // before any function reads the set
		pod, err := w.Kube.CoreV1().Pods(w.Namespace).Get(context.Background(), "web-1", metav1.GetOptions{})
		if err != nil || len(pod.OwnerReferences) > 0 || slices.Contains(w.Set("web").Finalizers, metav1.FinalizerOrphanDependents) {
			return fmt.Sprint(err)
		}
		return ""
	})
	untilGone(w, drive, "web")
	for _, name := range []string{"web-0", "web-1"} {
		if _, err := w.Kube.CoreV1().Pods(w.Namespace).Get(context.Background(), name, metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	}
	if after := w.ClaimUIDs(); after != before {
		t.Errorf("claims %s, were %s", after, before)
	}
	expectDeleted(t, w, nil, nil)
}

// TestDeletionWithoutOptInCleansNothingUp: the claims stay, even if a cleanup is running.
func TestDeletionWithoutOptInCleansNothingUp(t *testing.T) {
	for _, propagation := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground,
		metav1.DeletePropagationOrphan} {
		t.Run(string(propagation), func(t *testing.T) {
			w, drive := cleanedWorld(t, 3)
			before := w.ClaimUIDs()
			holdPods(w, true)
			w.Scale("web", 2)
			cleanupPod(w, drive, "web-2")
			deleteSet(t, w, "web", propagation)
			untilGone(w, drive, "web")
			holdPods(w, false)
			expectClean(t, w, drive)
			if after := w.ClaimUIDs(); after != before {
				t.Errorf("claims %s, were %s", after, before)
			}
		})
	}
}

// TestDeletedSetWithoutConsentIsNotHeld: the annotation, the template or the label is missing, before or after the
// deletion.
func TestDeletedSetWithoutConsentIsNotHeld(t *testing.T) {
	for name, patch := range map[string]string{
		"the opt-in for deletion is taken away": fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, api.CleanupOnDeleteAnnotation),
		"the template is taken away":            fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, api.CleanupTemplateAnnotation),
		"the template is spoilt":                fmt.Sprintf(`{"metadata":{"annotations":{%q:"{"}}}`, api.CleanupTemplateAnnotation),
		"the label is taken away":               fmt.Sprintf(`{"metadata":{"labels":{%q:null}}}`, api.ManagedLabel),
		"it is aborted":                         fmt.Sprintf(`{"metadata":{"annotations":{%q:"now"}}}`, api.AbortAnnotation),
	} {
		for when, first := range map[string]bool{"before": true, "after": false} {
			t.Run(name+" "+when, func(t *testing.T) {
				w, drive := heldWorld(t, 2)
				holdPods(w, true)
				if first {
					w.PatchSet("web", patch) // and no function has read it
				}
				deleteSet(t, w, "web", metav1.DeletePropagationBackground)
				if !first {
					cleanupPod(w, drive, "web-1")
					w.PatchSet("web", patch)
				}
				untilGone(w, drive, "web")
				holdPods(w, false)
				expectClean(t, w, drive)
				expectDeleted(t, w, nil, nil)
			})
		}
	}
}

// TestDeletedSetWithFailedCleanupIsHeld: it stays until a user retries the cleanup.
func TestDeletedSetWithFailedCleanupIsHeld(t *testing.T) {
	w, drive := heldWorld(t, 2)
	w.Node.Set(func(n *kit.Node) { n.FailCleaners = true })
	deleteSet(t, w, "web", metav1.DeletePropagationBackground)
	w.UntilCleanup(drive, "web", api.Failed, api.CleanupFailed)
	version := w.Set("web").ResourceVersion
	ticks(t, drive, 4)
	if w.Set("web").ResourceVersion != version {
		t.Error("the set is still written to")
	}
	w.Node.Set(func(n *kit.Node) { n.FailCleaners = false })
	w.Retry("web")
	untilGone(w, drive, "web")
	expectDeleted(t, w, []string{"data-web-0", "data-web-1"}, []string{"web-1", "web-0"})
	expectClean(t, w, drive)
}

// TestDeletedSleepingSetIsCleanedUp: the claims are cleaned up, although the set has no pods.
func TestDeletedSleepingSetIsCleanedUp(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	drive := w.Drive(nil)
	set := w.SetWithCleanup("web", 2)
	startHeld(w, drive, set)
	w.Annotate("web", map[string]string{api.PausedAnnotation: "true"})
	w.UntilSleep(drive, "web", api.Asleep)
	deleteSet(t, w, "web", metav1.DeletePropagationBackground)
	untilGone(w, drive, "web")
	expectDeleted(t, w, []string{"data-web-0", "data-web-1"}, []string{"web-1", "web-0"})
	expectClean(t, w, drive)
}

// TestDeletedNamespaceIsNotHeld: no pod can be created there any more, so Drydock removes its finalizer.
func TestDeletedNamespaceIsNotHeld(t *testing.T) {
	w, drive := heldWorld(t, 2)
	if err := w.Kube.CoreV1().Namespaces().Delete(context.Background(), w.Namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.Eventually("the set is gone", func() string {
		_ = drive.Tick(context.Background()) // the API server rejects some writes here
		if set := w.Set("web"); set != nil {
			return fmt.Sprintf("finalizers %v", set.Finalizers)
		}
		return ""
	})
	w.Eventually("the pods are gone", func() string {
		_ = drive.Tick(context.Background())
		list, err := w.Kube.CoreV1().Pods(w.Namespace).List(context.Background(), metav1.ListOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err.Error()
		}
		if err == nil && len(list.Items) > 0 {
			return list.Items[0].Name
		}
		return ""
	})
}

// TestResizeKeepsCleanupFinalizer: a resize that creates the set again does not wait for a cleanup. The new set has the
// finalizer, too.
// Invariants: I3.
func TestResizeKeepsCleanupFinalizer(t *testing.T) {
	w, drive := heldWorld(t, 2)
	w.Node.Set(func(n *kit.Node) { n.GuardClaims = false })
	uid := w.Set("web").UID
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	if status := w.Finish(drive, "web"); status.Phase != api.Succeeded {
		t.Fatalf("%s: %s", status.Phase, status.Message)
	}
	set := w.Set("web")
	if set.UID == uid || !slices.Contains(set.Finalizers, api.CleanupFinalizer) {
		t.Errorf("UID %s, was %s; finalizers %v", set.UID, uid, set.Finalizers)
	}
	if order := w.Node.CleanedPods(); len(order) > 0 {
		t.Errorf("cleaned up: %v", order)
	}
	for _, problem := range w.ClaimProblems("data-web-0", "data-web-1") {
		t.Error(problem)
	}
}
