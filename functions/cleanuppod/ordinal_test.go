package cleanuppod

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

func TestBeginning(t *testing.T) {
	traced := on(web(ready(1)), left("data-web-1")).with(func(in *Input) { in.Trace = "00-trace" })
	many := []string{"12", "11", "10", "9", "8", "7", "6", "5", "4", "3", "2", "1"}
	lots := on(web(ready(1)))
	for _, n := range many {
		lots.Claims = append(lots.Claims, left("data-web-"+n))
	}
	check(t, map[string]row{
		"a scale-down has left a claim": {in: on(web(ready(3, counted(3))), left("data-web-0"), left("data-web-1"), replica(0)),
			want: "do CleanupStarted: patch statefulsets web {+cleanup}", next: "Cleaning CleanupStarted, attempt 2, replicas 1, accounted 0-3"},
		"with tracing": {in: traced,
			want: "do CleanupStarted: patch statefulsets web {+cleanup}", next: "Cleaning CleanupStarted, attempt 2, replicas 1, accounted 0-1"},
		"two": {in: on(web(ready(1)), left("data-web-1"), left("data-web-3")),
			want: "do CleanupStarted: patch statefulsets web {+cleanup}", next: "Cleaning CleanupStarted, attempt 2, replicas 1, accounted 0-1"},
		"twelve": {in: lots,
			want: "do CleanupStarted: patch statefulsets web {+cleanup}", next: "Cleaning CleanupStarted, attempt 2, replicas 1, accounted 0-1"},
		"the replica is still there: it is waited for": {in: on(web(ready(2)), left("data-web-0"), left("data-web-1"), replica(0), replica(1)),
			want: "wait ReplicaEnding (pod web-1 is still there)"},
		"below the start is nothing of ours": {in: on(web(build.Edit(func(s *appsv1.StatefulSet) { s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 5} }), ready(5, func(s *api.Cleanup) { s.Span.Start = 5 })),
			left("data-web-0"), left("data-web-4")),
			want: "noop CleanupReady"},
		"the set has no document yet": {in: on(web(), left("data-web-1")),
			want: "do CleanupStarted: patch statefulsets web {+cleanup}", next: "Cleaning CleanupStarted, attempt 1, replicas 1"},
		"I3: the document came along from another set": {in: on(web(cleaning(func(s *api.Cleanup) { s.Set.UID = "uid-2"; s.Attempt = 7 })), left("data-web-1")),
			want: "do CleanupStarted: patch statefulsets web {+cleanup}", next: "Cleaning CleanupStarted, attempt 1, replicas 1"},
		"the next one has an operation of its own": {in: on(web(ready(1, func(s *api.Cleanup) { s.Attempt = 7 })), left("data-web-1")),
			want: "do CleanupStarted: patch statefulsets web {+cleanup}", next: "Cleaning CleanupStarted, attempt 8, replicas 1, accounted 0-1"},
	})
}

