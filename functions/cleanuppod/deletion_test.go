package cleanuppod

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/operation"
	"drydock.dev/test/kit/build"
)

// revision returns the input with the ControllerRevision of the set's pods.
func revision(in Input, options ...build.Option) Input {
	return in.with(func(in *Input) {
		in.Revision = build.With(&appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "web-1"}}, options...)
	})
}

// Invariants: I9.
func TestDeletionOfSet(t *testing.T) {
	owned := build.ControlledBy("StatefulSet", "web")
	zero, one := usedClaim("data-web-0"), usedClaim("data-web-1")
	c := cleaning()
	check(t, map[string]Input{
		"without our finalizer": on(web(build.Deleting(), settledRecord(1)), zero),
		"without our finalizer, a cleanup pod runs: it is removed": on(web(build.Deleting(), c), one, cleanupPod(1)),
		"without our finalizer, a cleanup runs without a pod":      on(web(build.Deleting(), c), one),
		"background deletion: the cleanup starts":                  revision(on(deletedWeb(settledRecord(1)), zero, replica(0)), owned),
		"background deletion without a record: the cleanup starts": on(deletedWeb(), zero, replica(0)),
		"foreground deletion: the cleanup starts":                  on(deletedWeb(settledRecord(1)), zero),
		"the replica is deleted":                                   revision(on(deletedWeb(c), zero, replica(0)), owned),
		"the replica is terminating":                               on(deletedWeb(c), zero, replica(0, build.Deleting())),
		"the replica's claim is not marked yet":                    on(deletedWeb(c), build.Claim("data-web-0", "64Mi"), replica(0)),
		"the pod is made":                                          on(deletedWeb(c), zero),
		"the pod runs":                                             on(deletedWeb(c), zero, cleanupPod(0)),
		"the pod succeeded":                                        on(deletedWeb(c), zero, cleanupPod(0, succeeded)),
		"the highest ordinal is cleaned up first": on(deletedWeb(build.Replicas(3), c), zero, one, usedClaim("data-web-2"), replica(0),
			replica(1)),
		"a parallel set stops all replicas": on(deletedWeb(build.Replicas(3), parallel, c), zero, one, replica(0),
			cleanupPod(1)),
		"all ordinals are cleaned up":                                     on(deletedWeb(c)),
		"nothing is left to clean up":                                     on(deletedWeb(settledRecord(1))),
		"a claim without a known user is reported":                        on(deletedWeb(settledRecord(1)), build.Claim("data-web-0", "64Mi")),
		"a cleanup failed before the deletion: it starts again":           on(deletedWeb(failedCleanup()), zero),
		"a cleanup failed in the second of the deletion: it starts again": on(deletedWeb(failedCleanup(finished(0))), zero),
		"the cleanup failed: the set is kept": on(deletedWeb(endedSince(time.Hour), failedCleanup(entry(0, api.CleanupFailed, givenUp))),
			zero),
		"the cleanup failed, and the retry annotation is set": on(
			deletedWeb(endedSince(time.Hour), retry, failedCleanup(entry(0, api.CleanupFailed, givenUp))), zero),
		"the cleanup failed, and the claim is gone": on(deletedWeb(endedSince(time.Hour), failedCleanup(entry(0, api.CleanupFailed, givenUp)))),
		"the cleanup fails":                         on(deletedWeb(cleaning(entry(0, api.CleanupFailed, givenUp, tries(3)))), zero),
		"an abort releases the set":                 on(deletedWeb(abort, settledRecord(1)), zero),
		"an abort removes the pods first":           on(deletedWeb(abort, c), zero, cleanupPod(0)),
		"an abort waits for the terminating pod":    on(deletedWeb(abort, c), zero, cleanupPod(0, build.Deleting(), build.Finalizers())),
		"an abort during the cleanup":               on(deletedWeb(abort, c), zero),
		"orphan propagation before the garbage collector acted": on(
			deletedWeb(build.Finalizers("orphan", api.CleanupFinalizer), settledRecord(1)), zero, replica(0)),
		"orphan propagation: the revision has no owner": revision(on(deletedWeb(settledRecord(1)), zero, replica(0))),
		"orphan propagation: another set adopted the revision": revision(on(deletedWeb(settledRecord(1)), zero, replica(0)),
			build.ControlledBy("StatefulSet", "other")),
		"the namespace is being deleted": rejected(on(deletedWeb(c), zero)).with(func(in *Input) { in.NamespaceEnds = true }),
		"a pod is rejected":              rejected(on(deletedWeb(c), zero)),
		"a resize was in progress":       on(deletedWeb(build.Status(build.Operation(api.Moving)), settledRecord(1)), zero),
		"the set was asleep":             on(deletedWeb(build.WithSleep(build.Sleep(api.Asleep)), build.Replicas(0), settledRecord(1)), zero),
		"the set no longer requests a cleanup on deletion": on(
			deletedWeb(build.Annotation(api.CleanupOnDeleteAnnotation, ""), settledRecord(1)), zero),
		"an operator makes the set, and may create it again": on(deletedWeb(build.ControlledBy("Database", "main"), settledRecord(1)), zero),
		"an operator has adopted the set during the cleanup": on(deletedWeb(build.ControlledBy("Database", "main"), c), zero),
		"the set is no longer opted in":                      on(deletedWeb(optOut, settledRecord(1)), zero),
		"the template was removed": on(deletedWeb(build.Annotation(api.CleanupTemplateAnnotation, ""), settledRecord(1)),
			zero),
		"the template is invalid": on(deletedWeb(build.Annotation(api.CleanupTemplateAnnotation, "{}"), settledRecord(1)),
			zero),
		"the template was refused":                     on(deletedWeb(refusedOnce()), zero),
		"a claim of an ordinal is missing":             on(deletedWeb(build.Template("logs", "1Mi", "fixed"), c), zero),
		"our finalizer is the only one":                on(deletedWeb(build.Finalizers(api.CleanupFinalizer), c)),
		"the record is unreadable: nothing is changed": on(deletedWeb(build.Annotation(api.CleanupAnnotation, "{")), zero, cleanupPod(0)),
		"a replica without claims":                     on(deletedWeb(settledRecord(1)), replica(0)),
		"another pod has the replica's name":           on(deletedWeb(c), zero, build.Pod("web-0", nil)),
	})
}

