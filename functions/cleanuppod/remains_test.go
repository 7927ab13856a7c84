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
	check(t, map[string]Input{
		"without our finalizer":                       on(web(build.Deleting(), ready(1)), zero),
		"without it, a cleanup runs: the pods go":     on(web(build.Deleting(), c), one, on1(1)),
		"without it, a cleanup ran":                   on(web(build.Deleting(), c), one),
		"I9: in the background: it begins":            revision(on(goingWeb(ready(1)), zero, replica(0)), owned),
		"I9: it begins without a document":            on(goingWeb(), zero, replica(0)),
		"I9: in the foreground: the revision is gone": on(goingWeb(ready(1)), zero),
		"the replica is ended":                        revision(on(goingWeb(c), zero, replica(0)), owned),
		"the replica ends":                            on(goingWeb(c), zero, replica(0, build.Deleting())),
		"the replica's claim is marked first":         on(goingWeb(c), build.Claim("data-web-0", "64Mi"), replica(0)),
		"the pod is made":                             on(goingWeb(c), zero),
		"the pod runs":                                on(goingWeb(c), zero, on1(0)),
		"the pod succeeded":                           on(goingWeb(c), zero, on1(0, succeeded)),
		"from the highest down":                       on(goingWeb(build.Replicas(3), c), zero, one, left("data-web-2"), replica(0), replica(1)),
		"all at once":                                 on(goingWeb(build.Replicas(3), parallel, c), zero, one, replica(0), on1(1)),
		"all is done":                                 on(goingWeb(c)),
		"nothing was to be done":                      on(goingWeb(ready(1))),
		"a claim that nobody has used":                on(goingWeb(ready(1)), build.Claim("data-web-0", "64Mi")),
		"it failed before: it begins":                 on(goingWeb(gaveUp()), zero),
		"it failed in the second of the deletion":     on(goingWeb(gaveUp(finished(0))), zero),
		"it has failed: the set is held":              on(goingWeb(endedSince(time.Hour), gaveUp(entry(0, api.CleanupFailed))), zero),
		"it has failed, and a retry":                  on(goingWeb(endedSince(time.Hour), retry, gaveUp(entry(0, api.CleanupFailed))), zero),
		"it has failed, nothing is left any more":     on(goingWeb(endedSince(time.Hour), gaveUp(entry(0, api.CleanupFailed)))),
		"it fails":                                        on(goingWeb(cleaning(entry(0, api.CleanupFailed, tries(3)))), zero),
		"aborted: it goes":                                on(goingWeb(abort, ready(1)), zero),
		"aborted: the pods go first":                      on(goingWeb(abort, c), zero, on1(0)),
		"aborted: its pod ends":                           on(goingWeb(abort, c), zero, on1(0, build.Deleting(), build.Finalizers())),
		"aborted while it runs":                           on(goingWeb(abort, c), zero),
		"orphaned: not yet by the garbage collector":      on(goingWeb(build.Finalizers("orphan", api.CleanupFinalizer), ready(1)), zero, replica(0)),
		"orphaned: the revision has no owner":             revision(on(goingWeb(ready(1)), zero, replica(0))),
		"orphaned: somebody else adopted the revision":    revision(on(goingWeb(ready(1)), zero, replica(0)), build.Owned("StatefulSet", "other")),
		"the namespace ends":                              rejected(on(goingWeb(c), zero)).with(func(in *Input) { in.NamespaceEnds = true }),
		"a pod is rejected":                               rejected(on(goingWeb(c), zero)),
		"a resize was under way":                          on(goingWeb(build.Status(build.Operation(api.Moving)), ready(1)), zero),
		"it was asleep":                                   on(goingWeb(build.WithSleep(build.Sleep(api.Asleep)), build.Replicas(0), ready(1)), zero),
		"it does not ask for it any more":                 on(goingWeb(build.Annotation(api.CleanupOnDeleteAnnotation, ""), ready(1)), zero),
		"held, and not opted in any more":                 on(goingWeb(optOut, ready(1)), zero),
		"held, without a template":                        on(goingWeb(build.Annotation(api.CleanupTemplateAnnotation, ""), ready(1)), zero),
		"its template is wrong":                           on(goingWeb(build.Annotation(api.CleanupTemplateAnnotation, "{}"), ready(1)), zero),
		"its template was refused":                        on(goingWeb(refusedOnce()), zero),
		"a claim of an ordinal is missing":                on(goingWeb(build.Template("logs", "1Mi", "fixed"), c), zero),
		"our finalizer is the only one":                   on(goingWeb(build.Finalizers(api.CleanupFinalizer), c)),
		"the document cannot be read: nothing is touched": on(goingWeb(build.Annotation(api.CleanupAnnotation, "{")), zero, on1(0)),
		"a replica without claims is ended, too":          on(goingWeb(ready(1)), replica(0)),
		"a pod of nobody has the replica's name":          on(goingWeb(c), zero, build.Pod("web-0", nil)),
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
