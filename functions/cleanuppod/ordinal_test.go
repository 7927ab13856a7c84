package cleanuppod

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// Invariants: I3.
func TestStartOfCleanup(t *testing.T) {
	traced := on(web(settledRecord(1)), usedClaim("data-web-1")).with(func(in *Input) { in.Trace = "00-trace" })
	many := []string{"12", "11", "10", "9", "8", "7", "6", "5", "4", "3", "2", "1"}
	lots := on(web(settledRecord(1)))
	for _, n := range many {
		lots.Claims = append(lots.Claims, usedClaim("data-web-"+n))
	}
	check(t, map[string]Input{
		"a scale-down has left a claim": on(web(settledRecord(3)), usedClaim("data-web-0"), usedClaim("data-web-1"), replica(0)),
		"with tracing":                  traced,
		"two":                           on(web(settledRecord(1)), usedClaim("data-web-1"), usedClaim("data-web-3")),
		"twelve":                        lots,
		"the replica has not ended":     on(web(settledRecord(2)), usedClaim("data-web-0"), usedClaim("data-web-1"), replica(0), replica(1)),
		"claims below the first ordinal are kept": on(
			web(build.Edit(func(s *appsv1.StatefulSet) { s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 5} }),
				settledRecord(5, func(s *api.Cleanup) { s.Span.Start = 5 })),
			usedClaim("data-web-0"), usedClaim("data-web-4")),
		"the set has no record yet": on(web(), usedClaim("data-web-1")),
		"the record belongs to another set": on(web(cleaning(func(s *api.Cleanup) { s.Set.UID = "uid-2"; s.Attempt = 7 })),
			usedClaim("data-web-1")),
		"the next cleanup has a new operation": on(web(settledRecord(1, func(s *api.Cleanup) { s.Attempt = 7 })), usedClaim("data-web-1")),
	})
}

// Invariants: I1.
func TestOneOrdinal(t *testing.T) {
	c := cleaning()
	check(t, map[string]Input{
		"the cleanup pod is created": on(web(c), usedClaim("data-web-1")),
		"the cleanup pod mounts all claims": on(web(build.Template("logs", "1Mi", "fixed"), c), usedClaim("logs-web-1"),
			usedClaim("data-web-1")),
		"the replica is terminating":       on(web(c), usedClaim("data-web-1"), replica(1, build.Deleting())),
		"the replica is not terminating":   on(web(c), usedClaim("data-web-1"), replica(1)),
		"the replica does not end in time": on(web(c), usedClaim("data-web-1"), replica(1, endedSince(12*time.Minute))),
		"the replica does not end until the deadline": on(web(cleaning(entry(1, api.MemberEnding, due(-time.Second)))),
			usedClaim("data-web-1"), replica(1, endedSince(26*time.Hour))),
		"the name is taken": on(web(c), usedClaim("data-web-1"), build.Pod("web-1", nil)),
		"the name is still taken": on(web(cleaning(entry(1, api.NameTaken, due(time.Second)))), usedClaim("data-web-1"),
			build.Pod("web-1", nil)),
		"the name is taken until the deadline": on(web(cleaning(entry(1, api.NameTaken, tries(1), due(-time.Second)))),
			usedClaim("data-web-1"), build.Pod("web-1", nil)),
		"the name is free again": on(web(cleaning(entry(1, api.NameTaken, due(-time.Second)))), usedClaim("data-web-1")),
		"the name is free again after a failed try": on(
			web(cleaning(entry(1, api.NameTaken, tries(2), ofPod("uid-x"), due(time.Second)))), usedClaim("data-web-1")),
		"a pod of another cleanup is terminating": on(web(c), usedClaim("data-web-1"),
			cleanupPod(1, withLink(func(l *api.Link) { l.Operation = "other" }), build.Deleting(), build.Finalizers())),
		"a claim is missing": on(web(build.Template("logs", "1Mi", "fixed"), c), usedClaim("data-web-1")),
		"a claim is being deleted": on(web(build.Template("logs", "1Mi", "fixed"), c), usedClaim("data-web-1"),
			usedClaim("logs-web-1", build.Deleting())),
		"another pod uses the claim": on(web(c), usedClaim("data-web-1"), build.Pod("backup", []string{"data-web-1"})),
		"another pod uses the claim, as before": on(web(cleaning(entry(1, api.ClaimBusy, due(time.Second)))), usedClaim("data-web-1"),
			build.Pod("backup", []string{"data-web-1"})),
		"another pod uses the claim; before, the name was taken": on(
			web(cleaning(entry(1, api.NameTaken, tries(1), ofPod("uid-x"), due(-time.Second)))), usedClaim("data-web-1"), build.Pod("backup",
				[]string{"data-web-1"})),
		"another pod uses the claim until the deadline": on(web(cleaning(entry(1, api.ClaimBusy, tries(2), due(-time.Second)))),
			usedClaim("data-web-1"), build.Pod("backup", []string{"data-web-1"})),
		"the pod that used the claim has finished": on(web(c), usedClaim("data-web-1"),
			build.Pod("backup", []string{"data-web-1"}, succeeded)),
		"the cleanup pod runs":       on(web(c), usedClaim("data-web-1"), cleanupPod(1)),
		"the cleanup pod is pending": on(web(c), usedClaim("data-web-1"), cleanupPod(1, pending)),
		"the next try is not due": on(web(cleaning(entry(1, api.CleanupTried, tries(1), next(time.Second)))),
			usedClaim("data-web-1")),
		"the next try is due": on(web(cleaning(entry(1, api.CleanupTried, tries(1), next(-time.Second)))),
			usedClaim("data-web-1")),
		"nothing is left behind":               on(web(c), usedClaim("data-web-0"), replica(0)),
		"a claim without a known user is kept": on(web(c), build.Claim("data-web-1", "64Mi")),
	})
}

