package api

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// gitops runs the libraries of deployment tools, see test/gitops.
func (a *applied) gitops(args ...string) (string, error) {
	a.t.Helper()
	command := exec.Command(filepath.Join(kit.Root(a.t), "bin", "gitops"), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+kit.APIPath(a.t))
	said, err := command.CombinedOutput()
	return string(said), err
}

// must is gitops, which has to succeed.
func (a *applied) must(args ...string) string {
	a.t.Helper()
	said, err := a.gitops(args...)
	if err != nil {
		a.t.Fatalf("gitops %v: %v: %s", args, err, said)
	}
	return said
}

// chart writes a chart with the set.
func chart(t *testing.T, set *appsv1.StatefulSet) string {
	t.Helper()
	text, err := yaml.Marshal(set)
	must(t, err)
	folder := t.TempDir()
	must(t, os.Mkdir(filepath.Join(folder, "templates"), 0o700))
	must(t, os.WriteFile(filepath.Join(folder, "templates", "set.yaml"), text, 0o600))
	must(t, os.WriteFile(filepath.Join(folder, "Chart.yaml"), []byte("apiVersion: v2\nname: web\nversion: 1.0.0\n"), 0o600))
	return folder
}

// toolWorld has the policies, and no set yet.
func toolWorld(t *testing.T) *applied {
	t.Helper()
	w := kit.NewWorld(t)
	w.InstallApply()
	return &applied{World: w, t: t, drive: w.Drive(nil)}
}

// TestHelm: an upgrade of the release to a larger size succeeds, and the volumes follow. A rollback before that changes nothing, since Helm
// sends only what differs from the live set; one after that is refused.
func TestHelm(t *testing.T) {
	t.Parallel()
	for name, more := range map[string][]string{"upgrade": nil, "upgrade --atomic": {"--atomic"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := toolWorld(t)
			a.must("helm", "install", a.Namespace, "web", chart(t, deployed(kit.GrowingClass, "64Mi")))
			untilReady(a.World, a.drive, "web", 1)
			bigger := chart(t, deployed(kit.GrowingClass, "128Mi"))
			upgrade := append([]string{"helm", "upgrade", a.Namespace, "web", bigger}, more...)
			a.must(upgrade...)
			a.asks("data=128Mi+", "64Mi")
			version := a.Set("web").ResourceVersion
			a.must(upgrade...)
			if a.Set("web").ResourceVersion != version {
				t.Error("the same release was upgraded to, and the set was written")
			}
			expectPhase(t, a.Finish(a.drive, "web"), api.Succeeded)
			expectSize(t, a.World, "128Mi", "data-web-0")
			version = a.Set("web").ResourceVersion
			a.must(upgrade...)
			if a.Set("web").ResourceVersion != version {
				t.Error("the release was upgraded to what there is, and the set was written")
			}
			if said, err := a.gitops("helm", "upgrade", a.Namespace, "web", chart(t, deployed(kit.GrowingClass, "64Mi"))); err == nil ||
				!strings.Contains(said, "updates to statefulset spec") {
				t.Errorf("a smaller size: %v: %s", err, said)
			}
			a.asks("data=128Mi+", "128Mi")
			expectWhole(t, a.World, "web", 1, "data-web-0")
		})
	}
}

// TestHelmRollback: Helm sends only what differs between the manifests and the live set, and the templates do not yet. So a rollback does not take
// the request back.
func TestHelmRollback(t *testing.T) {
	t.Parallel()
	a := toolWorld(t)
	a.must("helm", "install", a.Namespace, "web", chart(t, deployed(kit.GrowingClass, "64Mi")))
	untilReady(a.World, a.drive, "web", 1)
	a.must("helm", "upgrade", a.Namespace, "web", chart(t, deployed(kit.GrowingClass, "128Mi")))
	a.must("helm", "rollback", a.Namespace, "web")
	a.asks("data=128Mi+", "64Mi")
	expectPhase(t, a.Finish(a.drive, "web"), api.Succeeded)
	a.asks("data=128Mi+", "128Mi")
	expectWhole(t, a.World, "web", 1, "data-web-0")
}

// TestFlux: Flux finds that nothing is left to apply as soon as the request is made, and also when the templates have followed. The old manifest
// takes the request back.
func TestFlux(t *testing.T) {
	t.Parallel()
	a := toolWorld(t)
	flux := func(size, want string) {
		t.Helper()
		said := a.must("flux", a.Namespace, write(t, deployed(kit.GrowingClass, size)))
		if fields := strings.Fields(said); fields[len(fields)-1] != want {
			t.Errorf("Flux says %q, want %q", said, want)
		}
	}
	flux("64Mi", "created")
	untilReady(a.World, a.drive, "web", 1)
	flux("64Mi", "unchanged")
	flux("128Mi", "configured")
	a.asks("data=128Mi+", "64Mi")
	flux("128Mi", "unchanged")
	flux("64Mi", "configured")
	a.asks("", "64Mi")
	flux("64Mi", "unchanged")
	flux("128Mi", "configured")
	flux("128Mi", "unchanged")
	expectPhase(t, a.Finish(a.drive, "web"), api.Succeeded)
	flux("128Mi", "unchanged")
	a.asks("data=128Mi+", "128Mi")
	if said, err := a.gitops("flux", a.Namespace, write(t, deployed(kit.GrowingClass, "64Mi"))); err == nil {
		t.Errorf("a smaller size was applied: %s", said)
	}
	expectSize(t, a.World, "128Mi", "data-web-0")
	expectWhole(t, a.World, "web", 1, "data-web-0")
}