func TestOneOrdinal(t *testing.T) {
	c := cleaning()
	check(t, map[string]row{
		"its pod is made": {in: on(web(c), left("data-web-1")),
			want: `do CleanupStarted: create pods web-1; event CleanupStarted "pod web-1 cleans up claim data-web-1"`},
		"on all of its claims": {in: on(web(build.Template("logs", "1Mi", "fixed"), c), left("logs-web-1"), left("data-web-1")),
			want: `do CleanupStarted: create pods web-1; event CleanupStarted "pod web-1 cleans up claims [data-web-1 logs-web-1]"`},
		"the replica ends": {in: on(web(c), left("data-web-1"), replica(1, build.Deleting())),
			want: "wait ReplicaEnding (pod web-1 is still there)"},
		"the replica is not even told to end": {in: on(web(c), left("data-web-1"), replica(1)),
			want: "wait ReplicaEnding (pod web-1 is still there)"},
		"the replica does not end": {in: on(web(c), left("data-web-1"), replica(1, endedSince(12*time.Minute))),
			want: `do ReplicaEnding: patch statefulsets web {+cleanup}; event ReplicaEnding "pod web-1 was to end at 2026-03-01T11:48:00Z and has not; look at its node"`, next: "Cleaning , attempt 1, replicas 1; 1 ReplicaEnding, due 25h0m0s"},
		"it has not ended for long": {in: on(web(cleaning(entry(1, api.ReplicaEnding, due(-time.Second)))), left("data-web-1"), replica(1, endedSince(26*time.Hour))),
			want: `do ReplicaEnding: patch statefulsets web {+cleanup}; event ReplicaEnding "pod web-1 was to end at 2026-02-28T10:00:00Z and has not; look at its node"`, next: "Cleaning , attempt 1, replicas 1; 1 ReplicaEnding"},
		"the name is taken": {in: on(web(c), left("data-web-1"), build.Pod("web-1", nil)),
			want: `do NameTaken: patch statefulsets web {+cleanup}; event NameTaken "pod web-1 has the replica's name and is not the set's; delete it, or let it end"`, next: "Cleaning , attempt 1, replicas 1; 1 NameTaken, due 25h0m0s"},
		"the name is still taken": {in: on(web(cleaning(entry(1, api.NameTaken, due(time.Second)))), left("data-web-1"), build.Pod("web-1", nil)),
			want: "wait NameTaken (pod web-1 has the replica's name and is not the set's; delete it, or let it end)"},
		"the name was taken for too long": {in: on(web(cleaning(entry(1, api.NameTaken, tries(1), due(-time.Second)))), left("data-web-1"), build.Pod("web-1", nil)),
			want: `do NameTaken: patch statefulsets web {+cleanup}; event NameTaken "pod web-1 has the replica's name and is not the set's; delete it, or let it end"`, next: "Cleaning , attempt 1, replicas 1; 1 NameTaken, tries 1"},
		"the name is free again": {in: on(web(cleaning(entry(1, api.NameTaken, due(-time.Second)))), left("data-web-1")),
			want: `do CleanupStarted: patch statefulsets web {+cleanup}; create pods web-1; event CleanupStarted "pod web-1 cleans up claim data-web-1"`, next: "Cleaning , attempt 1, replicas 1"},
		"it is free again, and a try had failed": {in: on(web(cleaning(entry(1, api.NameTaken, tries(2), ofPod("uid-x"), due(time.Second)))), left("data-web-1")),
			want: `do CleanupStarted: patch statefulsets web {+cleanup}; create pods web-1; event CleanupStarted "pod web-1 cleans up claim data-web-1, after 2 failures"`, next: "Cleaning , attempt 1, replicas 1; 1 CleanupTried, tries 2, of uid-x, next 0s"},
		"a pod of another cleanup ends": {in: on(web(c), left("data-web-1"), on1(1, relinked(func(l *api.Link) { l.Operation = "other" }), build.Deleting(), build.Finalizers())),
			want: "wait CleanupCanceled (pod web-1 of an earlier cleanup ends)"},
		"a claim is missing": {in: on(web(build.Template("logs", "1Mi", "fixed"), c), left("data-web-1")),
			want: `do ClaimMissing: patch statefulsets web {+cleanup}; event ClaimMissing "claim logs-web-1 is missing, on which the cleanup pod of ordinal 1 was to run; create it, or delete the ordinal's other claims yourself, then annotate the StatefulSet with drydock.dev/retry"`, next: "Cleaning , attempt 1, replicas 1; 1 ClaimMissing"},
		"a claim goes": {in: on(web(build.Template("logs", "1Mi", "fixed"), c), left("data-web-1"), left("logs-web-1", build.Deleting())),
			want: `do ClaimMissing: patch statefulsets web {+cleanup}; event ClaimMissing "claim logs-web-1 is missing, on which the cleanup pod of ordinal 1 was to run; create it, or delete the ordinal's other claims yourself, then annotate the StatefulSet with drydock.dev/retry"`, next: "Cleaning , attempt 1, replicas 1; 1 ClaimMissing"},
		"it is used": {in: on(web(c), left("data-web-1"), build.Pod("backup", []string{"data-web-1"})),
			want: `do ClaimBusy: patch statefulsets web {+cleanup}; event ClaimBusy "pod backup uses claim data-web-1; delete it, or let it end"`, next: "Cleaning , attempt 1, replicas 1; 1 ClaimBusy, due 25h0m0s"},
		"it is used, the same obstacle as before": {in: on(web(cleaning(entry(1, api.ClaimBusy, due(time.Second)))), left("data-web-1"), build.Pod("backup", []string{"data-web-1"})),
			want: "wait ClaimBusy (pod backup uses claim data-web-1; delete it, or let it end)"},
		"it is used, that was not the obstacle": {in: on(web(cleaning(entry(1, api.NameTaken, tries(1), ofPod("uid-x"), due(-time.Second)))), left("data-web-1"), build.Pod("backup", []string{"data-web-1"})),
			want: `do ClaimBusy: patch statefulsets web {+cleanup}; event ClaimBusy "pod backup uses claim data-web-1; delete it, or let it end"`, next: "Cleaning , attempt 1, replicas 1; 1 ClaimBusy, tries 1, of uid-x, due 25h0m0s"},
		"it is used for too long": {in: on(web(cleaning(entry(1, api.ClaimBusy, tries(2), due(-time.Second)))), left("data-web-1"), build.Pod("backup", []string{"data-web-1"})),
			want: `do ClaimBusy: patch statefulsets web {+cleanup}; event ClaimBusy "pod backup uses claim data-web-1; delete it, or let it end"`, next: "Cleaning , attempt 1, replicas 1; 1 ClaimBusy, tries 2"},
		"who used it is done": {in: on(web(c), left("data-web-1"), build.Pod("backup", []string{"data-web-1"}, succeeded)),
			want: `do CleanupStarted: create pods web-1; event CleanupStarted "pod web-1 cleans up claim data-web-1"`},
		"its pod runs": {in: on(web(c), left("data-web-1"), on1(1)),
			want: "wait CleanupRunning (pod web-1 is Running)"},
		"its pod starts": {in: on(web(c), left("data-web-1"), on1(1, pending)),
			want: "wait CleanupRunning (pod web-1 is Pending)"},
		"back-off": {in: on(web(cleaning(entry(1, api.CleanupTriedOnce, tries(1), next(time.Second)))), left("data-web-1")),
			want: "wait BackingOff (ordinal 1 is tried again at 2026-03-01T12:00:01Z)"},
		"back-off is over": {in: on(web(cleaning(entry(1, api.CleanupTriedOnce, tries(1), next(-time.Second)))), left("data-web-1")),
			want: `do CleanupStarted: create pods web-1; event CleanupStarted "pod web-1 cleans up claim data-web-1, after 1 failures"`},
		"nothing is left behind": {in: on(web(c), left("data-web-0"), replica(0)),
			want: `do CleanupCompleted: patch statefulsets web {+cleanup}; event CleanupCompleted "nothing is left behind" -> cleanup.completed`, next: "Succeeded CleanupCompleted, attempt 1, replicas 1, accounted 0-1, finished 0s"},
		"a claim that is not known is not touched": {in: on(web(c), build.Claim("data-web-1", "64Mi")),
			want: `do CleanupCompleted: patch statefulsets web {+cleanup}; event NeverUsed "claim data-web-1 is left alone: no replica of this StatefulSet is known to have used it; if one has: kubectl annotate -n shop pvc data-web-1 drydock.dev/replica-of=uid-web, then kubectl drydock emit object.changed -n shop sts/web --concerns cleanup-pod"; event CleanupCompleted "nothing is left behind" -> cleanup.completed`, next: "Succeeded CleanupCompleted, attempt 1, replicas 1, accounted 0-0, finished 0s; 1 NeverUsed"},
	})
}

