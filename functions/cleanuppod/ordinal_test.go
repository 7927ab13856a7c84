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
	check(t, map[string]Input{
		"a scale-down has left a claim": on(web(ready(3, counted(3))), left("data-web-0"), left("data-web-1"), replica(0)),
		"with tracing":                  traced,
		"two":                           on(web(ready(1)), left("data-web-1"), left("data-web-3")),
		"twelve":                        lots,
		"the replica is still there: it is waited for": on(web(ready(2)), left("data-web-0"), left("data-web-1"), replica(0), replica(1)),
		"below the start is nothing of ours": on(web(build.Edit(func(s *appsv1.StatefulSet) { s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 5} }), ready(5, func(s *api.Cleanup) { s.Span.Start = 5 })),
			left("data-web-0"), left("data-web-4")),
		"the set has no document yet":                  on(web(), left("data-web-1")),
		"I3: the document came along from another set": on(web(cleaning(func(s *api.Cleanup) { s.Set.UID = "uid-2"; s.Attempt = 7 })), left("data-web-1")),
		"the next one has an operation of its own":     on(web(ready(1, func(s *api.Cleanup) { s.Attempt = 7 })), left("data-web-1")),
	})
}

func TestOneOrdinal(t *testing.T) {
	c := cleaning()
	check(t, map[string]Input{
		"its pod is made":                          on(web(c), left("data-web-1")),
		"on all of its claims":                     on(web(build.Template("logs", "1Mi", "fixed"), c), left("logs-web-1"), left("data-web-1")),
		"the replica ends":                         on(web(c), left("data-web-1"), replica(1, build.Deleting())),
		"the replica is not even told to end":      on(web(c), left("data-web-1"), replica(1)),
		"the replica does not end":                 on(web(c), left("data-web-1"), replica(1, endedSince(12*time.Minute))),
		"it has not ended for long":                on(web(cleaning(entry(1, api.ReplicaEnding, due(-time.Second)))), left("data-web-1"), replica(1, endedSince(26*time.Hour))),
		"the name is taken":                        on(web(c), left("data-web-1"), build.Pod("web-1", nil)),
		"the name is still taken":                  on(web(cleaning(entry(1, api.NameTaken, due(time.Second)))), left("data-web-1"), build.Pod("web-1", nil)),
		"the name was taken for too long":          on(web(cleaning(entry(1, api.NameTaken, tries(1), due(-time.Second)))), left("data-web-1"), build.Pod("web-1", nil)),
		"the name is free again":                   on(web(cleaning(entry(1, api.NameTaken, due(-time.Second)))), left("data-web-1")),
		"it is free again, and a try had failed":   on(web(cleaning(entry(1, api.NameTaken, tries(2), ofPod("uid-x"), due(time.Second)))), left("data-web-1")),
		"a pod of another cleanup ends":            on(web(c), left("data-web-1"), on1(1, relinked(func(l *api.Link) { l.Operation = "other" }), build.Deleting(), build.Finalizers())),
		"a claim is missing":                       on(web(build.Template("logs", "1Mi", "fixed"), c), left("data-web-1")),
		"a claim goes":                             on(web(build.Template("logs", "1Mi", "fixed"), c), left("data-web-1"), left("logs-web-1", build.Deleting())),
		"it is used":                               on(web(c), left("data-web-1"), build.Pod("backup", []string{"data-web-1"})),
		"it is used, the same obstacle as before":  on(web(cleaning(entry(1, api.ClaimBusy, due(time.Second)))), left("data-web-1"), build.Pod("backup", []string{"data-web-1"})),
		"it is used, that was not the obstacle":    on(web(cleaning(entry(1, api.NameTaken, tries(1), ofPod("uid-x"), due(-time.Second)))), left("data-web-1"), build.Pod("backup", []string{"data-web-1"})),
		"it is used for too long":                  on(web(cleaning(entry(1, api.ClaimBusy, tries(2), due(-time.Second)))), left("data-web-1"), build.Pod("backup", []string{"data-web-1"})),
		"who used it is done":                      on(web(c), left("data-web-1"), build.Pod("backup", []string{"data-web-1"}, succeeded)),
		"its pod runs":                             on(web(c), left("data-web-1"), on1(1)),
		"its pod starts":                           on(web(c), left("data-web-1"), on1(1, pending)),
		"back-off":                                 on(web(cleaning(entry(1, api.CleanupTriedOnce, tries(1), next(time.Second)))), left("data-web-1")),
		"back-off is over":                         on(web(cleaning(entry(1, api.CleanupTriedOnce, tries(1), next(-time.Second)))), left("data-web-1")),
		"nothing is left behind":                   on(web(c), left("data-web-0"), replica(0)),
		"a claim that is not known is not touched": on(web(c), build.Claim("data-web-1", "64Mi")),
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
	check(t, map[string]Input{
		"I9: the claims are deleted":                           on(two(c), left("data-web-1"), left("logs-web-1"), pod()),
		"I6: one is gone already":                              on(two(c), left("logs-web-1"), pod()),
		"I6: one is about to go":                               on(two(c), left("data-web-1", build.Deleting()), left("logs-web-1"), pod()),
		"I6: all are about to go":                              on(two(c), left("data-web-1", build.Deleting()), left("logs-web-1", build.Deleting()), pod()),
		"I6: all are gone":                                     on(two(c), pod()),
		"somebody deleted it, and then it ended with 0":        on(two(c), left("data-web-1"), left("logs-web-1"), pod(build.Deleting(), finishedAt(0))),
		"somebody deleted it, and nothing tells when it ended": on(two(c), left("data-web-1"), left("logs-web-1"), pod(build.Deleting())),
		"I6: it had succeeded when somebody deleted it":        on(two(c), left("data-web-1"), left("logs-web-1"), pod(askedJustNow, finishedAt(-time.Hour))),
		"I1: it was canceled, ended with 0, and its kubelet has deleted it since, which moves the time of its deletion": on(two(c), left("data-web-1"), left("logs-web-1"), pod(build.Deleting(), lastDeletion, finishedAt(-time.Hour))),
		"I6: the pod ends":                    on(two(c), left("data-web-1", build.Deleting()), pod(build.Deleting())),
		"I6: with finalizers of others":       on(two(c), pod(build.Deleting(), build.Finalizers("a", api.CleanupFinalizer, "b"))),
		"I6: our finalizer is gone":           on(two(c), pod(build.Deleting(), build.Finalizers())),
		"I6: the pod is gone":                 on(two(c)),
		"I3: a claim was replaced: it stays":  on(two(c), left("data-web-1", build.UID("uid-2")), left("logs-web-1"), pod()),
		"I3: all were replaced":               on(two(c), left("data-web-1", build.UID("uid-2")), left("logs-web-1", build.UID("uid-3")), pod()),
		"I3: the pod was run on nothing":      on(two(c), left("data-web-1"), left("logs-web-1"), pod(relinked(func(l *api.Link) { l.Claims = nil }))),
		"somebody else uses one":              on(two(c), left("data-web-1"), left("logs-web-1"), pod(), build.Pod("backup", []string{"logs-web-1"})),
		"somebody else used one":              on(two(cleaning(entry(1, api.ClaimBusy, due(time.Hour)))), left("data-web-1"), left("logs-web-1"), pod()),
		"somebody else uses one for too long": on(two(cleaning(entry(1, api.ClaimBusy, due(-time.Hour)))), left("data-web-1"), left("logs-web-1"), pod(), build.Pod("backup", []string{"logs-web-1"})),
		"it was given up: the pod goes":       on(two(cleaning(entry(1, api.ClaimBusy))), left("data-web-1"), left("logs-web-1"), pod()),
		"the deletion is rejected":            rejected(on(two(c), left("data-web-1"), left("logs-web-1"), pod())),
		"it was, and is tried later":          on(two(cleaning(entry(1, api.CleanupTriedOnce, tries(1), ofPod("uid-cleaner-web-1"), next(time.Second)))), left("data-web-1"), left("logs-web-1"), pod()),
		"it was, and is tried now":            on(two(cleaning(entry(1, api.CleanupTriedOnce, tries(1), ofPod("uid-cleaner-web-1"), next(-time.Second)))), left("data-web-1"), left("logs-web-1"), pod()),
		"it was, and is again":                rejected(on(two(cleaning(entry(1, api.CleanupTriedOnce, tries(1), ofPod("uid-cleaner-web-1"), next(-time.Second)))), left("data-web-1"), left("logs-web-1"), pod(failing(2, "x")))),
		"it had failed before":                on(two(cleaning(entry(1, api.CleanupTriedOnce, tries(2), ofPod("uid-x"), next(-time.Second)))), pod()),
		"the replica is wanted again":         on(two(build.Replicas(2), c), left("data-web-1"), left("logs-web-1"), pod()),
		"the same, which would cancel":        on(two(build.Replicas(2), cancels, c), left("data-web-1"), left("logs-web-1"), pod()),
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
	check(t, map[string]Input{
		"it failed, and the kubelet starts it again":      on(web(c), left("data-web-1"), on1(1, failing(2, ""))),
		"I8: it failed as often as it may":                on(web(c), left("data-web-1"), on1(1, failing(3, "no route\nto db-0\n"))),
		"I8: together with an earlier pod":                on(web(cleaning(entry(1, api.CleanupTriedOnce, tries(2), ofPod("uid-x"), next(-time.Minute)))), left("data-web-1"), on1(1, failing(1, ""))),
		"it was evicted":                                  on(web(c), left("data-web-1"), on1(1, evicted)),
		"it was evicted, after it had failed":             on(web(c), left("data-web-1"), on1(1, failing(2, ""), evicted)),
		"I8: it is evicted again and again":               on(web(cleaning(entry(1, api.CleanupTriedOnce, tries(2), ofPod("uid-x"), next(-time.Minute)))), left("data-web-1"), on1(1, evicted)),
		"the second time backs off for longer":            on(web(cleaning(entry(1, api.CleanupTriedOnce, tries(1), ofPod("uid-x"), next(-time.Minute)))), left("data-web-1"), on1(1, evicted)),
		"it was counted: the pod goes":                    on(web(cleaning(entry(1, api.CleanupTriedOnce, tries(1), ofPod("uid-cleaner-web-1"), next(time.Minute)))), left("data-web-1"), on1(1, evicted)),
		"it was counted: the pod ends":                    on(web(cleaning(entry(1, api.CleanupTriedOnce, tries(1), ofPod("uid-cleaner-web-1"), next(time.Minute)))), left("data-web-1"), on1(1, evicted, build.Deleting())),
		"it was counted: the pod has ended":               on(web(cleaning(entry(1, api.CleanupTriedOnce, tries(1), ofPod("uid-cleaner-web-1"), next(time.Minute)))), left("data-web-1"), on1(1, evicted, build.Deleting(), build.Finalizers("x"))),
		"I8: it does not start":                           on(web(c), left("data-web-1"), on1(1, old, waiting("ImagePullBackOff", "no such image"))),
		"it may take its time to start":                   on(web(c), left("data-web-1"), on1(1, build.Age(10*time.Minute), waiting("ImagePullBackOff", "no such image"))),
		"I8: it does not end":                             on(web(c), left("data-web-1"), on1(1, build.Age(26*time.Hour))),
		"somebody deletes it while it runs":               on(web(c), left("data-web-1"), on1(1, build.Deleting())),
		"somebody deletes it, our finalizer is not first": on(web(c), left("data-web-1"), on1(1, build.Deleting(), build.Finalizers("a", api.CleanupFinalizer))),
		"somebody deletes it, and it ends":                on(web(c), left("data-web-1"), on1(1, build.Deleting(), build.Finalizers())),
		"given up: the pod goes, the claims stay":         on(web(cleaning(entry(1, api.CleanupFailed, tries(3), ofPod("uid-cleaner-web-1")))), left("data-web-1"), on1(1, failing(3, ""))),
		"given up: the pod ends":                          on(web(cleaning(entry(1, api.CleanupFailed, tries(3), ofPod("uid-cleaner-web-1")))), left("data-web-1"), on1(1, build.Deleting())),
		"given up: the cleanup has failed":                on(web(cleaning(entry(1, api.CleanupFailed, tries(3), ofPod("uid-cleaner-web-1")))), left("data-web-1")),
		"given up, and somebody deletes the claim":        on(web(cleaning(entry(1, api.CleanupFailed, tries(3))))),
		"the pod is rejected":                             rejected(on(web(c), left("data-web-1"))),
		"the pod is rejected for the last time":           rejected(on(web(cleaning(entry(1, api.CleanupTriedOnce, tries(2), next(-time.Second)))), left("data-web-1"))),
		"it was rejected, and waits":                      rejected(on(web(cleaning(entry(1, api.CleanupTriedOnce, tries(1), next(time.Second)))), left("data-web-1"))),
		"given up and rejected: the pod goes":             rejected(on(web(cleaning(entry(1, api.CleanupFailed, tries(3), ofPod("uid-cleaner-web-1")))), left("data-web-1"), on1(1))),
		"the replica is wanted, one failure is enough":    on(web(build.Replicas(2), c), left("data-web-1"), on1(1, evicted)),
		"two claims are kept":                             on(web(build.Template("logs", "1Mi", "fixed"), build.Replicas(2), c), left("data-web-1"), left("logs-web-1"), cleaner(1, []string{"data-web-1", "logs-web-1"}, evicted)),
		"no container says why":                           on(web(c), left("data-web-1"), on1(1, failed)),
	})
}

func TestScaleUp(t *testing.T) {
	c := cleaning()
	two := build.Replicas(2)
	check(t, map[string]Input{
		"a replica is wanted: it waits":                on(web(two, c), left("data-web-1"), on1(1)),
		"it was told":                                  on(web(two, cleaning(entry(1, api.ScaleUpWaits))), left("data-web-1"), on1(1)),
		"it waits for a try that backs off":            on(web(two, cleaning(entry(1, api.CleanupTriedOnce, tries(1), ofPod("uid-x"), next(time.Second)))), left("data-web-1"), on1(1)),
		"a replica is wanted: the cleanup is canceled": on(web(two, cancels, c), left("data-web-1"), on1(1)),
		"it is canceled, the pod ends":                 on(web(two, cancels, c), left("data-web-1"), on1(1, build.Deleting())),
		"the pod is gone":                              on(web(two, cancels, c), left("data-web-1")),
		"there was none yet":                           on(web(two, c), left("data-web-1")),
		"the replica is back":                          on(web(two, c), left("data-web-0"), left("data-web-1"), replica(0), replica(1)),
		"only the lower one is wanted":                 on(web(two, c), left("data-web-1"), left("data-web-2"), on1(1)),
		"the template changed for a cancel":            on(web(two, cancels, cleaning(digest("older"))), left("data-web-1"), on1(1)),
		"it was told, and is not wanted again":         on(web(cleaning(entry(1, api.ScaleUpWaits))), left("data-web-1")),
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
	check(t, map[string]Input{
		"OrderedReady: the highest first":                         claims(on(web(c)), "1", "2", "3"),
		"OrderedReady: no other meanwhile":                        claims(on(web(c), on1(3)), "1", "2", "3"),
		"OrderedReady: a higher one came later":                   claims(on(web(c), on1(2)), "1", "2", "3"),
		"OrderedReady: the next":                                  claims(on(web(c)), "1", "2"),
		"OrderedReady: one that failed stops those below it":      claims(on(web(cleaning(failed3))), "1", "2", "3"),
		"Parallel: the first":                                     claims(on(web(parallel, c)), "1", "2", "3"),
		"Parallel: the second":                                    claims(on(web(parallel, c), on1(3)), "1", "2", "3"),
		"Parallel: no more than may be":                           claims(on(web(parallel, c), on1(3), on1(2)), "1", "2", "3"),
		"Parallel: a lower one succeeds":                          claims(on(web(parallel, c), on1(3), on1(2, succeeded)), "1", "2", "3"),
		"Parallel: one that failed does not hold up the others":   claims(on(web(parallel, cleaning(failed3))), "1", "2", "3"),
		"Parallel: as many that failed as may run at once end it": claims(on(web(parallel, cleaning(failed3, entry(2, api.CleanupFailed, tries(3))))), "1", "2", "3"),
		"Parallel: all have failed":                               claims(on(web(parallel, cleaning(failed3, entry(2, api.NameTaken), entry(1, api.CleanupFailed)))), "1", "2", "3"),
		"Parallel: one backs off":                                 claims(on(web(parallel, cleaning(entry(3, api.CleanupTriedOnce, tries(1), next(time.Second))))), "1", "2", "3"),
		"Parallel: at least one":                                  claims(on(web(parallel, c)), "1", "2").with(func(in *Input) { in.Settings.CleanupPods = 0 }),
		"more have a pod than may":                                claims(on(web(c), on1(3), on1(2), on1(1, succeeded)), "1", "2", "3"),
	})
}

func TestTemplateChangesMidway(t *testing.T) {
	old := cleaning(digest("older"), entry(3, api.CleanupFailed, tries(3)), entry(2, api.CleanupTriedOnce, tries(1), next(time.Second)))
	check(t, map[string]Input{
		"with the new one, what was given up is tried again": on(web(old), left("data-web-3"), left("data-web-2"), on1(2)),
		"the new one is wrong: the pods go":                  on(web(build.Annotation(api.CleanupTemplateAnnotation, "{}"), cleaning()), left("data-web-1"), on1(1)),
		"the new one is wrong, the pods are gone":            on(web(build.Annotation(api.CleanupTemplateAnnotation, "{}"), cleaning()), left("data-web-1")),
		"the API server would refuse it":                     on(web(cleaning(digest("older"))), left("data-web-1")).with(func(in *Input) { in.Denied = "violates PodSecurity" }),
		"it is removed: the pods go":                         on(web(build.Annotation(api.CleanupTemplateAnnotation, ""), cleaning()), left("data-web-1"), on1(1)),
		"it is removed, a pod ends":                          on(web(build.Annotation(api.CleanupTemplateAnnotation, ""), cleaning()), left("data-web-1"), on1(1, build.Deleting(), build.Finalizers())),
		"it is removed":                                      on(web(build.Annotation(api.CleanupTemplateAnnotation, ""), cleaning(entry(1, api.ScaleUpWaits))), left("data-web-1")),
		"the claims will be deleted":                         on(web(build.WhenScaled("Delete"), cleaning()), left("data-web-1")),
	})
}

func TestBackoff(t *testing.T) {
	for failures, want := range map[int]time.Duration{0: 10 * time.Second, 1: 10 * time.Second, 2: 20 * time.Second, 3: 40 * time.Second, 6: longestBackoff, 1000: longestBackoff} {
		if got := backoff(10*time.Second, failures); got != want {
			t.Errorf("%d: %s, want %s", failures, got, want)
		}
	}
}
