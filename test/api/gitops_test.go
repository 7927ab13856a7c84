//go:build cluster

package api

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// tryTool runs bin/gitops or bin/argo, which use the libraries of the deployment tools: see test/gitops.
func (a *applied) tryTool(name string, args ...string) (string, error) {
	a.t.Helper()
	command := exec.Command(filepath.Join(kit.Root(a.t), "bin", name), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+kit.APIPath(a.t))
	said, err := command.CombinedOutput()
	return string(said), err
}

// tool is tryTool for a command that must succeed.
func (a *applied) tool(name string, args ...string) string {
	a.t.Helper()
	said, err := a.tryTool(name, args...)
	if err != nil {
		a.t.Fatalf("%s %v: %v: %s", name, args, err, said)
	}
	return said
}

// chart writes a chart with the set, and returns its folder.
func chart(t *testing.T, set *appsv1.StatefulSet) string {
	t.Helper()
	folder := t.TempDir()
	must(t, os.Mkdir(filepath.Join(folder, "templates"), 0o700))
	must(t, os.WriteFile(filepath.Join(folder, "templates", "set.yaml"), manifestText(t, set), 0o600))
	must(t, os.WriteFile(filepath.Join(folder, "Chart.yaml"), []byte("apiVersion: v2\nname: web\nversion: 1.0.0\n"), 0o600))
	return folder
}

// toolWorld returns a world with the apply policies and without a set.
func toolWorld(t *testing.T) *applied {
	t.Helper()
	w := kit.NewWorld(t)
	w.InstallApply()
	return &applied{World: w, t: t, drive: w.Drive(nil)}
}

// TestHelm: an upgrade of the release to a larger size succeeds, and the volumes follow. A repeated upgrade changes
// nothing. An upgrade to a smaller size is rejected.
func TestHelm(t *testing.T) {
	t.Parallel()
	for name, more := range map[string][]string{"upgrade": nil, "upgrade --atomic": {"--atomic"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := toolWorld(t)
			a.tool("gitops", "helm", "install", a.Namespace, "web", chart(t, deployed(kit.GrowingClass, "64Mi")))
			untilReady(a.World, a.drive, "web", 1)
			bigger := chart(t, deployed(kit.GrowingClass, "128Mi"))
			upgrade := append([]string{"helm", "upgrade", a.Namespace, "web", bigger}, more...)
			a.tool("gitops", upgrade...)
			a.expectRequest("data=128Mi+", "64Mi")
			a.expectUnchanged("the same release is upgraded to", func() { a.tool("gitops", upgrade...) })
			expectPhase(t, a.Finish(a.drive, "web"), api.Succeeded)
			expectSize(t, a.World, "128Mi", "data-web-0")
			a.expectUnchanged("the release is upgraded to what there is", func() { a.tool("gitops", upgrade...) })
			if said, err := a.tryTool("gitops", "helm", "upgrade", a.Namespace, "web",
				chart(t, deployed(kit.GrowingClass, "64Mi"))); err == nil ||
				!strings.Contains(said, "updates to statefulset spec") {
				t.Errorf("a smaller size: %v: %s", err, said)
			}
			a.expectRequest("data=128Mi+", "128Mi")
			expectWhole(t, a.World, "web", 1, "data-web-0")
		})
	}
}

// TestHelmRollback: Helm sends only the difference between manifest and live set, and the live templates have not
// changed yet. So a rollback does not withdraw the request.
func TestHelmRollback(t *testing.T) {
	t.Parallel()
	a := toolWorld(t)
	a.tool("gitops", "helm", "install", a.Namespace, "web", chart(t, deployed(kit.GrowingClass, "64Mi")))
	untilReady(a.World, a.drive, "web", 1)
	a.tool("gitops", "helm", "upgrade", a.Namespace, "web", chart(t, deployed(kit.GrowingClass, "128Mi")))
	a.tool("gitops", "helm", "rollback", a.Namespace, "web")
	a.expectRequest("data=128Mi+", "64Mi")
	expectPhase(t, a.Finish(a.drive, "web"), api.Succeeded)
	a.expectRequest("data=128Mi+", "128Mi")
	expectWhole(t, a.World, "web", 1, "data-web-0")
}

// TestFlux: Flux finds nothing to apply as soon as the request exists, and after the templates have changed. The old
// manifest withdraws the request.
func TestFlux(t *testing.T) {
	t.Parallel()
	a := toolWorld(t)
	flux := func(size, want string) {
		t.Helper()
		said := a.tool("gitops", "flux", a.Namespace, write(t, deployed(kit.GrowingClass, size)))
		if fields := strings.Fields(said); fields[len(fields)-1] != want {
			t.Errorf("Flux says %q, want %q", said, want)
		}
	}
	flux("64Mi", "created")
	untilReady(a.World, a.drive, "web", 1)
	flux("64Mi", "unchanged")
	flux("128Mi", "configured")
	a.expectRequest("data=128Mi+", "64Mi")
	flux("128Mi", "unchanged")
	a.Kubectl("apply", "-f", write(t, deployed(kit.GrowingClass, "128Mi"))) // Flux removes the traces of it first
	flux("128Mi", "configured")
	flux("128Mi", "unchanged")
	a.expectRequest("data=128Mi+", "64Mi")
	flux("64Mi", "configured")
	a.expectRequest("", "64Mi")
	flux("64Mi", "unchanged")
	flux("128Mi", "configured")
	flux("128Mi", "unchanged")
	expectPhase(t, a.Finish(a.drive, "web"), api.Succeeded)
	flux("128Mi", "unchanged")
	a.expectRequest("data=128Mi+", "128Mi")
	if said, err := a.tryTool("gitops", "flux", a.Namespace, write(t, deployed(kit.GrowingClass, "64Mi"))); err == nil {
		t.Errorf("a smaller size was applied: %s", said)
	}
	expectSize(t, a.World, "128Mi", "data-web-0")
	expectWhole(t, a.World, "web", 1, "data-web-0")
}