func TestSuccess(t *testing.T) {
	both := []string{"data-web-1", "logs-web-1"}
	two := func(options ...build.Option) *appsv1.StatefulSet {
		return web(append([]build.Option{build.Template("logs", "1Mi", "fixed")}, options...)...)
	}
	pod := func(options ...build.Option) *corev1.Pod {
		return cleaner(1, both, append([]build.Option{succeeded}, options...)...)
	}
	c := cleaning()
	check(t, map[string]row{
		"I9: the claims are deleted": {in: on(two(c), left("data-web-1"), left("logs-web-1"), pod()),
			want: `do CleanupDone: event CleanupDone "pod web-1 succeeded on claims [data-web-1 logs-web-1]"; delete persistentvolumeclaims data-web-1; delete persistentvolumeclaims logs-web-1; event ClaimsDeleted "claims [data-web-1 logs-web-1] deleted after the cleanup of ordinal 1"`},
		"I6: one is gone already": {in: on(two(c), left("logs-web-1"), pod()),
			want: `do CleanupDone: event CleanupDone "pod web-1 succeeded on claim logs-web-1"; delete persistentvolumeclaims logs-web-1; event ClaimsDeleted "claim logs-web-1 deleted after the cleanup of ordinal 1"`},
		"I6: one is about to go": {in: on(two(c), left("data-web-1", build.Deleting()), left("logs-web-1"), pod()),
			want: `do CleanupDone: event CleanupDone "pod web-1 succeeded on claim logs-web-1"; delete persistentvolumeclaims logs-web-1; event ClaimsDeleted "claim logs-web-1 deleted after the cleanup of ordinal 1"`},
		"I6: all are about to go": {in: on(two(c), left("data-web-1", build.Deleting()), left("logs-web-1", build.Deleting()), pod()),
			want: "do ClaimsDeleted: delete pods web-1"},
		"I6: all are gone": {in: on(two(c), pod()),
			want: "do ClaimsDeleted: delete pods web-1"},
		"somebody deleted it, and then it ended with 0": {in: on(two(c), left("data-web-1"), left("logs-web-1"), pod(build.Deleting(), finishedAt(0))),
			want: "do CleaningUp: patch pods web-1 {-finalizer cleanup}"},
		"somebody deleted it, and nothing tells when it ended": {in: on(two(c), left("data-web-1"), left("logs-web-1"), pod(build.Deleting())),
			want: "do CleaningUp: patch pods web-1 {-finalizer cleanup}"},
		"I6: it had succeeded when somebody deleted it": {in: on(two(c), left("data-web-1"), left("logs-web-1"), pod(askedJustNow, finishedAt(-time.Hour))),
			want: `do CleanupDone: event CleanupDone "pod web-1 succeeded on claims [data-web-1 logs-web-1]"; delete persistentvolumeclaims data-web-1; delete persistentvolumeclaims logs-web-1; event ClaimsDeleted "claims [data-web-1 logs-web-1] deleted after the cleanup of ordinal 1"`},
		"I1: it was canceled, ended with 0, and its kubelet has deleted it since, which moves the time of its deletion": {
			in:   on(two(c), left("data-web-1"), left("logs-web-1"), pod(build.Deleting(), lastDeletion, finishedAt(-time.Hour))),
			want: "do CleaningUp: patch pods web-1 {-finalizer cleanup}"},
		"I6: the pod ends": {in: on(two(c), left("data-web-1", build.Deleting()), pod(build.Deleting())),
			want: "do CleaningUp: patch pods web-1 {-finalizer cleanup}"},
		"I6: with finalizers of others": {in: on(two(c), pod(build.Deleting(), build.Finalizers("a", api.CleanupFinalizer, "b"))),
			want: "do CleaningUp: patch pods web-1 {-finalizer cleanup}"},
		"I6: our finalizer is gone": {in: on(two(c), pod(build.Deleting(), build.Finalizers())),
			want: "wait CleaningUp (pod web-1 is about to go)"},
		"I6: the pod is gone": {in: on(two(c)),
			want: `do CleanupCompleted: patch statefulsets web {+cleanup}; event CleanupCompleted "nothing is left behind" -> cleanup.completed`, next: "Succeeded CleanupCompleted, attempt 1, replicas 1, accounted 0-0, finished 0s"},
		"I3: a claim was replaced: it stays": {in: on(two(c), left("data-web-1", build.UID("uid-2")), left("logs-web-1"), pod()),
			want: `do CleanupDone: event CleanupDone "pod web-1 succeeded on claim logs-web-1"; delete persistentvolumeclaims logs-web-1; event ClaimsDeleted "claim logs-web-1 deleted after the cleanup of ordinal 1"`},
		"I3: all were replaced": {in: on(two(c), left("data-web-1", build.UID("uid-2")), left("logs-web-1", build.UID("uid-3")), pod()),
			want: "do ClaimsDeleted: delete pods web-1"},
		"I3: the pod was run on nothing": {in: on(two(c), left("data-web-1"), left("logs-web-1"), pod(relinked(func(l *api.Link) { l.Claims = nil }))),
			want: "do ClaimsDeleted: delete pods web-1"},
		"somebody else uses one": {in: on(two(c), left("data-web-1"), left("logs-web-1"), pod(), build.Pod("backup", []string{"logs-web-1"})),
			want: `do ClaimBusy: patch statefulsets web {+cleanup}; event ClaimBusy "pod backup uses claim logs-web-1; delete it, or let it end"`, next: "Cleaning , attempt 1, replicas 1; 1 ClaimBusy, due 25h0m0s"},
		"somebody else used one": {in: on(two(cleaning(entry(1, api.ClaimBusy, due(time.Hour)))), left("data-web-1"), left("logs-web-1"), pod()),
			want: `do CleanupDone: event CleanupDone "pod web-1 succeeded on claims [data-web-1 logs-web-1]"; delete persistentvolumeclaims data-web-1; delete persistentvolumeclaims logs-web-1; event ClaimsDeleted "claims [data-web-1 logs-web-1] deleted after the cleanup of ordinal 1"`},
		"somebody else uses one for too long": {in: on(two(cleaning(entry(1, api.ClaimBusy, due(-time.Hour)))), left("data-web-1"), left("logs-web-1"), pod(), build.Pod("backup", []string{"logs-web-1"})),
			want: `do ClaimBusy: patch statefulsets web {+cleanup}; event ClaimBusy "pod backup uses claim logs-web-1; delete it, or let it end"`, next: "Cleaning , attempt 1, replicas 1; 1 ClaimBusy"},
		"it was given up: the pod goes": {in: on(two(cleaning(entry(1, api.ClaimBusy))), left("data-web-1"), left("logs-web-1"), pod()),
			want: "do CleanupCanceled: delete pods web-1"},
		"the deletion is rejected": {in: rejected(on(two(c), left("data-web-1"), left("logs-web-1"), pod())),
			want: `do CleanupTried: patch statefulsets web {+cleanup}; event CleanupTried "the API server refuses: pods is forbidden"`, next: "Cleaning , attempt 1, replicas 1; 1 CleanupTried, tries 1, of uid-cleaner-web-1, next 10s"},
		"it was, and is tried later": {in: on(two(cleaning(entry(1, api.CleanupTriedOnce, tries(1), ofPod("uid-cleaner-web-1"), next(time.Second)))), left("data-web-1"), left("logs-web-1"), pod()),
			want: "wait BackingOff (its claims are deleted at 2026-03-01T12:00:01Z)"},
		"it was, and is tried now": {in: on(two(cleaning(entry(1, api.CleanupTriedOnce, tries(1), ofPod("uid-cleaner-web-1"), next(-time.Second)))), left("data-web-1"), left("logs-web-1"), pod()),
			want: `do CleanupDone: event CleanupDone "pod web-1 succeeded on claims [data-web-1 logs-web-1]"; delete persistentvolumeclaims data-web-1; delete persistentvolumeclaims logs-web-1; event ClaimsDeleted "claims [data-web-1 logs-web-1] deleted after the cleanup of ordinal 1"`},
		"it was, and is again": {in: rejected(on(two(cleaning(entry(1, api.CleanupTriedOnce, tries(1), ofPod("uid-cleaner-web-1"), next(-time.Second)))), left("data-web-1"), left("logs-web-1"), pod(failing(2, "x")))),
			want: `do CleanupTried: patch statefulsets web {+cleanup}; event CleanupTried "the API server refuses: pods is forbidden"`, next: "Cleaning , attempt 1, replicas 1; 1 CleanupTried, tries 2, of uid-cleaner-web-1, next 20s"},
		"it had failed before": {in: on(two(cleaning(entry(1, api.CleanupTriedOnce, tries(2), ofPod("uid-x"), next(-time.Second)))), pod()),
			want: "do ClaimsDeleted: patch statefulsets web {+cleanup}; delete pods web-1", next: "Cleaning , attempt 1, replicas 1"},
		"the replica is wanted again": {in: on(two(build.Replicas(2), c), left("data-web-1"), left("logs-web-1"), pod()),
			want: `do CleanupDone: event CleanupDone "pod web-1 succeeded on claims [data-web-1 logs-web-1]"; delete persistentvolumeclaims data-web-1; delete persistentvolumeclaims logs-web-1; event ClaimsDeleted "claims [data-web-1 logs-web-1] deleted after the cleanup of ordinal 1"`},
		"the same, which would cancel": {in: on(two(build.Replicas(2), cancels, c), left("data-web-1"), left("logs-web-1"), pod()),
			want: `do CleanupDone: event CleanupDone "pod web-1 succeeded on claims [data-web-1 logs-web-1]"; delete persistentvolumeclaims data-web-1; delete persistentvolumeclaims logs-web-1; event ClaimsDeleted "claims [data-web-1 logs-web-1] deleted after the cleanup of ordinal 1"`},
	})
}