// Invariants: I1, I3, I6, I9.
func TestSuccess(t *testing.T) {
	both := []string{"data-web-1", "logs-web-1"}
	two := func(options ...build.Option) *appsv1.StatefulSet {
		return web(append([]build.Option{build.Template("logs", "1Mi", "fixed")}, options...)...)
	}
	pod := func(options ...build.Option) *corev1.Pod {
		return cleaner(1, both, append([]build.Option{succeeded}, options...)...)
	}
	c := cleaning()
	check(t, map[string]Input{
		"the claims are deleted":                on(two(c), usedClaim("data-web-1"), usedClaim("logs-web-1"), pod()),
		"the pod was evicted and exited with 0": killed(on(two(c), usedClaim("data-web-1"), usedClaim("logs-web-1"), pod())),
		"the pod's node shut down and it exited with 0": on(two(c), usedClaim("data-web-1"), usedClaim("logs-web-1"),
			pod(disruptedByKubelet)),
		"the pod has just ended": on(two(c), usedClaim("data-web-1"), usedClaim("logs-web-1"), pod(containers(nil, terminated("drain", 0, 0)))),
		"the pod ended an hour ago": on(two(c), usedClaim("data-web-1"), usedClaim("logs-web-1"),
			pod(containers(nil, terminated("drain", 0, time.Hour)))),
		"the Events about the pod cannot be read": unread(on(two(c), usedClaim("data-web-1"), usedClaim("logs-web-1"), pod())),
		"the pod asks for a message and has written none": on(two(c), usedClaim("data-web-1"), usedClaim("logs-web-1"),
			pod(build.Annotation(api.SuccessMessageAnnotation, "drained"))),
		"the pod has written the message and was evicted then": on(two(c), usedClaim("data-web-1"), usedClaim("logs-web-1"),
			pod(build.Annotation(api.SuccessMessageAnnotation, "drained"), disruptedByKubelet, containers(nil, saying("drained\n")))),
		"one claim is gone":          on(two(c), usedClaim("logs-web-1"), pod()),
		"one claim is being deleted": on(two(c), usedClaim("data-web-1", build.Deleting()), usedClaim("logs-web-1"), pod()),
		"all claims are being deleted": on(two(c), usedClaim("data-web-1", build.Deleting()), usedClaim("logs-web-1", build.Deleting()),
			pod()),
		"all claims are gone": on(two(c), pod()),
		"the pod was deleted, before or after it succeeded": on(two(c), usedClaim("data-web-1"), usedClaim("logs-web-1"),
			pod(build.Deleting())),
		"the pod is terminating": on(two(c), usedClaim("data-web-1", build.Deleting()), pod(build.Deleting())),
		"the pod is terminating with finalizers of others": on(
			two(c), pod(build.Deleting(), build.Finalizers("a", api.CleanupFinalizer, "b"))),
		"our finalizer is removed from the pod": on(two(c), pod(build.Deleting(), build.Finalizers())),
		"the pod is gone":                       on(two(c)),
		"a replaced claim is kept":              on(two(c), usedClaim("data-web-1", build.UID("uid-2")), usedClaim("logs-web-1"), pod()),
		"all claims were replaced": on(two(c), usedClaim("data-web-1", build.UID("uid-2")), usedClaim("logs-web-1", build.UID("uid-3")),
			pod()),
		"the link of the pod names no claim": on(two(c), usedClaim("data-web-1"), usedClaim("logs-web-1"),
			pod(withLink(func(l *api.Link) { l.Claims = nil }))),
		"another pod uses a claim": on(two(c), usedClaim("data-web-1"), usedClaim("logs-web-1"), pod(),
			build.Pod("backup", []string{"logs-web-1"})),
		"another pod used a claim and is gone": on(two(cleaning(entry(1, api.ClaimBusy, due(time.Hour)))), usedClaim("data-web-1"),
			usedClaim("logs-web-1"), pod()),
		"another pod used a claim for an hour after the cleanup succeeded": on(
			two(cleaning(entry(1, api.ClaimBusy, due(time.Hour), func(e *api.OrdinalStatus) { e.Succeeded = "uid-cleaner-web-1" }))),
			usedClaim("data-web-1"), usedClaim("logs-web-1"), pod(containers(nil, terminated("drain", 0, time.Hour)))),
		"another pod uses a claim until the deadline": on(two(cleaning(entry(1, api.ClaimBusy, due(-time.Hour)))),
			usedClaim("data-web-1"), usedClaim("logs-web-1"), pod(), build.Pod("backup", []string{"logs-web-1"})),
		"the cleanup was given up: the pod is removed": on(two(cleaning(entry(1, api.ClaimBusy, givenUp))), usedClaim("data-web-1"),
			usedClaim("logs-web-1"), pod()),
		"the API server rejects the deletion of the claims": rejected(on(two(c), usedClaim("data-web-1"), usedClaim("logs-web-1"), pod())),
		"the deletion was rejected, and the next try is not due": on(
			two(cleaning(entry(1, api.CleanupTried, tries(1), ofPod("uid-cleaner-web-1"),
				next(time.Second)))), usedClaim("data-web-1"), usedClaim("logs-web-1"), pod()),
		"the deletion was rejected, and the next try is due": on(
			two(cleaning(entry(1, api.CleanupTried, tries(1), ofPod("uid-cleaner-web-1"),
				next(-time.Second)))), usedClaim("data-web-1"), usedClaim("logs-web-1"), pod()),
		"the deletion is rejected again": rejected(
			on(two(cleaning(entry(1, api.CleanupTried, tries(1), ofPod("uid-cleaner-web-1"), next(-time.Second)))), usedClaim("data-web-1"),
				usedClaim("logs-web-1"), pod(restarted(2)))),
		"the cleanup succeeded after failures": on(
			two(cleaning(entry(1, api.CleanupTried, tries(2), ofPod("uid-x"), next(-time.Second)))), pod()),
		"the replica is needed again after the cleanup succeeded": on(two(build.Replicas(2), c), usedClaim("data-web-1"),
			usedClaim("logs-web-1"), pod()),
		"the replica is needed again with cancel, and the cleanup had succeeded": on(two(build.Replicas(2), cancels, c),
			usedClaim("data-web-1"), usedClaim("logs-web-1"), pod()),
	})
}

