//go:build cluster

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/owners/rights"
	"drydock.dev/test/kit"
	"drydock.dev/test/kit/stage"
	"drydock.dev/test/page"
)

// The tests of this file install Drydock in the ways that docs/install.md shows. They manage the whole cluster, so no other test runs in
// parallel.

// standaloneImage is the image of the standalone process on the cluster.
const standaloneImage = "dev.local/drydock-standalone:dev"

// chartValues are the values for images that have no digest, on an API server with policies of version v1beta1.
const chartValues = `image: ` + stage.Image + `
standaloneImage: ` + standaloneImage + `
editedManifests: v1beta1
settings:
  DRYDOCK_ALLOW_TAGS: "true"
`

// TestChartInstallsDrydock installs the Helm chart without replicas, upgrades it to two, resizes a set, and removes the chart.
func TestChartInstallsDrydock(t *testing.T) {
	s := newSetWithoutDrydock(t)
	before := s.Data(t)
	folder := t.TempDir()
	values := filepath.Join(folder, "values.yaml")
	if err := os.WriteFile(values, []byte(chartValues+"replicas: 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	programRuns(t, s, "release", "chart", folder)
	chart := filepath.Join(folder, "drydock")
	programRuns(t, s, "gitops", "helm", "install", s.Namespace, "drydock", chart, "--values="+values)
	if err := os.WriteFile(values, []byte(chartValues), 0o600); err != nil {
		t.Fatal(err)
	}
	programRuns(t, s, "gitops", "helm", "upgrade", s.Namespace, "drydock", chart, "--values="+values)
	awaitEngine(t, s)
	userRuns(t, s, "doctor")
	s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi", api.BandwidthAnnotation: "4Mi"})
	s.Eventually("the log has a line of a mover", func() string {
		out, err := runProgram(t, s, "kubectl-drydock", "logs", "-n", s.Namespace, "sts/web", "--movers-only")
		if err != nil || !strings.Contains(out, "claim=data") {
			return fmt.Sprintf("%v: %s", err, out)
		}
		return ""
	})
	s.ExpectResized(t, before)
	expectLogsAndReport(t, s)

	if out := userRuns(t, s, "uninstall"); !strings.Contains(out, "helm uninstall drydock -n "+s.Namespace) {
		t.Errorf("kubectl drydock uninstall does not leave the objects to Helm:\n%s", out)
	}
	userRuns(t, s, "release", "--all-namespaces", "--yes")
	programRuns(t, s, "gitops", "helm", "uninstall", s.Namespace, "drydock")
	for _, kind := range []string{"validatingadmissionpolicies", "mutatingadmissionpolicies", "clusterroles"} {
		if left := s.Kubectl(t, "", "get", kind, "-o", "name"); strings.Contains(left, "drydock") {
			t.Errorf("helm uninstall left\n%s", left)
		}
	}
	if left := s.Kubectl(t, "", "get", "crd", "-o", "name"); !strings.Contains(left, "scalers.drydock.dev") {
		t.Errorf("helm uninstall removed the kind Scaler, and with it every Scaler. The kinds are\n%s", left)
	}
}

// expectLogsAndReport reads the log of the latest operation, with lines of each function that has worked on it, and writes a report.
func expectLogsAndReport(t *testing.T, s *stage.Stage) {
	t.Helper()
	out := userRuns(t, s, "logs", "-n", s.Namespace, "sts/web", "--functions-only")
	for _, f := range []api.Function{api.DetectResize, api.PauseOwner, api.Backup, api.Restore} {
		if !strings.Contains(out, " "+string(f)+" ") {
			t.Errorf("the log has no line of %s:\n%s", f, out)
		}
	}
	file := filepath.Join(t.TempDir(), "web.tar.gz")
	userRuns(t, s, "report", "-n", s.Namespace, "sts/web", "--file", file)
	list, err := exec.Command("tar", "-tzf", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"README.txt", "records.yaml", "doctor.yaml", "logs.txt"} {
		if !strings.Contains(string(list), want) {
			t.Errorf("the report has no %s:\n%s", want, list)
		}
	}
}

// TestKustomizationInstallsDrydock runs the commands of docs/operations.md that make and apply an overlay of deploy/standalone.
func TestKustomizationInstallsDrydock(t *testing.T) {
	s := newSetWithoutDrydock(t)
	before := s.Data(t)
	reader := newReader(t, s, tutorial{replace: []string{
		`newName: example.com/drydock-standalone, digest: "sha256:…"`, "newName: dev.local/drydock-standalone, newTag: dev",
		`{DRYDOCK_IMAGE: "example.com/drydock@sha256:…"}`, `{DRYDOCK_IMAGE: "` + stage.Image + `", DRYDOCK_ALLOW_TAGS: "true"}`,
		"example.com/drydock@sha256:…", stage.Image,
	}})
	for _, folder := range []string{"config", "deploy"} {
		reader.copyFolder(t, folder)
	}
	reader.run(t, installation(t))
	awaitEngine(t, s)
	s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi"})
	s.ExpectResized(t, before)
}

// installation returns the commands of docs/operations.md that install Drydock with an overlay.
func installation(t *testing.T) page.Step {
	t.Helper()
	blocks, err := page.Blocks(fileOf(t, "docs/operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range blocks {
		if block.Language == "sh" && strings.Contains(block.Text, "my-drydock/kustomization.yaml") {
			return page.Step{Line: block.Line, Commands: block.Text}
		}
	}
	t.Fatal("docs/operations.md has no block that writes my-drydock/kustomization.yaml")
	return page.Step{}
}

// newSetWithoutDrydock returns a stage with a set, on a cluster without any object of Drydock. At the end of the test it removes Drydock
// again, and applies what the cluster of the other tests has.
func newSetWithoutDrydock(t *testing.T) *stage.Stage {
	t.Helper()
	s := stage.New(t)
	removeDrydock(t, s)
	t.Cleanup(func() {
		removeDrydock(t, s)
		s.Kubectl(t, "", "apply", "--server-side", "--force-conflicts", "--field-manager=drydock-config", "-k",
			filepath.Join(kit.Root(t), "config", "apply-v1beta1"))
	})
	s.CreateSet(stage.Workload("64Mi")) // after the removal, which opts every set out
	return s
}

// removeDrydock removes all of Drydock, and also what `kubectl drydock uninstall` leaves: the roles of `kubectl drydock rbac`, which
// earlier tests have granted.
func removeDrydock(t *testing.T, s *stage.Stage) {
	t.Helper()
	userRuns(t, s, "uninstall", "--yes")
	s.Kubectl(t, "", "delete", "clusterrole", "-l", rights.Label)
	stage.RightsRemoved()
}

// awaitEngine waits until both replicas of the standalone process run.
func awaitEngine(t *testing.T, s *stage.Stage) {
	t.Helper()
	s.Eventually("both replicas run", func() string {
		d, err := s.Kube.AppsV1().Deployments(standaloneNamespace).Get(context.Background(), "drydock-standalone", metav1.GetOptions{})
		if err != nil || d.Status.ReadyReplicas != 2 {
			return fmt.Sprintf("%d of 2 (%v)", d.Status.ReadyReplicas, err)
		}
		return ""
	})
}
