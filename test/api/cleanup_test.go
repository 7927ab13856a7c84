//go:build cluster

package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// startCleaned creates the set and waits until its pods are counted.
func startCleaned(w *kit.World, drive *kit.Drive, set *appsv1.StatefulSet) {
	w.CreateSet(set)
	w.UntilCounted(drive, set.Name, int(*set.Spec.Replicas))
}

// cleanedWorld returns a new world with such a set named web.
func cleanedWorld(t *testing.T, replicas int32, templates ...string) (*kit.World, *kit.Drive) {
	t.Helper()
	t.Parallel()
	w := kit.NewWorld(t)
	drive := w.Drive(nil)
	startCleaned(w, drive, w.SetWithCleanup("web", replicas, templates...))
	return w, drive
}

// TestScaleDownWithoutDrydockIsCleanedUpByOrder: no function has seen a pod of the removed ordinals, so their claims are kept until a user
// gives them up. The claims prove that the StatefulSet controller has created them for this set.
func TestScaleDownWithoutDrydockIsCleanedUpByOrder(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	set := w.SetWithCleanup("web", 3)
	set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement // all claims are created in the same second as the set
	w.CreateSet(set)
	w.Scale("web", 1)
	w.Eventually("the pods are gone", func() string {
		if n := w.Set("web").Status.Replicas; n != 1 {
			return fmt.Sprintf("%d are there", n)
		}
		return ""
	})
	drive := w.Drive(nil)
	w.UntilCounted(drive, "web", 1)
	if deleted := w.Node.DeletedClaims(); len(deleted) > 0 {
		t.Fatalf("claims were deleted without an order: %v", deleted)
	}
	w.GiveUp("web", 1)
	w.UntilCleanup(drive, "web", api.Succeeded, api.CleanupCompleted)
	deleted := w.Node.DeletedClaims()
	slices.Sort(deleted)
	if !slices.Equal(deleted, []string{"data-web-1", "data-web-2"}) {
		t.Errorf("deleted claims: %v", deleted)
	}
	expectClean(t, w, drive)
}

// expectClean checks that only the record of a cleanup is left, and that no invariant of data is broken.
func expectClean(t *testing.T, w *kit.World, drive *kit.Drive) {
	t.Helper()
	w.Eventually("nothing is left", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		return strings.Join(w.Leftovers(), ", ")
	})
	for _, v := range w.Node.Violations() {
		t.Error(v)
	}
}

// expectDeleted checks the deleted claims, and the order in which the cleanup pods have succeeded.
func expectDeleted(t *testing.T, w *kit.World, claims, pods []string) {
	t.Helper()
	if deleted := w.Node.DeletedClaims(); !slices.Equal(deleted, claims) {
		t.Errorf("deleted claims: %v, want %v", deleted, claims)
	}
	if order := w.Node.CleanedPods(); !slices.Equal(order, pods) {
		t.Errorf("cleanup pods that succeeded: %v, want %v", order, pods)
	}
}

// cleanupPod waits until the cleanup pod runs.
func cleanupPod(w *kit.World, drive *kit.Drive, name string) *corev1.Pod {
	var pod *corev1.Pod
	w.Eventually(name+" cleans up", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		var err error
		pod, err = w.Kube.CoreV1().Pods(w.Namespace).Get(context.Background(), name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if pod.Labels[api.OperationLabel] == "" || pod.Status.Phase != corev1.PodRunning {
			return fmt.Sprintf("%s is %s, labels %v", name, pod.Status.Phase, pod.Labels)
		}
		return ""
	})
	return pod
}

// holdPods keeps final passes and cleanup pods from ending, or no longer does.
func holdPods(w *kit.World, on bool) { w.Node.Set(func(n *kit.Node) { n.Hold = on }) }