// TestArgoCD: the set is OutOfSync until the manifest is applied. With a diff by the server it is Synced then, else
// when the templates have changed. Each further sync writes nothing.
//
// By default a reverted manifest is Synced at once, so only a manual sync withdraws the request. A diff by the server
// alone ignores the changes of admission and never finds a difference: IncludeMutationWebhook must be on.
func TestArgoCD(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		diff, sync        []string
		asked, withdrawal string // the result of the diff while the request is carried out, for the new and the old manifest
		blind             bool
	}{
		"by default": {nil, nil, "OutOfSync", "Synced", false},
		"ServerSideDiff and IncludeMutationWebhook": {[]string{"--server-side-diff", "--include-mutation-webhook"},
			[]string{"--server-side-apply"},
			"Synced", "OutOfSync", false},
		"ServerSideDiff": {[]string{"--server-side-diff"}, []string{"--server-side-apply"}, "Synced", "Synced", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := toolWorld(t)
			argo := func(what, size string, flags []string) string {
				t.Helper()
				args := append([]string{what, a.Namespace, write(t, deployed(kit.GrowingClass, size))}, flags...)
				lines := strings.Split(strings.TrimSpace(a.tool("argo", args...)), "\n")
				return strings.TrimSpace(lines[len(lines)-1]) // after the API server's warnings
			}
			expect := func(size, want string) {
				t.Helper()
				if got := argo("diff", size, row.diff); got != want {
					t.Errorf("%s is %s, want %s", size, got, want)
				}
			}
			argo("sync", "64Mi", row.sync)
			untilReady(a.World, a.drive, "web", 1)
			expect("64Mi", "Synced")
			if row.blind {
				expect("128Mi", "Synced")
			} else {
				expect("128Mi", "OutOfSync")
				argo("sync", "128Mi", row.sync)
				a.expectRequest("data=128Mi+", "64Mi")
				expect("128Mi", row.asked)
				expect("64Mi", row.withdrawal)
				a.expectUnchanged("the same manifest is synchronized", func() { argo("sync", "128Mi", row.sync) })
				argo("sync", "64Mi", row.sync)
				a.expectRequest("", "64Mi")
				expect("64Mi", "Synced")
				argo("sync", "128Mi", row.sync)
				expectPhase(t, a.Finish(a.drive, "web"), api.Succeeded)
				expect("128Mi", "Synced")
				expectSize(t, a.World, "128Mi", "data-web-0")
				expectWhole(t, a.World, "web", 1, "data-web-0")
			}
		})
	}
}

// TestHealthOfResize runs the checks in config/gitops with the engines of Argo CD and Flux.
func TestHealthOfResize(t *testing.T) {
	t.Parallel()
	a := applyWorld(t, serverSide, kit.Class)
	expect := func(when, want string) {
		t.Helper()
		if got := strings.TrimSpace(a.tool("gitops", "health", a.Namespace, "web",
			filepath.Join(kit.Root(t), "config", "gitops"))); got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	expect("at rest", "Healthy Current")
	bigger := deployed(kit.Class, "128Mi")
	bigger.Annotations[api.ResizeMethodAnnotation] = string(api.MethodExpand)
	a.applySet(bigger)
	expect("applied", "Progressing InProgress")
	expectPhase(t, a.Finish(a.drive, "web"), api.Refused)
	expect("refused", "Degraded Failed")

	delete(bigger.Annotations, api.ResizeMethodAnnotation)
	bigger.Annotations[api.CutoverAnnotation] = api.CutoverApprove
	a.applySet(bigger)
	a.Eventually("the member waits for an approval", func() string {
		_ = a.drive.Tick(t.Context())
		if status := a.Status("web"); len(status.Members) != 1 || status.Members[0].Phase != api.MemberWaiting {
			return describe(status)
		}
		return ""
	})
	expect("while it waits", "Progressing InProgress")
	delete(bigger.Annotations, api.CutoverAnnotation)
	a.applySet(bigger)
	a.untilPhase(api.Succeeded)
	untilReady(a.World, a.drive, "web", 1)
	expect("resized", "Healthy Current")

	a.Annotate("web", map[string]string{api.ResizeAnnotation: "data=1Gi@no-such-class"})
	a.untilPhase(api.Refused)
	expect("asked for by hand and refused", "Degraded Failed")
	a.Kubectl("annotate", "sts/web", api.ResizeAnnotation+"-")
	expect("not asked for any more", "Healthy Current")
	a.Scale("web", 2)
	expect("scaled", "Progressing InProgress")
	untilReady(a.World, a.drive, "web", 2)
	expect("scaled, and ready", "Healthy Current")
}

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