// Invariants: I1, I8.
func TestFailure(t *testing.T) {
	c := cleaning()
	waiting := func(reason, message string) build.Option {
		return build.Edit(func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodPending
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "drain",
				State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
		})
	}
	evicted := build.Edit(func(p *corev1.Pod) {
		p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "Evicted", "the node was low on memory"
	})
	lost := build.Edit(func(p *corev1.Pod) {
		p.Status.Phase, p.Spec.RestartPolicy = corev1.PodFailed, corev1.RestartPolicyNever
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "drain", RestartCount: 1, State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "ContainerStatusUnknown"}}}}
	})
	old := build.Age(12 * time.Minute)
	check(t, map[string]Input{
		"the kubelet lost the container":                    on(web(c), usedClaim("data-web-1"), cleanupPod(1, lost)),
		"the container failed, and the kubelet restarts it": on(web(c), usedClaim("data-web-1"), cleanupPod(1, failing(2, ""))),
		"the container failed as often as allowed": on(web(c), usedClaim("data-web-1"),
			cleanupPod(1, failing(3, "no route\nto db-0\n"))),
		"the container failed as often as allowed, together with an earlier pod": on(
			web(cleaning(entry(1, api.CleanupTried, tries(2), ofPod("uid-x"), next(-time.Minute)))), usedClaim("data-web-1"), cleanupPod(1,
				failing(1, ""))),
		"the pod was evicted":                on(web(c), usedClaim("data-web-1"), cleanupPod(1, evicted)),
		"the pod was evicted after failures": on(web(c), usedClaim("data-web-1"), cleanupPod(1, failing(2, ""), evicted)),
		"the pod is evicted as often as allowed": on(
			web(cleaning(entry(1, api.CleanupTried, tries(2), ofPod("uid-x"), next(-time.Minute)))), usedClaim("data-web-1"), cleanupPod(1,
				evicted)),
		"the second back-off is longer": on(web(cleaning(entry(1, api.CleanupTried, tries(1), ofPod("uid-x"), next(-time.Minute)))),
			usedClaim("data-web-1"), cleanupPod(1, evicted)),
		"the failure was counted: the pod is removed": on(
			web(cleaning(entry(1, api.CleanupTried, tries(1), ofPod("uid-cleaner-web-1"),
				next(time.Minute)))), usedClaim("data-web-1"), cleanupPod(1, evicted)),
		"the failure was counted: the finalizer is removed": on(
			web(cleaning(entry(1, api.CleanupTried, tries(1), ofPod("uid-cleaner-web-1"),
				next(time.Minute)))), usedClaim("data-web-1"), cleanupPod(1, evicted, build.Deleting())),
		"the failure was counted: the pod is terminating": on(
			web(cleaning(entry(1, api.CleanupTried, tries(1), ofPod("uid-cleaner-web-1"),
				next(time.Minute)))), usedClaim("data-web-1"), cleanupPod(1, evicted, build.Deleting(), build.Finalizers("x"))),
		"the pod does not start in time": on(web(c), usedClaim("data-web-1"),
			cleanupPod(1, old, waiting("ImagePullBackOff", "no such image"))),
		"the pod has time left to start": on(web(c), usedClaim("data-web-1"),
			cleanupPod(1, build.Age(10*time.Minute), waiting("ImagePullBackOff", "no such image"))),
		"the pod does not end in time":   on(web(c), usedClaim("data-web-1"), cleanupPod(1, build.Age(26*time.Hour))),
		"a user deletes the running pod": on(web(c), usedClaim("data-web-1"), cleanupPod(1, build.Deleting())),
		"a user deletes the running pod again": on(web(cleaning(entry(1, api.CleanupTried, tries(1), ofPod("uid-x"), next(-time.Minute)))),
			usedClaim("data-web-1"), cleanupPod(1, build.Deleting())),
		"a user deletes the running pod as often as allowed": on(
			web(cleaning(entry(1, api.CleanupTried, tries(2), ofPod("uid-x"), next(-time.Minute)))), usedClaim("data-web-1"),
			cleanupPod(1, build.Deleting())),
		"a user deletes the running pod, and the replica is needed again": on(web(build.Replicas(2), c), usedClaim("data-web-1"),
			cleanupPod(1, build.Deleting())),
		"a user deletes the running pod, and our finalizer is the second": on(web(c), usedClaim("data-web-1"),
			cleanupPod(1, build.Deleting(), build.Finalizers("a", api.CleanupFinalizer))),
		"a user deletes the running pod, and our finalizer is removed": on(web(c), usedClaim("data-web-1"),
			cleanupPod(1, build.Deleting(), build.Finalizers())),
		"given up: the pod is removed and the claim is kept": on(
			web(cleaning(entry(1, api.CleanupFailed, givenUp, tries(3), ofPod("uid-cleaner-web-1")))), usedClaim("data-web-1"), cleanupPod(1,
				failing(3, ""))),
		"given up: the finalizer of the pod is removed": on(
			web(cleaning(entry(1, api.CleanupFailed, givenUp, tries(3), ofPod("uid-cleaner-web-1")))), usedClaim("data-web-1"), cleanupPod(1,
				build.Deleting())),
		"given up: the cleanup has failed": on(web(cleaning(entry(1, api.CleanupFailed, givenUp, tries(3), ofPod("uid-cleaner-web-1")))),
			usedClaim("data-web-1")),
		"given up, and a user deletes the claim": on(web(cleaning(entry(1, api.CleanupFailed, givenUp, tries(3))))),
		"the pod is rejected":                    rejected(on(web(c), usedClaim("data-web-1"))),
		"the pod is rejected for the last time": rejected(
			on(web(cleaning(entry(1, api.CleanupTried, tries(2), next(-time.Second)))), usedClaim("data-web-1"))),
		"the pod was rejected, and the next try is not due": rejected(
			on(web(cleaning(entry(1, api.CleanupTried, tries(1), next(time.Second)))), usedClaim("data-web-1"))),
		"given up and rejected: the pod is removed": rejected(
			on(web(cleaning(entry(1, api.CleanupFailed, givenUp, tries(3), ofPod("uid-cleaner-web-1")))), usedClaim("data-web-1"), cleanupPod(1))),
		"the replica is needed again: one failure is enough": on(web(build.Replicas(2), c), usedClaim("data-web-1"),
			cleanupPod(1, evicted)),
		"two claims are kept": on(web(build.Template("logs", "1Mi", "fixed"), build.Replicas(2), c), usedClaim("data-web-1"),
			usedClaim("logs-web-1"), cleaner(1, []string{"data-web-1", "logs-web-1"}, evicted)),
		"the pod failed without a reason": on(web(c), usedClaim("data-web-1"), cleanupPod(1, failed)),
	})
}

