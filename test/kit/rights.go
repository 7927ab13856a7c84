package kit

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

var installed sync.Once

// installRights applies the accounts and roles of config/, as it gives them for a whole cluster.
func installRights(t testing.TB) {
	t.Helper()
	installed.Do(func() {
		config := filepath.Join(Root(t), "config")
		files, err := filepath.Glob(filepath.Join(config, "rbac", "*.yaml"))
		if err != nil || len(files) == 0 {
			t.Fatalf("looking for the functions' roles: %v", err)
		}
		files = slices.DeleteFunc(files, func(path string) bool { return filepath.Base(path) == "kustomization.yaml" })
		files = append([]string{filepath.Join(config, "namespace", "namespace.yaml")}, files...)
		for _, parts := range [][]string{{"accounts", "accounts.yaml"}, {"accounts", "senders.yaml"}, {"accounts", "volumes.yaml"}, {"overlays", "cluster", "bindings.yaml"}} {
			files = append(files, filepath.Join(append([]string{config}, parts...)...))
		}
		args := []string{"--kubeconfig", APIPath(t), "apply", "--server-side", "--force-conflicts"}
		for _, file := range files {
			args = append(args, "-f", file)
		}
		if output, err := exec.Command(Kubectl(t), args...).CombinedOutput(); err != nil {
			t.Fatalf("installing the functions' rights: %v: %s", err, output)
		}
	})
}

// Kubectl is the local cluster's kubectl, or the machine's.
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
