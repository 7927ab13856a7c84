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
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"drydock.dev/shared/api"
	"drydock.dev/shared/kube"
)

// APIEnv names the environment variable with the kubeconfig of a real API server, with controllers but without nodes.
const APIEnv = "DRYDOCK_TEST_API"

// APIPath returns the path of the kubeconfig of the API server for tests.
func APIPath(t testing.TB) string {
	if path := os.Getenv(APIEnv); path != "" {
		return path
	}
	return filepath.Join(Root(t), ".cluster", "control-plane", "kubeconfig")
}

// APIConfig returns the configuration of the API server for tests.
func APIConfig(t testing.TB) *rest.Config {
	t.Helper()
	return configOf(t, APIPath(t))
}

func configOf(t testing.TB, path string) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatalf("reading kubeconfig %s: %v; start the control plane with: make cluster SIZE=control-plane", path, err)
	}
	return config
}

// Root returns the folder of the repository.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "func.yaml")); err == nil {
			return dir
		}
	}
	t.Fatal("no func.yaml above the working folder")
	return ""
}

// Files returns the files of the repository that match a pattern of git, with paths relative to Root. Ignored files are not among them.
func Files(t testing.TB, patterns ...string) []string {
	t.Helper()
	root := Root(t)
	arguments := append([]string{"-C", root, "ls-files", "-z", "-co", "--exclude-standard", "--"}, patterns...)
	out, err := exec.CommandContext(t.Context(), "git", arguments...).Output()
	if err != nil {
		t.Fatalf("git cannot list the files: %v. Run this test in a clone of the repository", err)
	}
	names := strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
	return slices.DeleteFunc(names, func(name string) bool { // deleted, and not committed yet
		_, err := os.Stat(filepath.Join(root, filepath.FromSlash(name)))
		return err != nil
	})
}

// Settings returns the default settings with shorter times, which a busy machine can still meet. A test of a limit sets
// its own.
func Settings() api.Settings {
	return api.Settings{
		Image: "dev.local/drydock:dev", AllowTags: true, Parallelism: 4, Retention: time.Hour, ShrinkMargin: 7,
		PlanTimeout: 5 * time.Minute, ExpandTimeout: 5 * time.Minute, ExpandPatience: time.Minute, CopyTimeout: 15 * time.Minute,
		QuiesceTimeout: 5 * time.Minute, StartTimeout: 5 * time.Minute, SwapTimeout: 5 * time.Minute, ReadyTimeout: 5 * time.Minute,
		ProgressPeriod: 10 * time.Second, ProgressTimeout: time.Minute, SleepRetry: 10 * time.Minute, ProbeTimeout: 5 * time.Second,
		CleanupTries: 3, CleanupBackoff: time.Second, CleanupTimeout: time.Minute, CleanupPods: 3,
	}
}

// Grant gives a user verbs on resources, as kubectl names them, in the whole cluster until the test ends. The rights come into force after
// a moment.
func (w *World) Grant(user, verbs, resources string) {
	w.T.Helper()
	ctx := context.Background()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: w.Namespace + "-"}}
	for _, name := range strings.Fields(resources) {
		resource := schema.ParseGroupResource(name)
		role.Rules = append(role.Rules, rbacv1.PolicyRule{Verbs: strings.Fields(verbs), APIGroups: []string{resource.Group},
			Resources: []string{resource.Resource}})
	}
	role, err := w.Kube.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
	w.must(err)
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}}}
	_, err = w.Kube.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
	w.must(err)
	w.T.Cleanup(func() {
		_ = w.Kube.RbacV1().ClusterRoleBindings().Delete(ctx, role.Name, metav1.DeleteOptions{})
		_ = w.Kube.RbacV1().ClusterRoles().Delete(ctx, role.Name, metav1.DeleteOptions{})
	})
}

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