func TestScaleUpDuringCleanup(t *testing.T) {
	c := cleaning()
	two := build.Replicas(2)
	check(t, map[string]Input{
		"the replica is needed again: it waits": on(web(two, c), usedClaim("data-web-1"), cleanupPod(1)),
		"the wait was reported before":          on(web(two, cleaning(entry(1, api.ScaleUpWaits))), usedClaim("data-web-1"), cleanupPod(1)),
		"the replica waits for a try after a failure": on(
			web(two, cleaning(entry(1, api.CleanupTried, tries(1), ofPod("uid-x"), next(time.Second)))), usedClaim("data-web-1"), cleanupPod(1)),
		"the replica is needed again: the cleanup is canceled": on(web(two, cancels, c), usedClaim("data-web-1"), cleanupPod(1)),
		"the cleanup is canceled, and the pod is terminating": on(web(two, cancels, c), usedClaim("data-web-1"),
			cleanupPod(1, build.Deleting())),
		"the pod was removed": on(web(two, cancels, c), usedClaim("data-web-1")),
		"the replica is needed again before a cleanup pod exists": on(web(two, c), usedClaim("data-web-1")),
		"the replica is back": on(web(two, c), usedClaim("data-web-0"), usedClaim("data-web-1"), replica(0), replica(1)),
		"of two left ordinals, the lower one is needed again": on(web(two, c), usedClaim("data-web-1"), usedClaim("data-web-2"),
			cleanupPod(1)),
		"the template changed, and the replica is needed again with cancel": on(web(two, cancels, cleaning(digest("older"))),
			usedClaim("data-web-1"), cleanupPod(1)),
		"the replica was needed, and is not needed any longer": on(web(cleaning(entry(1, api.ScaleUpWaits))), usedClaim("data-web-1")),
	})
}

