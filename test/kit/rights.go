package kit

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"drydock.dev/shared/api"
	"drydock.dev/shared/kube"
)

var installed sync.Once

// installRights applies the accounts, roles and fences of config/ for the whole cluster, and waits until the fences are
// in force. It leaves out
// the policies for held members and sleeping sets. A test that needs them installs them for its namespace.
func installRights(t testing.TB) {
	t.Helper()
	installed.Do(func() { InstallRights(t, APIPath(t), Settings().Image) })
}

// InstallRights applies what an administrator applies for a drydock-standalone outside the cluster: accounts, roles, policies, and the Role
// with the image of the movers.
func InstallRights(t testing.TB, kubeconfig, image string) {
	t.Helper()
	config := filepath.Join(Root(t), "config")
	files := []string{filepath.Join(config, "namespace", "namespace.yaml")}
	for _, pattern := range []string{"crd/*.yaml", "rbac/*.yaml", "accounts/*.yaml", "bindings/*.yaml", "policy/*.yaml"} {
		found, err := filepath.Glob(filepath.Join(config, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("looking for %s in config: %v", pattern, err)
		}
		files = append(files, found...)
	}
	files = slices.DeleteFunc(files, func(path string) bool {
		return filepath.Base(path) == "kustomization.yaml" || strings.HasPrefix(filepath.Base(path), "held-") ||
			filepath.Base(path) == "sleeping-sets.yaml"
	})
	args := []string{"--kubeconfig", kubeconfig, "apply", "--server-side", "--force-conflicts"}
	for _, file := range files {
		args = append(args, "-f", file)
	}
	command := exec.Command(Kubectl(t), append(args, "-f", "-")...) // the Role comes last, because its namespace is in one of the files
	command.Stdin = bytes.NewReader(moverImage(t, image))
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("installing the functions' rights: %v: %s", err, output)
	}
	awaitFences(t, kubeconfig)
}

// moverImage returns the Role that names the image of the movers.
func moverImage(t testing.TB, image string) []byte {
	t.Helper()
	role, err := exec.Command(filepath.Join(Root(t), "deploy", "mover-image"), image).Output()
	if err != nil {
		t.Fatalf("making the Role of the mover's image: %v", err)
	}
	return role
}

// awaitFences waits until the policies are in force. The API server watches policies, so that takes a moment.
func awaitFences(t testing.TB, kubeconfig string) {
	t.Helper()
	config := configOf(t, kubeconfig)
	revisions := kubernetes.NewForConfigOrDie(kube.Impersonate(config, api.Backup)).AppsV1().ControllerRevisions(metav1.NamespaceDefault)
	probe := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Data: runtime.RawExtension{Raw: []byte(`{}`)}}
	deadline := time.Now().Add(30 * time.Second)
	for {
		_, err := revisions.Create(context.Background(), probe,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "'drydock-fence-revisions'") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited for the fences; a record that backup must not write: %v", err)
		}
		await(context.Background(), nil, 100*time.Millisecond)
	}
}

// Kubectl returns the path of the local cluster's kubectl, or else of the machine's.
func Kubectl(t testing.TB) string {
	t.Helper()
	own := filepath.Join(Root(t), ".cluster", "bin", "kubectl")
	if _, err := os.Stat(own); err == nil {
		return own
	}
	path, err := exec.LookPath("kubectl")
	if err != nil {
		t.Fatal("no kubectl: run make cluster, or install it")
	}
	return path
}
