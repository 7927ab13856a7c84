//go:build cluster

package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/test/kit"
)

// untilReady waits until all replicas of the set are ready.
func untilReady(w *kit.World, drive *kit.Drive, name string, replicas int32) {
	w.Eventually(fmt.Sprintf("%s has %d ready replicas", name, replicas), func() string {
		_ = drive.Tick(context.Background())
		if set := w.Set(name); set.Status.ReadyReplicas != replicas || set.Status.Replicas != replicas {
			return fmt.Sprintf("it has %d", set.Status.ReadyReplicas)
		}
		return ""
	})
}

// TestFailedCleanupIsRetriedAndKeepsClaim: the cleanup is tried again after growing pauses and then fails, with the
// last output of the pod. The claim stays, the member may start again, and a retry succeeds.
// Invariants: I8.
func TestFailedCleanupIsRetriedAndKeepsClaim(t *testing.T) {
	for how, retry := range map[string]func(w *kit.World, drive *kit.Drive) error{
		"by annotation": func(w *kit.World, _ *kit.Drive) error {
			w.Retry("web")
			return nil
		},
		"by event": func(w *kit.World, drive *kit.Drive) error { return w.SendSetEvent(drive, events.Retry, "web") },
		"by a new template": func(w *kit.World, _ *kit.Drive) error {
			w.Annotate("web", map[string]string{api.CleanupTemplateAnnotation: kit.CleanupTemplate + "      args: [better]\n"})
			return nil
		},
	} {
		t.Run("taken up "+how, func(t *testing.T) {
			w, drive := cleanedWorld(t, 3)
			w.Node.Set(func(n *kit.Node) { n.FailCleaners = true })
			w.Scale("web", 1)
			doc := w.UntilCleanup(drive, "web", api.Failed, api.CleanupFailed)
			if !strings.Contains(doc.Message, "no route to host") || !strings.Contains(doc.Message, "kubectl drydock retry") ||
				len(doc.Ordinals) != 1 ||
				doc.Ordinals[0].Ordinal != 2 || doc.Ordinals[0].Tries < 3 {
				t.Errorf("%s; %+v", doc.Message, doc.Ordinals)
			}
			if !slices.Contains(w.Events("web"), "Warning CleanupFailed") || !slices.Contains(drive.EventTypes, "operation.failed") {
				t.Errorf("Events %v, events %v", w.Events("web"), drive.EventTypes)
			}
			version := w.Set("web").ResourceVersion
			ticks(t, drive, 4)
			if w.Set("web").ResourceVersion != version {
				t.Error("a failed cleanup still writes")
			}
			expectClean(t, w, drive)
			expectDeleted(t, w, nil, nil) // web-1 was not cleaned up before web-2
			w.Node.Set(func(n *kit.Node) { n.FailCleaners = false })
			if err := retry(w, drive); err != nil {
				t.Fatal(err)
			}
			w.UntilCleanup(drive, "web", api.Succeeded, api.CleanupCompleted)
			expectDeleted(t, w, []string{"data-web-1", "data-web-2"}, []string{"web-2", "web-1"})
			expectClean(t, w, drive)
			if _, left := w.Set("web").Annotations[api.RetryAnnotation]; left {
				t.Error("the annotation of the retry is still there")
			}
		})
	}
}

// TestScaleUpWaitsForCleanup: the Event says that the member waits. It then starts on a new claim.
func TestScaleUpWaitsForCleanup(t *testing.T) {
	w, drive := cleanedWorld(t, 2)
	uid := w.Claim("data-web-1").UID
	holdPods(w, true)
	w.Scale("web", 1)
	cleanupPod(w, drive, "web-1")
	w.Scale("web", 2)
	w.Eventually("the record and an Event say that the member waits", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		doc := w.Cleanup("web")
		if len(doc.Ordinals) != 1 || doc.Ordinals[0].Reason != api.ScaleUpWaits ||
			!slices.Contains(w.Events("web"), "Warning ScaleUpWaits") {
			return fmt.Sprintf("%+v %v", doc, w.Events("web"))
		}
		return ""
	})
	ticks(t, drive, 3)
	if n := count(w.Events("web"), "Warning ScaleUpWaits"); n != 1 {
		t.Errorf("there are %d Events", n)
	}
	holdPods(w, false)
	w.UntilCleanup(drive, "web", api.Succeeded, "")
	untilReady(w, drive, "web", 2)
	if w.Claim("data-web-1").UID == uid {
		t.Error("it has the claim that was cleaned up")
	}
	expectDeleted(t, w, []string{"data-web-1"}, []string{"web-1"})
	expectClean(t, w, drive)
	if doc := w.UntilCleanup(drive, "web", api.Succeeded, ""); len(doc.Ordinals) > 0 {
		t.Errorf("%+v", doc.Ordinals)
	}
}