// ticks lets n ticks pass, for the check that something does not happen.
func ticks(t *testing.T, drive *kit.Drive, n int) {
	t.Helper()
	for range n {
		if err := drive.Tick(context.Background()); err != nil {
			t.Fatal(err)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// TestCleanupFromHighestOrdinal: four replicas become one. The ordinals are cleaned up one at a time, the highest
// first, and their claims are deleted.
// Invariants: I1.
func TestCleanupFromHighestOrdinal(t *testing.T) {
	w, drive := cleanedWorld(t, 4, "data", "logs")
	before := w.Set("web").Spec
	holdPods(w, true)
	w.Scale("web", 1)
	cleanupPod(w, drive, "web-3")
	w.Eventually("the other replicas are gone", func() string {
		if n := w.Set("web").Status.Replicas; n != 1 {
			return fmt.Sprintf("there are %d", n)
		}
		return ""
	})
	ticks(t, drive, 3)
	for _, name := range []string{"web-2", "web-1"} {
		if _, err := w.Kube.CoreV1().Pods(w.Namespace).Get(context.Background(), name, metav1.GetOptions{}); err == nil {
			t.Errorf("%s is there while web-3 cleans up", name)
		}
	}
	holdPods(w, false)
	w.UntilCleanup(drive, "web", api.Succeeded, api.CleanupCompleted)
	expectClean(t, w, drive)
	expectDeleted(t, w, []string{"data-web-1", "data-web-2", "data-web-3", "logs-web-1", "logs-web-2", "logs-web-3"},
		[]string{"web-3", "web-2", "web-1"})
	if !slices.Contains(drive.EventTypes, "cleanup.completed") {
		t.Errorf("events: %v", drive.EventTypes)
	}
	for _, event := range []string{"Normal CleanupStarted", "Normal CleanupDone", "Normal ClaimsDeleted", "Normal CleanupCompleted"} {
		if !slices.Contains(w.Events("web"), event) {
			t.Errorf("no Event %s: %v", event, w.Events("web"))
		}
	}
	before.Replicas = ptr.To[int32](1)
	if diff := cmp.Diff(before, w.Set("web").Spec); diff != "" {
		t.Errorf("the set was changed: %s", diff)
	}
	version := w.Set("web").ResourceVersion
	drive.EventTypes = nil
	ticks(t, drive, 3)
	if len(drive.EventTypes) > 0 || w.Set("web").ResourceVersion != version {
		t.Errorf("functions ran for a set that has been cleaned up: %v", drive.EventTypes)
	}
	w.Scale("web", 3) // on new claims
	w.Eventually("three replicas are ready", func() string {
		if n := w.Set("web").Status.ReadyReplicas; n != 3 {
			return fmt.Sprintf("%d are", n)
		}
		return ""
	})
	w.Eventually("the record has their ordinals", func() string {
		_ = drive.Tick(context.Background())
		if doc := w.Cleanup("web"); doc.Span == nil || doc.Span.End != 3 {
			return fmt.Sprintf("%+v", doc)
		}
		return ""
	})
	for _, problem := range w.ClaimProblems("data-web-0", "data-web-1", "data-web-2") {
		t.Error(problem)
	}
}

// TestNoCleanup: without a valid template nothing is created or deleted.
func TestNoCleanup(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*appsv1.StatefulSet)
		refuse api.Reason // empty: there is no record either
		is     string     // a word of the message
	}{
		"there is no template":    {func(s *appsv1.StatefulSet) { delete(s.Annotations, api.CleanupTemplateAnnotation) }, "", ""},
		"the template is no YAML": {template("{"), api.TemplateInvalid, api.CleanupTemplateAnnotation},
		"the API server refuses its pod": {template(strings.ReplaceAll(kit.CleanupTemplate, "name: data,", "name: nothing,")),
			api.TemplateInvalid, `"nothing"`},
		"scaling down deletes the claims": {func(s *appsv1.StatefulSet) {
			s.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
				WhenScaled:  appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
				WhenDeleted: appsv1.RetainPersistentVolumeClaimRetentionPolicyType}
		}, api.DeletesClaims, "whenScaled"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := kit.NewWorld(t)
			drive := w.Drive(nil)
			set := w.SetWithCleanup("web", 2)
			row.change(set)
			w.Node.Set(func(n *kit.Node) { n.GuardClaims = row.refuse != api.DeletesClaims })
			w.CreateSet(set)
			if row.refuse != "" { // at once, before a scale-down
				doc := w.UntilCleanup(drive, "web", api.Refused, row.refuse)
				if !strings.Contains(doc.Message, row.is) || !slices.Contains(w.Events("web"), "Warning "+string(row.refuse)) {
					t.Errorf("%s; Events %v", doc.Message, w.Events("web"))
				}
			}
			w.Scale("web", 1)
			ticks(t, drive, 5)
			if doc := w.Cleanup("web"); row.refuse == "" && doc != nil {
				t.Errorf("%+v", doc)
			}
			if order := w.Node.CleanedPods(); len(order) > 0 {
				t.Errorf("cleaned up: %v", order)
			}
			if n := count(w.Events("web"), "Warning "+string(row.refuse)); n > 1 {
				t.Errorf("there are %d Events", n)
			}
			expectClean(t, w, drive)
		})
	}
}

func count(all []string, one string) int {
	n := 0
	for _, s := range all {
		if s == one {
			n++
		}
	}
	return n
}

func template(text string) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) { s.Annotations[api.CleanupTemplateAnnotation] = text }
}

// TestCleanupInOneNamespace: a Drydock for one namespace does not touch the sets of other namespaces.
func TestCleanupInOneNamespace(t *testing.T) {
	t.Parallel()
	here, elsewhere := kit.NewWorld(t), kit.NewWorld(t)
	drive := here.Drive(nil)
	startCleaned(here, drive, here.SetWithCleanup("web", 2))
	elsewhere.CreateSet(elsewhere.SetWithCleanup("web", 2))
	here.Scale("web", 1)
	elsewhere.Scale("web", 1)
	here.UntilCleanup(drive, "web", api.Succeeded, api.CleanupCompleted)
	ticks(t, drive, 3)
	expectDeleted(t, here, []string{"data-web-1"}, []string{"web-1"})
	if doc := elsewhere.Cleanup("web"); doc != nil || len(elsewhere.Node.DeletedClaims()) > 0 {
		t.Errorf("%+v, deleted %v", doc, elsewhere.Node.DeletedClaims())
	}
	both := here.DriveIn(here.Namespace, elsewhere.Namespace)
	elsewhere.UntilCleanup(both, "web", api.Succeeded, "")
}

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
