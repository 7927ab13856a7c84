package restore

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// injectedFirst puts a container before the lock's own one, as Linkerd (proxy-await) and Istio (holdApplicationUntilProxyStarts) do.
func injectedFirst() build.Option {
	return build.Edit(func(p *corev1.Pod) {
		p.Spec.Containers = append([]corev1.Container{{Name: "istio-proxy"}}, p.Spec.Containers...)
	})
}

// TestLockWithInjectedSidecarStaysALock: an injector of the namespace may put its container first. The pod is still Drydock's lock. If it
// is taken for another process's pod, the hold is removed, the pod stays, and it keeps the member's name for ever.
func TestLockWithInjectedSidecarStaysALock(t *testing.T) {
	record := movingOne(api.MemberStopping, build.EditMember(0, func(m *api.Member) { m.Pod, m.Locked = "uid-lock", true }),
		build.MemberDue(0, time.Minute))
	at := append(setWith(record, build.Replicas(0)), append(journalOf(web0), append(source(web0), target(web0)...)...)...)
	ends := func(a plan.Action) bool {
		return a.Resource == plan.Pods && a.Name == "web-0" && (a.Verb == plan.VerbEvict || a.Verb == plan.VerbDelete)
	}
	frees := func(a plan.Action) bool {
		return a.Resource == plan.Pods && a.Name == "web-0" && slices.Contains(a.Words, "-finalizer hold")
	}
	plain, injected := Decide(situation(at, lock(0))), Decide(situation(at, lock(0, injectedFirst())))
	if slices.ContainsFunc(injected.Actions, frees) && !slices.ContainsFunc(injected.Actions, ends) {
		t.Errorf("the lock loses its finalizer and link, but no function deletes it: %s", injected)
	}
	if plain.String() != injected.String() || plain.Kind != plan.KindDo {
		t.Errorf("a lock with a sidecar is not treated as a lock without:\n%s\n%s", injected, plain)
	}
}
