package kit

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"drydock.dev/shared/api"
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