func TestSeveralOrdinals(t *testing.T) {
	claims := func(in Input, numbers ...string) Input {
		for _, n := range numbers {
			in.Claims = append(in.Claims, usedClaim("data-web-"+n))
		}
		return in
	}
	c := cleaning()
	failed3 := entry(3, api.CleanupFailed, givenUp, tries(3))
	check(t, map[string]Input{
		"OrderedReady: the highest first":                     claims(on(web(c)), "1", "2", "3"),
		"OrderedReady: one ordinal at a time":                 claims(on(web(c), cleanupPod(3)), "1", "2", "3"),
		"OrderedReady: a higher ordinal was left later":       claims(on(web(c), cleanupPod(2)), "1", "2", "3"),
		"OrderedReady: the next ordinal":                      claims(on(web(c)), "1", "2"),
		"OrderedReady: a failed ordinal stops the lower ones": claims(on(web(cleaning(failed3))), "1", "2", "3"),
		"Parallel: the first":                                 claims(on(web(parallel, c)), "1", "2", "3"),
		"Parallel: the second":                                claims(on(web(parallel, c), cleanupPod(3)), "1", "2", "3"),
		"Parallel: the limit is reached":                      claims(on(web(parallel, c), cleanupPod(3), cleanupPod(2)), "1", "2", "3"),
		"Parallel: a lower one succeeds": claims(on(web(parallel, c), cleanupPod(3), cleanupPod(2, succeeded)), "1", "2",
			"3"),
		"Parallel: the end of one pod is not judged yet":      unread(claims(on(web(parallel, c), cleanupPod(3, succeeded)), "1", "2", "3")),
		"Parallel: a failed ordinal does not stop the others": claims(on(web(parallel, cleaning(failed3))), "1", "2", "3"),
		"Parallel: failed ordinals up to the limit end the cleanup": claims(
			on(web(parallel, cleaning(failed3, entry(2, api.CleanupFailed, givenUp, tries(3))))), "1", "2", "3"),
		"Parallel: all have failed": claims(on(
			web(parallel, cleaning(failed3, entry(2, api.NameTaken, givenUp), entry(1, api.CleanupFailed, givenUp)))),
			"1", "2", "3"),
		"Parallel: one ordinal backs off": claims(
			on(web(parallel, cleaning(entry(3, api.CleanupTried, tries(1), next(time.Second))))), "1", "2", "3"),
		"Parallel: at least one":     claims(on(web(parallel, c)), "1", "2").with(func(in *Input) { in.Settings.CleanupPods = 0 }),
		"more pods run than allowed": claims(on(web(c), cleanupPod(3), cleanupPod(2), cleanupPod(1, succeeded)), "1", "2", "3"),
	})
}