// TestUnobservedScaleUpAndDownIsCleanedUpByOrder: the set has its previous count again, and no function has seen the count in
// between.
// Invariants: I1.
func TestUnobservedScaleUpAndDownIsCleanedUpByOrder(t *testing.T) {
	w, drive := cleanedWorld(t, 1)
	w.Eventually("the set is at least two seconds old", func() string { // creation times have whole seconds
		if made := w.Set("web").CreationTimestamp; time.Since(made.Time) < 2*time.Second {
			return "it is not"
		}
		return ""
	})
	w.Scale("web", 2)
	w.Eventually("two replicas are ready", func() string {
		if n := w.Set("web").Status.ReadyReplicas; n != 2 {
			return fmt.Sprintf("%d are", n)
		}
		return ""
	})
	w.Scale("web", 1)
	w.Eventually("one is left", func() string {
		if set := w.Set("web"); set.Status.Replicas != 1 || set.Status.ObservedGeneration != set.Generation {
			return fmt.Sprintf("%d are", set.Status.Replicas)
		}
		return ""
	})
	ticks(t, drive, 3)
	expectDeleted(t, w, nil, nil)
	w.GiveUp("web", 1)
	w.UntilCleanup(drive, "web", api.Succeeded, api.CleanupCompleted)
	expectDeleted(t, w, []string{"data-web-1"}, []string{"web-1"})
	expectClean(t, w, drive)
}

// TestCleanupOfPreviousSetDeletesNothing: a new set with the same name keeps all claims.
// Invariants: I3.
func TestCleanupOfPreviousSetDeletesNothing(t *testing.T) {
	for _, propagation := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground,
		metav1.DeletePropagationOrphan} {
		t.Run(string(propagation), func(t *testing.T) {
			w, drive := cleanedWorld(t, 3)
			before := w.ClaimUIDs()
			holdPods(w, true)
			w.Scale("web", 2)
			cleanupPod(w, drive, "web-2")
			w.DeleteSet("web", propagation)
			holdPods(w, false) // now the cleanup succeeds, for a deleted set
			again := w.SetWithCleanup("web", 3)
			again.Namespace = w.Namespace
			if _, err := w.Kube.AppsV1().StatefulSets(w.Namespace).Create(context.Background(), again, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			untilReady(w, drive, "web", 3)
			w.UntilCleanup(drive, "web", api.Succeeded, api.CleanupReady)
			expectClean(t, w, drive)
			if after := w.ClaimUIDs(); after != before {
				t.Errorf("claims %s, were %s", after, before)
			}
		})
	}
}

// TestDeletedCleanupPodKeepsLock: deleting the cleanup pod frees neither its name, which is the lock, nor the claim. It
// is created again.
func TestDeletedCleanupPodKeepsLock(t *testing.T) {
	w, drive := cleanedWorld(t, 2)
	holdPods(w, true)
	w.Scale("web", 1)
	first := cleanupPod(w, drive, "web-1").UID
	w.Kubectl("delete", "pod", "web-1", "--force", "--grace-period=0", "--wait=false")
	w.Scale("web", 2)
	<-time.After(500 * time.Millisecond) // the StatefulSet controller tries to create its pod
	pod, err := w.Kube.CoreV1().Pods(w.Namespace).Get(context.Background(), "web-1", metav1.GetOptions{})
	if err != nil || pod.UID != first {
		t.Fatalf("the name was free before any function ran: %v", err)
	}
	w.Scale("web", 1)
	w.GiveUp("web", 1) // no function has seen the scale-up
	w.Eventually("there is another cleanup pod", func() string {
		if pod := cleanupPod(w, drive, "web-1"); pod.UID == first {
			return "it is the first one"
		}
		return ""
	})
	holdPods(w, false)
	w.UntilCleanup(drive, "web", api.Succeeded, api.CleanupCompleted)
	expectDeleted(t, w, []string{"data-web-1"}, []string{"web-1"})
	expectClean(t, w, drive)
}