func TestFailure(t *testing.T) {
	c := cleaning()
	waiting := func(reason, message string) build.Option {
		return build.Edit(func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodPending
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "drain", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
		})
	}
	evicted := build.Edit(func(p *corev1.Pod) {
		p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "Evicted", "the node was low on memory"
	})
	old := build.Age(12 * time.Minute)
	check(t, map[string]row{
		"it failed, and the kubelet starts it again": {in: on(web(c), left("data-web-1"), on1(1, failing(2, ""))),
			want: "wait CleanupRunning (pod web-1 is Running)"},
		"I8: it failed as often as it may": {in: on(web(c), left("data-web-1"), on1(1, failing(3, "no route\nto db-0\n"))),
			want: `do CleanupFailed: patch statefulsets web {+cleanup}; event CleanupFailed "cleanup pod web-1 failed 3 times: container drain exited with 3, its last words: no route | to db-0; claim data-web-1 is kept. Annotate the StatefulSet with drydock.dev/retry to try again"`, next: "Cleaning , attempt 1, replicas 1; 1 CleanupFailed, tries 3, of uid-cleaner-web-1"},
		"I8: together with an earlier pod": {in: on(web(cleaning(entry(1, api.CleanupTriedOnce, tries(2), ofPod("uid-x"), next(-time.Minute)))), left("data-web-1"), on1(1, failing(1, ""))),
			want: `do CleanupFailed: patch statefulsets web {+cleanup}; event CleanupFailed "cleanup pod web-1 failed 3 times: container drain exited with 3; claim data-web-1 is kept. Annotate the StatefulSet with drydock.dev/retry to try again"`, next: "Cleaning , attempt 1, replicas 1; 1 CleanupFailed, tries 3, of uid-cleaner-web-1"},
		"it was evicted": {in: on(web(c), left("data-web-1"), on1(1, evicted)),
			want: `do CleanupTried: patch statefulsets web {+cleanup}; event CleanupTried "cleanup pod web-1 failed: Evicted the node was low on memory"`, next: "Cleaning , attempt 1, replicas 1; 1 CleanupTried, tries 1, of uid-cleaner-web-1, next 10s"},
		"it was evicted, after it had failed": {in: on(web(c), left("data-web-1"), on1(1, failing(2, ""), evicted)),
			want: `do CleanupTried: patch statefulsets web {+cleanup}; event CleanupTried "cleanup pod web-1 failed: container drain exited with 3"`, next: "Cleaning , attempt 1, replicas 1; 1 CleanupTried, tries 2, of uid-cleaner-web-1, next 20s"},
		"I8: it is evicted again and again": {in: on(web(cleaning(entry(1, api.CleanupTriedOnce, tries(2), ofPod("uid-x"), next(-time.Minute)))), left("data-web-1"), on1(1, evicted)),
			want: `do CleanupFailed: patch statefulsets web {+cleanup}; event CleanupFailed "cleanup pod web-1 failed: Evicted the node was low on memory; claim data-web-1 is kept. Annotate the StatefulSet with drydock.dev/retry to try again"`, next: "Cleaning , attempt 1, replicas 1; 1 CleanupFailed, tries 3, of uid-cleaner-web-1"},
		"the second time backs off for longer": {in: on(web(cleaning(entry(1, api.CleanupTriedOnce, tries(1), ofPod("uid-x"), next(-time.Minute)))), left("data-web-1"), on1(1, evicted)),
			want: `do CleanupTried: patch statefulsets web {+cleanup}; event CleanupTried "cleanup pod web-1 failed: Evicted the node was low on memory"`, next: "Cleaning , attempt 1, replicas 1; 1 CleanupTried, tries 2, of uid-cleaner-web-1, next 20s"},
		"it was counted: the pod goes": {in: on(web(cleaning(entry(1, api.CleanupTriedOnce, tries(1), ofPod("uid-cleaner-web-1"), next(time.Minute)))), left("data-web-1"), on1(1, evicted)),
			want: "do CleanupCanceled: delete pods web-1"},
		"it was counted: the pod ends": {in: on(web(cleaning(entry(1, api.CleanupTriedOnce, tries(1), ofPod("uid-cleaner-web-1"), next(time.Minute)))), left("data-web-1"), on1(1, evicted, build.Deleting())),
			want: "do CleaningUp: patch pods web-1 {-finalizer cleanup}"},
		"it was counted: the pod has ended": {in: on(web(cleaning(entry(1, api.CleanupTriedOnce, tries(1), ofPod("uid-cleaner-web-1"), next(time.Minute)))), left("data-web-1"), on1(1, evicted, build.Deleting(), build.Finalizers("x"))),
			want: "wait CleaningUp (pod web-1 ends)"},
		"I8: it does not start": {in: on(web(c), left("data-web-1"), on1(1, old, waiting("ImagePullBackOff", "no such image"))),
			want: `do CleanupTried: patch statefulsets web {+cleanup}; event CleanupTried "cleanup pod web-1 has not started within 11m0s: container drain: ImagePullBackOff no such image"`, next: "Cleaning , attempt 1, replicas 1; 1 CleanupTried, tries 1, of uid-cleaner-web-1, next 10s"},
		"it may take its time to start": {in: on(web(c), left("data-web-1"), on1(1, build.Age(10*time.Minute), waiting("ImagePullBackOff", "no such image"))),
			want: "wait CleanupRunning (pod web-1 is Pending)"},
		"I8: it does not end": {in: on(web(c), left("data-web-1"), on1(1, build.Age(26*time.Hour))),
			want: `do CleanupTried: patch statefulsets web {+cleanup}; event CleanupTried "cleanup pod web-1 has not ended within 25h0m0s"`, next: "Cleaning , attempt 1, replicas 1; 1 CleanupTried, tries 1, of uid-cleaner-web-1, next 10s"},
		"somebody deletes it while it runs": {in: on(web(c), left("data-web-1"), on1(1, build.Deleting())),
			want: "do CleaningUp: patch pods web-1 {-finalizer cleanup}"},
		"somebody deletes it, our finalizer is not first": {in: on(web(c), left("data-web-1"), on1(1, build.Deleting(), build.Finalizers("a", api.CleanupFinalizer))),
			want: "do CleaningUp: patch pods web-1 {-finalizer cleanup}"},
		"somebody deletes it, and it ends": {in: on(web(c), left("data-web-1"), on1(1, build.Deleting(), build.Finalizers())),
			want: "wait CleaningUp (pod web-1 ends)"},
		"given up: the pod goes, the claims stay": {in: on(web(cleaning(entry(1, api.CleanupFailed, tries(3), ofPod("uid-cleaner-web-1")))), left("data-web-1"), on1(1, failing(3, ""))),
			want: "do CleanupCanceled: delete pods web-1"},
		"given up: the pod ends": {in: on(web(cleaning(entry(1, api.CleanupFailed, tries(3), ofPod("uid-cleaner-web-1")))), left("data-web-1"), on1(1, build.Deleting())),
			want: "do CleaningUp: patch pods web-1 {-finalizer cleanup}"},
		"given up: the cleanup has failed": {in: on(web(cleaning(entry(1, api.CleanupFailed, tries(3), ofPod("uid-cleaner-web-1")))), left("data-web-1")),
			want: "do CleanupFailed: patch statefulsets web {+cleanup} -> operation.failed", next: "Failed CleanupFailed at Cleaning, attempt 1, replicas 1, accounted 0-0, finished 0s; 1 CleanupFailed, tries 3, of uid-cleaner-web-1"},
		"given up, and somebody deletes the claim": {in: on(web(cleaning(entry(1, api.CleanupFailed, tries(3))))),
			want: `do CleanupCompleted: patch statefulsets web {+cleanup}; event CleanupCompleted "nothing is left behind" -> cleanup.completed`, next: "Succeeded CleanupCompleted, attempt 1, replicas 1, accounted 0-0, finished 0s"},
		"the pod is rejected": {in: rejected(on(web(c), left("data-web-1"))),
			want: `do CleanupTried: patch statefulsets web {+cleanup}; event CleanupTried "the API server refuses: pods is forbidden"`, next: "Cleaning , attempt 1, replicas 1; 1 CleanupTried, tries 1, next 10s"},
		"the pod is rejected for the last time": {in: rejected(on(web(cleaning(entry(1, api.CleanupTriedOnce, tries(2), next(-time.Second)))), left("data-web-1"))),
			want: `do CleanupFailed: patch statefulsets web {+cleanup}; event CleanupFailed "the API server refuses: pods is forbidden; claim data-web-1 is kept. Annotate the StatefulSet with drydock.dev/retry to try again"`, next: "Cleaning , attempt 1, replicas 1; 1 CleanupFailed, tries 3"},
		"it was rejected, and waits": {in: rejected(on(web(cleaning(entry(1, api.CleanupTriedOnce, tries(1), next(time.Second)))), left("data-web-1"))),
			want: "wait BackingOff (ordinal 1 is tried again at 2026-03-01T12:00:01Z)"},
		"given up and rejected: the pod goes": {in: rejected(on(web(cleaning(entry(1, api.CleanupFailed, tries(3), ofPod("uid-cleaner-web-1")))), left("data-web-1"), on1(1))),
			want: "do CleanupCanceled: delete pods web-1"},
		"the replica is wanted, one failure is enough": {in: on(web(build.Replicas(2), c), left("data-web-1"), on1(1, evicted)),
			want: `do CleanupFailed: patch statefulsets web {+cleanup}; event CleanupFailed "cleanup pod web-1 failed: Evicted the node was low on memory; claim data-web-1 is kept. Annotate the StatefulSet with drydock.dev/retry to try again"`, next: "Cleaning , attempt 1, replicas 2; 1 CleanupFailed, tries 1, of uid-cleaner-web-1"},
		"two claims are kept": {in: on(web(build.Template("logs", "1Mi", "fixed"), build.Replicas(2), c), left("data-web-1"), left("logs-web-1"), cleaner(1, []string{"data-web-1", "logs-web-1"}, evicted)),
			want: `do CleanupFailed: patch statefulsets web {+cleanup}; event CleanupFailed "cleanup pod web-1 failed: Evicted the node was low on memory; claims [data-web-1 logs-web-1] are kept. Annotate the StatefulSet with drydock.dev/retry to try again"`, next: "Cleaning , attempt 1, replicas 2; 1 CleanupFailed, tries 1, of uid-cleaner-web-1"},
		"no container says why": {in: on(web(c), left("data-web-1"), on1(1, failed)),
			want: `do CleanupTried: patch statefulsets web {+cleanup}; event CleanupTried "cleanup pod web-1 failed: "`, next: "Cleaning , attempt 1, replicas 1; 1 CleanupTried, tries 1, of uid-cleaner-web-1, next 10s"},
	})
}

