package cleanuppod

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// revision is that of the set's pods, with an owner or without.
func revision(in Input, options ...build.Option) Input {
	return in.with(func(in *Input) {
		in.Revision = build.With(&appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "web-1"}}, options...)
	})
}

func TestDeletion(t *testing.T) {
	owned := build.Owned("StatefulSet", "web")
	zero, one := left("data-web-0"), left("data-web-1")
	c := cleaning()
	check(t, map[string]row{
		"without our finalizer": {in: on(web(build.Deleting(), ready(1)), zero),
			want: "noop SetGone"},
		"without it, a cleanup runs: the pods go": {in: on(web(build.Deleting(), c), one, on1(1)),
			want: "do CleanupCanceled: delete pods web-1"},
		"without it, a cleanup ran": {in: on(web(build.Deleting(), c), one),
			want: `do SetGone: patch statefulsets web {+cleanup}; event SetGone "the StatefulSet is being deleted; the claims that are left are kept" -> operation.failed`, next: "Failed SetGone at Cleaning, attempt 1, replicas 1, finished 0s"},
		"I9: in the background: it begins": {in: revision(on(goingWeb(ready(1)), zero, replica(0)), owned),
			want: "do CleanupStarted: patch statefulsets web {+cleanup}", next: "Cleaning CleanupStarted, attempt 2, replicas 1, accounted 0-1"},
		"I9: it begins without a document": {in: on(goingWeb(), zero, replica(0)),
			want: "do CleanupStarted: patch statefulsets web {+cleanup}", next: "Cleaning CleanupStarted, attempt 1, replicas 1"},
		"I9: in the foreground: the revision is gone": {in: on(goingWeb(ready(1)), zero),
			want: "do CleanupStarted: patch statefulsets web {+cleanup}", next: "Cleaning CleanupStarted, attempt 2, replicas 1, accounted 0-1"},
		"the replica is ended": {in: revision(on(goingWeb(c), zero, replica(0)), owned),
			want: "do ReplicaEnding: delete pods web-0"},
		"the replica ends": {in: on(goingWeb(c), zero, replica(0, build.Deleting())),
			want: "wait ReplicaEnding (pod web-0 is still there)"},
		"the replica's claim is marked first": {in: on(goingWeb(c), build.Claim("data-web-0", "64Mi"), replica(0)),
			want: "do ReplicasSeen: patch persistentvolumeclaims data-web-0 {+replica-of}"},
		"the pod is made": {in: on(goingWeb(c), zero),
			want: `do CleanupStarted: create pods web-0; event CleanupStarted "pod web-0 cleans up claim data-web-0"`},
		"the pod runs": {in: on(goingWeb(c), zero, on1(0)),
			want: "wait CleanupRunning (pod web-0 is Running)"},
		"the pod succeeded": {in: on(goingWeb(c), zero, on1(0, succeeded)),
			want: `do CleanupDone: event CleanupDone "pod web-0 succeeded on claim data-web-0"; delete persistentvolumeclaims data-web-0; event ClaimsDeleted "claim data-web-0 deleted after the cleanup of ordinal 0"`},
		"from the highest down": {in: on(goingWeb(build.Replicas(3), c), zero, one, left("data-web-2"), replica(0), replica(1)),
			want: `do CleanupStarted: create pods web-2; event CleanupStarted "pod web-2 cleans up claim data-web-2"`},
		"all at once": {in: on(goingWeb(build.Replicas(3), parallel, c), zero, one, replica(0), on1(1)),
			want: "do ReplicaEnding: delete pods web-0"},
		"all is done": {in: on(goingWeb(c)),
			want: `do CleanupCompleted: patch statefulsets web {+cleanup, -finalizer cleanup, -label finalizer}; event CleanupCompleted "the StatefulSet may go: its ordinals are cleaned up" -> cleanup.completed`, next: "Succeeded CleanupCompleted, attempt 1, replicas 1, finished 0s"},
		"nothing was to be done": {in: on(goingWeb(ready(1))),
			want: `do FinalizerRemoved: patch statefulsets web {-finalizer cleanup, -label finalizer}`},
		"a claim that nobody has used": {in: on(goingWeb(ready(1)), build.Claim("data-web-0", "64Mi")),
			want: `do FinalizerRemoved: patch statefulsets web {-finalizer cleanup, -label finalizer}; event NeverUsed "claim data-web-0 is left alone: no replica of this StatefulSet is known to have used it; if one has: kubectl annotate -n shop pvc data-web-0 drydock.dev/replica-of=uid-web, then kubectl drydock emit object.changed -n shop sts/web --concerns cleanup-pod"`},
		"it failed before: it begins": {in: on(goingWeb(gaveUp()), zero),
			want: "do CleanupStarted: patch statefulsets web {+cleanup}", next: "Cleaning CleanupStarted, attempt 2, replicas 1, accounted 0-1"},
		"it failed in the second of the deletion": {in: on(goingWeb(gaveUp(finished(0))), zero),
			want: "do CleanupStarted: patch statefulsets web {+cleanup}", next: "Cleaning CleanupStarted, attempt 2, replicas 1, accounted 0-1"},
		"it has failed: the set is held": {in: on(goingWeb(endedSince(time.Hour), gaveUp(entry(0, api.CleanupFailed))), zero),
			want: "noop CleanupFailed"},
		"it has failed, and a retry": {in: on(goingWeb(endedSince(time.Hour), retry, gaveUp(entry(0, api.CleanupFailed))), zero),
			want: "do CleanupStarted: patch statefulsets web {+cleanup, -retry}", next: "Cleaning CleanupStarted, attempt 2, replicas 1, accounted 0-1"},
		"it has failed, nothing is left any more": {in: on(goingWeb(endedSince(time.Hour), gaveUp(entry(0, api.CleanupFailed)))),
			want: `do FinalizerRemoved: patch statefulsets web {-finalizer cleanup, -label finalizer}`},
		"it fails": {in: on(goingWeb(cleaning(entry(0, api.CleanupFailed, tries(3)))), zero),
			want: "do CleanupFailed: patch statefulsets web {+cleanup} -> operation.failed", next: "Failed CleanupFailed at Cleaning, attempt 1, replicas 1, finished 0s; 0 CleanupFailed, tries 3"},
		"aborted: it goes": {in: on(goingWeb(abort, ready(1)), zero),
			want: `do FinalizerRemoved: patch statefulsets web {-finalizer cleanup, -label finalizer}; event FinalizerRemoved "the StatefulSet goes without a cleanup: aborted; its claims are kept"`},
		"aborted: the pods go first": {in: on(goingWeb(abort, c), zero, on1(0)),
			want: "do CleanupCanceled: delete pods web-0"},
		"aborted: its pod ends": {in: on(goingWeb(abort, c), zero, on1(0, build.Deleting(), build.Finalizers())),
			want: "wait CleaningUp (pod web-0 ends)"},
		"aborted while it runs": {in: on(goingWeb(abort, c), zero),
			want: `do FinalizerRemoved: patch statefulsets web {+cleanup, -finalizer cleanup, -label finalizer}; event FinalizerRemoved "the StatefulSet goes without a cleanup: aborted; its claims are kept" -> operation.failed`, next: "Failed CleanupCanceled at Cleaning, attempt 1, replicas 1, finished 0s"},
		"orphaned: not yet by the garbage collector": {in: on(goingWeb(build.Finalizers("orphan", api.CleanupFinalizer), ready(1)), zero, replica(0)),
			want: `do FinalizerRemoved: patch statefulsets web {-finalizer cleanup, -label finalizer}; event FinalizerRemoved "the StatefulSet goes without a cleanup: it was deleted with its replicas orphaned; its claims are kept"`},
		"orphaned: the revision has no owner": {in: revision(on(goingWeb(ready(1)), zero, replica(0))),
			want: `do FinalizerRemoved: patch statefulsets web {-finalizer cleanup, -label finalizer}; event FinalizerRemoved "the StatefulSet goes without a cleanup: it was deleted with its replicas orphaned; its claims are kept"`},
		"orphaned: somebody else adopted the revision": {in: revision(on(goingWeb(ready(1)), zero, replica(0)), build.Owned("StatefulSet", "other")),
			want: `do FinalizerRemoved: patch statefulsets web {-finalizer cleanup, -label finalizer}; event FinalizerRemoved "the StatefulSet goes without a cleanup: it was deleted with its replicas orphaned; its claims are kept"`},
		"the namespace ends": {in: rejected(on(goingWeb(c), zero)).with(func(in *Input) { in.NamespaceEnds = true }),
			want: `do FinalizerRemoved: patch statefulsets web {+cleanup, -finalizer cleanup, -label finalizer}; event FinalizerRemoved "the StatefulSet goes without a cleanup: its namespace is being deleted, so no pod can be made; its claims are kept" -> operation.failed`, next: "Failed CleanupCanceled at Cleaning, attempt 1, replicas 1, finished 0s"},
		"a pod is rejected": {in: rejected(on(goingWeb(c), zero)),
			want: `do CleanupTried: patch statefulsets web {+cleanup}; event CleanupTried "the API server refuses: pods is forbidden"`, next: "Cleaning , attempt 1, replicas 1; 0 CleanupTried, tries 1, next 10s"},
		"a resize was under way": {in: on(goingWeb(build.Status(build.Operation(api.Moving)), ready(1)), zero),
			want: `do FinalizerRemoved: patch statefulsets web {-finalizer cleanup, -label finalizer}; event FinalizerRemoved "the StatefulSet goes without a cleanup: a resize was under way; its claims are kept"`},
		"it was asleep": {in: on(goingWeb(build.WithSleep(build.Sleep(api.Asleep)), build.Replicas(0), ready(1)), zero),
			want: "do CleanupStarted: patch statefulsets web {+cleanup}", next: "Cleaning CleanupStarted, attempt 2, replicas 0, accounted 0-1"},
		"it does not ask for it any more": {in: on(goingWeb(build.Annotation(api.CleanupOnDeleteAnnotation, ""), ready(1)), zero),
			want: `do FinalizerRemoved: patch statefulsets web {-finalizer cleanup, -label finalizer}; event FinalizerRemoved "the StatefulSet goes without a cleanup: it does not ask for a cleanup on deletion any more; its claims are kept"`},
		"held, and not opted in any more": {in: on(goingWeb(optOut, ready(1)), zero),
			want: `do FinalizerRemoved: patch statefulsets web {-finalizer cleanup, -label finalizer}; event FinalizerRemoved "the StatefulSet goes without a cleanup: it does not ask for a cleanup on deletion any more; its claims are kept"`},
		"held, without a template": {in: on(goingWeb(build.Annotation(api.CleanupTemplateAnnotation, ""), ready(1)), zero),
			want: `do FinalizerRemoved: patch statefulsets web {-finalizer cleanup, -label finalizer}; event FinalizerRemoved "the StatefulSet goes without a cleanup: it has no cleanup pod template; its claims are kept"`},
		"its template is wrong": {in: on(goingWeb(build.Annotation(api.CleanupTemplateAnnotation, "{}"), ready(1)), zero),
			want: `do FinalizerRemoved: patch statefulsets web {-finalizer cleanup, -label finalizer}; event FinalizerRemoved "the StatefulSet goes without a cleanup: annotation drydock.dev/cleanup-pod-template: spec.containers is empty; name the container that cleans up; its claims are kept"`},
		"its template was refused": {in: on(goingWeb(refusedOnce()), zero),
			want: `do FinalizerRemoved: patch statefulsets web {-finalizer cleanup, -label finalizer}; event FinalizerRemoved "the StatefulSet goes without a cleanup: it was wrong; its claims are kept"`},
		"a claim of an ordinal is missing": {in: on(goingWeb(build.Template("logs", "1Mi", "fixed"), c), zero),
			want: `do ClaimMissing: patch statefulsets web {+cleanup}; event ClaimMissing "claim logs-web-0 is missing, on which the cleanup pod of ordinal 0 was to run; create it, or delete the ordinal's other claims yourself, then annotate the StatefulSet with drydock.dev/retry"`, next: "Cleaning , attempt 1, replicas 1; 0 ClaimMissing"},
		"our finalizer is the only one": {in: on(goingWeb(build.Finalizers(api.CleanupFinalizer), c)),
			want: `do CleanupCompleted: patch statefulsets web {+cleanup, -finalizer cleanup, -label finalizer}; event CleanupCompleted "the StatefulSet may go: its ordinals are cleaned up" -> cleanup.completed`, next: "Succeeded CleanupCompleted, attempt 1, replicas 1, finished 0s"},
		"the document cannot be read: nothing is touched": {in: on(goingWeb(build.Annotation(api.CleanupAnnotation, "{")), zero, on1(0)),
			want: `do StatusInvalid: event StatusInvalid "reading annotation drydock.dev/cleanup of StatefulSet shop/web: unexpected end of JSON input; remove the annotation if no operation runs"`},
		"a replica without claims is ended, too": {in: on(goingWeb(ready(1)), replica(0)),
			want: "do CleanupStarted: patch statefulsets web {+cleanup}", next: "Cleaning CleanupStarted, attempt 2, replicas 1, accounted 0-1"},
		"a pod of nobody has the replica's name": {in: on(goingWeb(c), zero, build.Pod("web-0", nil)),
			want: `do NameTaken: patch statefulsets web {+cleanup}; event NameTaken "pod web-0 has the replica's name and is not the set's; delete it, or let it end"`, next: "Cleaning , attempt 1, replicas 1; 0 NameTaken, due 25h0m0s"},
	})
}

// TestPodsOfASetThatGoes: one that deletes in the foreground would take a pod that it owns with it.
func TestPodsOfASetThatGoes(t *testing.T) {
	for name, row := range map[string]struct {
		set  *appsv1.StatefulSet
		want int
	}{
		"of a set":                  {web(cleaning()), 1},
		"of a set that may be held": {web(onDelete, held, cleaning()), 0},
		"of a set that is held":     {goingWeb(cleaning()), 0},
	} {
		for _, a := range Decide(on(row.set, left("data-web-1"))).Actions {
			if pod, ok := a.Object.(*corev1.Pod); ok && len(pod.OwnerReferences) != row.want {
				t.Errorf("%s: %+v", name, pod.OwnerReferences)
			}
		}
	}
}