func TestTemplateChangesDuringCleanup(t *testing.T) {
	old := cleaning(digest("older"), entry(3, api.CleanupFailed, givenUp, tries(3)), entry(2, api.CleanupTried, tries(1), next(time.Second)))
	check(t, map[string]Input{
		"a new template: failed ordinals are tried again": on(web(old), usedClaim("data-web-3"), usedClaim("data-web-2"), cleanupPod(2)),
		"the new template is invalid: the pods are removed": on(web(build.Annotation(api.CleanupTemplateAnnotation, "{}"), cleaning()),
			usedClaim("data-web-1"), cleanupPod(1)),
		"the new template is invalid, and no pod is left": on(web(build.Annotation(api.CleanupTemplateAnnotation, "{}"), cleaning()),
			usedClaim("data-web-1")),
		"the API server would refuse the pod": on(web(cleaning(digest("older"))),
			usedClaim("data-web-1")).with(func(in *Input) { in.PodRejected = "violates PodSecurity" }),
		"the template is removed: the pods are removed": on(web(build.Annotation(api.CleanupTemplateAnnotation, ""), cleaning()),
			usedClaim("data-web-1"), cleanupPod(1)),
		"the template is removed, and a pod is terminating": on(web(build.Annotation(api.CleanupTemplateAnnotation, ""), cleaning()),
			usedClaim("data-web-1"), cleanupPod(1, build.Deleting(), build.Finalizers())),
		"the template is removed, and no pod is left": on(
			web(build.Annotation(api.CleanupTemplateAnnotation, ""), cleaning(entry(1, api.ScaleUpWaits))), usedClaim("data-web-1")),
		"the retention policy becomes Delete": on(web(build.WhenScaled("Delete"), cleaning()), usedClaim("data-web-1")),
	})
}