func TestScaleUp(t *testing.T) {
	c := cleaning()
	two := build.Replicas(2)
	check(t, map[string]row{
		"a replica is wanted: it waits": {in: on(web(two, c), left("data-web-1"), on1(1)),
			want: `do ScaleUpWaits: patch statefulsets web {+cleanup}; event ScaleUpWaits "replica web-1 is wanted and waits until its cleanup has ended; it starts on fresh claims. With annotation drydock.dev/cleanup-on-scale-up=cancel it would get back those it had"`, next: "Cleaning , attempt 1, replicas 2; 1 ScaleUpWaits"},
		"it was told": {in: on(web(two, cleaning(entry(1, api.ScaleUpWaits))), left("data-web-1"), on1(1)),
			want: "wait CleanupRunning (pod web-1 is Running)"},
		"it waits for a try that backs off": {in: on(web(two, cleaning(entry(1, api.CleanupTriedOnce, tries(1), ofPod("uid-x"), next(time.Second)))), left("data-web-1"), on1(1)),
			want: "wait CleanupRunning (pod web-1 is Running)"},
		"a replica is wanted: the cleanup is canceled": {in: on(web(two, cancels, c), left("data-web-1"), on1(1)),
			want: `do CleanupCanceled: delete pods web-1; event CleanupCanceled "the replica is wanted back: pod web-1 is stopped, claim data-web-1 is kept"`},
		"it is canceled, the pod ends": {in: on(web(two, cancels, c), left("data-web-1"), on1(1, build.Deleting())),
			want: "do CleaningUp: patch pods web-1 {-finalizer cleanup}"},
		"the pod is gone": {in: on(web(two, cancels, c), left("data-web-1")),
			want: `do CleanupCompleted: patch statefulsets web {+cleanup}; event CleanupCompleted "nothing is left behind" -> cleanup.completed`, next: "Succeeded CleanupCompleted, attempt 1, replicas 2, accounted 0-0, finished 0s"},
		"there was none yet": {in: on(web(two, c), left("data-web-1")),
			want: `do CleanupCompleted: patch statefulsets web {+cleanup}; event CleanupCompleted "nothing is left behind" -> cleanup.completed`, next: "Succeeded CleanupCompleted, attempt 1, replicas 2, accounted 0-0, finished 0s"},
		"the replica is back": {in: on(web(two, c), left("data-web-0"), left("data-web-1"), replica(0), replica(1)),
			want: `do CleanupCompleted: patch statefulsets web {+cleanup}; event CleanupCompleted "nothing is left behind" -> cleanup.completed`, next: "Succeeded CleanupCompleted, attempt 1, replicas 2, accounted 0-2, finished 0s"},
		"only the lower one is wanted": {in: on(web(two, c), left("data-web-1"), left("data-web-2"), on1(1)),
			want: `do ScaleUpWaits: patch statefulsets web {+cleanup}; event ScaleUpWaits "replica web-1 is wanted and waits until its cleanup has ended; it starts on fresh claims. With annotation drydock.dev/cleanup-on-scale-up=cancel it would get back those it had"`, next: "Cleaning , attempt 1, replicas 2; 1 ScaleUpWaits"},
		"the template changed for a cancel": {in: on(web(two, cancels, cleaning(digest("older"))), left("data-web-1"), on1(1)),
			want: "do Retrying: patch statefulsets web {+cleanup}", next: "Cleaning , attempt 1, replicas 2"},
		"it was told, and is not wanted again": {in: on(web(cleaning(entry(1, api.ScaleUpWaits))), left("data-web-1")),
			want: `do CleanupStarted: patch statefulsets web {+cleanup}; create pods web-1; event CleanupStarted "pod web-1 cleans up claim data-web-1"`, next: "Cleaning , attempt 1, replicas 1"},
	})
}

