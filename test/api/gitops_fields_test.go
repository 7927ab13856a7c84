//go:build cluster

package api

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// TestToolsConvergeOnFields: each tool applies a manifest that changes the service, the pod management policy, and the
// labels and annotations of a template. After the set was created again, the tool finds no difference. The old manifest
// then becomes a new request.
func TestToolsConvergeOnFields(t *testing.T) {
	t.Parallel()
	for name, apply := range map[string]func(a *applied, set *appsv1.StatefulSet){
		"Helm": func(a *applied, set *appsv1.StatefulSet) {
			a.tool("gitops", "helm", "upgrade", a.Namespace, "web", chart(a.t, set))
		},
		"Flux": func(a *applied, set *appsv1.StatefulSet) { a.tool("gitops", "flux", a.Namespace, write(a.t, set)) },
		"Argo CD": func(a *applied, set *appsv1.StatefulSet) {
			a.tool("argo", "sync", a.Namespace, write(a.t, set))
		},
		"Argo CD with server-side apply": func(a *applied, set *appsv1.StatefulSet) {
			a.tool("argo", "sync", a.Namespace, write(a.t, set), "--server-side-apply")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := toolWorld(t)
			a.t = t
			old := deployed(kit.GrowingClass, "64Mi")
			if name == "Helm" {
				a.tool("gitops", "helm", "install", a.Namespace, "web", chart(t, old))
			} else {
				apply(a, old)
			}
			untilReady(a.World, a.drive, "web", 1)
			pods := a.identity()
			set := reshaped("64Mi")
			apply(a, set)
			a.expectRequested(reshapedRequest)
			a.expectUnchanged("the same manifest is applied", func() { apply(a, set) })
			expectPhase(t, a.Finish(a.drive, "web"), api.Succeeded)
			a.expectFields(set)
			a.expectUnchanged("the manifest is applied to what there is", func() { apply(a, set) })
			a.expectSynced(name, set)
			apply(a, old)
			a.untilOtherRequest(api.Succeeded, reshapedRequest)
			a.expectFields(old)
			a.expectUnchanged("the old manifest is applied to what there is", func() { apply(a, old) })
			if now := a.identity(); now != pods {
				t.Errorf("pods and managers were %s, and are %s", pods, now)
			}
			expectWhole(t, a.World, "web", 1, "data-web-0")
		})
	}
}

// expectSynced expects that Flux or Argo CD finds no difference between the manifest and the set. It checks nothing for
// Helm.
func (a *applied) expectSynced(tool string, set *appsv1.StatefulSet) {
	a.t.Helper()
	said, want := "", ""
	switch {
	case tool == "Flux":
		said, want = a.tool("gitops", "flux", a.Namespace, write(a.t, set)), "unchanged"
	case strings.HasPrefix(tool, "Argo CD"):
		said, want = a.tool("argo", "diff", a.Namespace, write(a.t, set)), "Synced"
	}
	if !strings.HasSuffix(strings.TrimSpace(said), want) {
		a.t.Errorf("%s says %q, want %q", tool, said, want)
	}
}