// TestSleepAndResizeAreNoScaleDown: members that Drydock stops for a while are not cleaned up.
// Invariants: I1.
func TestSleepAndResizeAreNoScaleDown(t *testing.T) {
	w, drive := cleanedWorld(t, 2)
	w.Node.Set(func(n *kit.Node) { n.GuardClaims = false }) // the resize replaces claims
	w.Annotate("web", map[string]string{api.PausedAnnotation: "true"})
	w.UntilSleep(drive, "web", api.Asleep)
	ticks(t, drive, 3)
	expectDeleted(t, w, nil, nil)
	w.PatchSet("web", fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, api.PausedAnnotation))
	w.UntilSleep(drive, "web", api.Succeeded)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	if status := w.Finish(drive, "web"); status.Phase != api.Succeeded {
		t.Fatalf("%s: %s", status.Phase, status.Message)
	}
	if order := w.Node.CleanedPods(); len(order) > 0 {
		t.Errorf("cleaned up: %v", order)
	}
	for _, problem := range w.ClaimProblems("data-web-0", "data-web-1") {
		t.Error(problem)
	}
	w.UntilCleanup(drive, "web", api.Succeeded, api.CleanupReady) // of the set that the resize has created again
	w.Scale("web", 1)
	w.UntilCleanup(drive, "web", api.Succeeded, api.CleanupCompleted)
	if order := w.Node.CleanedPods(); !slices.Equal(order, []string{"web-1"}) {
		t.Errorf("cleaned up: %v", order)
	}
}

// TestSleepWithLostRecordIsNoScaleDown: the journal says that the members come back, and they do.
// Invariants: I1.
func TestSleepWithLostRecordIsNoScaleDown(t *testing.T) {
	w, drive := cleanedWorld(t, 2)
	before := w.ClaimUIDs()
	w.Annotate("web", map[string]string{api.PausedAnnotation: "true"})
	w.UntilSleep(drive, "web", api.Asleep)
	w.PatchSet("web", fmt.Sprintf(`{"metadata":{"annotations":{%q:null,%q:null}}}`, api.PausedAnnotation, api.SleepAnnotation))
	if err := w.SendSetEvent(drive, events.Retry, "web"); err != nil { // cleanup-pod runs first
		t.Fatal(err)
	}
	untilReady(w, drive, "web", 2)
	if after := w.ClaimUIDs(); after != before {
		t.Errorf("claims %s, were %s", after, before)
	}
	expectDeleted(t, w, nil, nil)
	expectClean(t, w, drive)
}

// TestResizeWithLostRecordIsNoScaleDown: held members are not removed members.
// Invariants: I1.
func TestResizeWithLostRecordIsNoScaleDown(t *testing.T) {
	w, drive := cleanedWorld(t, 2)
	w.Node.Set(func(n *kit.Node) { n.GuardClaims = false }) // the resize replaces claims
	holdPods(w, true)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	w.Eventually("both members are held and copied", func() string {
		_ = drive.Tick(context.Background())
		if status := w.Status("web"); status == nil || !allInPhase(status, api.MemberFinalPass) {
			return describe(status)
		}
		return ""
	})
	w.PatchSet("web", fmt.Sprintf(`{"metadata":{"annotations":{%q:null,%q:null}}}`, api.ResizeAnnotation, api.StatusAnnotation))
	if err := w.SendSetEvent(drive, events.Retry, "web"); err != nil { // cleanup-pod runs first
		t.Fatal(err)
	}
	holdPods(w, false)
	ticks(t, drive, 10)
	if order := w.Node.CleanedPods(); len(order) > 0 {
		t.Errorf("cleaned up: %v", order)
	}
	for _, problem := range w.Node.Violations() {
		t.Error(problem)
	}
}

// TestSleepAndResizeWaitForCleanup: a set has one operation at a time.
// Invariants: I3.
func TestSleepAndResizeWaitForCleanup(t *testing.T) {
	w, drive := cleanedWorld(t, 2)
	holdPods(w, true)
	w.Scale("web", 1)
	cleanupPod(w, drive, "web-1")
	w.Annotate("web", map[string]string{api.PausedAnnotation: "true", api.ResizeAnnotation: "data=128Mi"})
	ticks(t, drive, 3)
	if w.Sleep("web") != nil || w.Status("web") != nil {
		t.Errorf("sleep %+v, status %+v", w.Sleep("web"), w.Status("web"))
	}
	w.PatchSet("web", fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, api.ResizeAnnotation))
	holdPods(w, false)
	w.UntilSleep(drive, "web", api.Asleep)
	expectDeleted(t, w, []string{"data-web-1"}, []string{"web-1"})
}

// TestCleanupBeginsAgainAfterItsRecordIsLost: without the record Drydock knows nothing of the running cleanup.
// Invariants: I2.
func TestCleanupBeginsAgainAfterItsRecordIsLost(t *testing.T) {
	w, drive := cleanedWorld(t, 2)
	holdPods(w, true)
	w.Scale("web", 1)
	cleanupPod(w, drive, "web-1")
	w.PatchSet("web", fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, api.CleanupAnnotation))
	holdPods(w, false)
	w.UntilCleanup(drive, "web", api.Succeeded, api.CleanupCompleted)
	expectClean(t, w, drive)
	if deleted := w.Node.DeletedClaims(); !slices.Equal(deleted, []string{"data-web-1"}) {
		t.Errorf("deleted %v", deleted)
	}
}