func TestSeveralOrdinals(t *testing.T) {
	claims := func(in Input, numbers ...string) Input {
		for _, n := range numbers {
			in.Claims = append(in.Claims, left("data-web-"+n))
		}
		return in
	}
	c := cleaning()
	failed3 := entry(3, api.CleanupFailed, tries(3))
	check(t, map[string]row{
		"OrderedReady: the highest first": {in: claims(on(web(c)), "1", "2", "3"),
			want: `do CleanupStarted: create pods web-3; event CleanupStarted "pod web-3 cleans up claim data-web-3"`},
		"OrderedReady: no other meanwhile": {in: claims(on(web(c), on1(3)), "1", "2", "3"),
			want: "wait CleanupRunning (pod web-3 is Running)"},
		"OrderedReady: a higher one came later": {in: claims(on(web(c), on1(2)), "1", "2", "3"),
			want: "wait CleanupRunning (pod web-2 is Running)"},
		"OrderedReady: the next": {in: claims(on(web(c)), "1", "2"),
			want: `do CleanupStarted: create pods web-2; event CleanupStarted "pod web-2 cleans up claim data-web-2"`},
		"OrderedReady: one that failed stops those below it": {in: claims(on(web(cleaning(failed3))), "1", "2", "3"),
			want: "do CleanupFailed: patch statefulsets web {+cleanup} -> operation.failed", next: "Failed CleanupFailed at Cleaning, attempt 1, replicas 1, accounted 0-0, finished 0s; 3 CleanupFailed, tries 3"},
		"Parallel: the first": {in: claims(on(web(parallel, c)), "1", "2", "3"),
			want: `do CleanupStarted: create pods web-3; event CleanupStarted "pod web-3 cleans up claim data-web-3"`},
		"Parallel: the second": {in: claims(on(web(parallel, c), on1(3)), "1", "2", "3"),
			want: `do CleanupStarted: create pods web-2; event CleanupStarted "pod web-2 cleans up claim data-web-2"`},
		"Parallel: no more than may be": {in: claims(on(web(parallel, c), on1(3), on1(2)), "1", "2", "3"),
			want: "wait CleanupRunning (pod web-3 is Running)"},
		"Parallel: a lower one succeeds": {in: claims(on(web(parallel, c), on1(3), on1(2, succeeded)), "1", "2", "3"),
			want: `do CleanupDone: event CleanupDone "pod web-2 succeeded on claim data-web-2"; delete persistentvolumeclaims data-web-2; event ClaimsDeleted "claim data-web-2 deleted after the cleanup of ordinal 2"`},
		"Parallel: one that failed does not hold up the others": {in: claims(on(web(parallel, cleaning(failed3))), "1", "2", "3"),
			want: `do CleanupStarted: create pods web-2; event CleanupStarted "pod web-2 cleans up claim data-web-2"`},
		"Parallel: as many that failed as may run at once end it": {in: claims(on(web(parallel, cleaning(failed3, entry(2, api.CleanupFailed, tries(3))))), "1", "2", "3"),
			want: "do CleanupFailed: patch statefulsets web {+cleanup} -> operation.failed", next: "Failed CleanupFailed at Cleaning, attempt 1, replicas 1, accounted 0-0, finished 0s; 3 CleanupFailed, tries 3; 2 CleanupFailed, tries 3"},
		"Parallel: all have failed": {in: claims(on(web(parallel, cleaning(failed3, entry(2, api.NameTaken), entry(1, api.CleanupFailed)))), "1", "2", "3"),
			want: "do CleanupFailed: patch statefulsets web {+cleanup} -> operation.failed", next: "Failed CleanupFailed at Cleaning, attempt 1, replicas 1, accounted 0-0, finished 0s; 3 CleanupFailed, tries 3; 2 NameTaken; 1 CleanupFailed"},
		"Parallel: one backs off": {in: claims(on(web(parallel, cleaning(entry(3, api.CleanupTriedOnce, tries(1), next(time.Second))))), "1", "2", "3"),
			want: `do CleanupStarted: create pods web-2; event CleanupStarted "pod web-2 cleans up claim data-web-2"`},
		"Parallel: at least one": {in: claims(on(web(parallel, c)), "1", "2").with(func(in *Input) { in.Settings.CleanupPods = 0 }),
			want: `do CleanupStarted: create pods web-2; event CleanupStarted "pod web-2 cleans up claim data-web-2"`},
		"more have a pod than may": {in: claims(on(web(c), on1(3), on1(2), on1(1, succeeded)), "1", "2", "3"),
			want: `do CleanupDone: event CleanupDone "pod web-1 succeeded on claim data-web-1"; delete persistentvolumeclaims data-web-1; event ClaimsDeleted "claim data-web-1 deleted after the cleanup of ordinal 1"`},
	})
}