// TestCleanupPodOfDeletedSetHasNoOwner: foreground deletion would delete a pod that the set owns.
func TestCleanupPodOfDeletedSetHasNoOwner(t *testing.T) {
	for name, row := range map[string]struct {
		set  *appsv1.StatefulSet
		want int
	}{
		"a set without our finalizer":      {web(cleaning()), 1},
		"a set with our finalizer":         {web(onDelete, held, build.Label(api.FinalizerLabel, api.FinalizerForCleanup), cleaning()), 0},
		"a deleted set with our finalizer": {deletedWeb(cleaning()), 0},
	} {
		p := Decide(on(row.set, usedClaim("data-web-1")))
		var pods []*corev1.Pod
		for _, a := range p.Actions {
			if pod, ok := a.Object.(*corev1.Pod); ok {
				pods = append(pods, pod)
			}
		}
		if len(pods) != 1 || len(pods[0].OwnerReferences) != row.want {
			t.Errorf("%s: want a pod with %d owners: %s, %+v", name, row.want, p, pods)
		}
	}
}

// TestDeletedSetWithoutClaimsIsFound: the cleanup of a deleted set has failed, so the set waits for its user. Then its claims are deleted,
// for example with their namespace. No event names the set, and the namespace cannot go before it.
func TestDeletedSetWithoutClaimsIsFound(t *testing.T) {
	in := on(deletedWeb(endedSince(time.Hour), failedCleanup(entry(0, api.CleanupFailed, givenUp))))
	if p := Decide(in); p.Reason != api.FinalizerRemoved {
		t.Fatalf("%s, want that the set is released", p)
	}
	woken := 0
	for minute := range 60 {
		now := build.Now.Add(time.Duration(minute) * time.Minute)
		woken += len(cleanup.Concerned(operation.Change{Set: in.Set, Records: operation.Of(in.Set), Now: now, Swept: true,
			PreviousSweep: now.Add(-time.Minute)}))
	}
	if woken != 4 {
		t.Errorf("the sweeps of an hour wake cleanup-pod %d times, want 4", woken)
	}
}