func TestTemplateChangesMidway(t *testing.T) {
	old := cleaning(digest("older"), entry(3, api.CleanupFailed, tries(3)), entry(2, api.CleanupTriedOnce, tries(1), next(time.Second)))
	check(t, map[string]row{
		"with the new one, what was given up is tried again": {in: on(web(old), left("data-web-3"), left("data-web-2"), on1(2)),
			want: "do Retrying: patch statefulsets web {+cleanup}", next: "Cleaning , attempt 1, replicas 1; 2 CleanupTried, tries 1, next 1s"},
		"the new one is wrong: the pods go": {in: on(web(build.Annotation(api.CleanupTemplateAnnotation, "{}"), cleaning()), left("data-web-1"), on1(1)),
			want: "do CleanupCanceled: delete pods web-1"},
		"the new one is wrong, the pods are gone": {in: on(web(build.Annotation(api.CleanupTemplateAnnotation, "{}"), cleaning()), left("data-web-1")),
			want: `do TemplateInvalid: patch statefulsets web {+cleanup}; event TemplateInvalid "annotation drydock.dev/cleanup-pod-template: spec.containers is empty; name the container that cleans up; the claims that are left are kept" -> operation.failed`, next: "Failed TemplateInvalid at Cleaning, attempt 1, replicas 1, finished 0s"},
		"the API server would refuse it": {in: on(web(cleaning(digest("older"))), left("data-web-1")).with(func(in *Input) { in.Denied = "violates PodSecurity" }),
			want: `do TemplateInvalid: patch statefulsets web {+cleanup}; event TemplateInvalid "the API server would refuse the cleanup pod: violates PodSecurity; the claims that are left are kept" -> operation.failed`, next: "Failed TemplateInvalid at Cleaning, attempt 1, replicas 1, finished 0s"},
		"it is removed: the pods go": {in: on(web(build.Annotation(api.CleanupTemplateAnnotation, ""), cleaning()), left("data-web-1"), on1(1)),
			want: "do CleanupCanceled: delete pods web-1"},
		"it is removed, a pod ends": {in: on(web(build.Annotation(api.CleanupTemplateAnnotation, ""), cleaning()), left("data-web-1"), on1(1, build.Deleting(), build.Finalizers())),
			want: "wait CleaningUp (pod web-1 ends)"},
		"it is removed": {in: on(web(build.Annotation(api.CleanupTemplateAnnotation, ""), cleaning(entry(1, api.ScaleUpWaits))), left("data-web-1")),
			want: `do NoCleanup: patch statefulsets web {+cleanup}; event NoCleanup "the StatefulSet has no cleanup pod template any more; the claims that are left are kept" -> operation.failed`, next: "Failed NoCleanup at Cleaning, attempt 1, replicas 1, finished 0s"},
		"the claims will be deleted": {in: on(web(build.WhenScaled("Delete"), cleaning()), left("data-web-1")),
			want: `do DeletesClaims: patch statefulsets web {+cleanup}; event DeletesClaims "persistentVolumeClaimRetentionPolicy.whenScaled is Delete, so a scale-down deletes the claims before anything can clean them up; set it to Retain, or remove annotation drydock.dev/cleanup-pod-template; the claims that are left are kept" -> operation.failed`, next: "Failed DeletesClaims at Cleaning, attempt 1, replicas 1, finished 0s"},
	})
}

func TestBackoff(t *testing.T) {
	for failures, want := range map[int]time.Duration{0: 10 * time.Second, 1: 10 * time.Second, 2: 20 * time.Second, 3: 40 * time.Second, 6: longestBackoff, 1000: longestBackoff} {
		if got := backoff(10*time.Second, failures); got != want {
			t.Errorf("%d: %s, want %s", failures, got, want)
		}
	}
}
