package kit

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

var installed sync.Once

// installRights applies the accounts and roles that config/ and deploy/ ship.
func installRights(t testing.TB) {
	t.Helper()
	installed.Do(func() {
		root := Root(t)
		accounts, err := filepath.Glob(filepath.Join(root, "deploy", "*", "account.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		args := []string{"--kubeconfig", APIPath(t), "apply", "--server-side", "--force-conflicts",
			"-f", filepath.Join(root, "config", "namespace", "namespace.yaml")}
		for _, role := range []string{"backup", "dead-letter", "detect-resize", "pause-owner", "restore", "sift"} {
			args = append(args, "-f", filepath.Join(root, "config", "rbac", role+".yaml"))
		}
		for _, account := range accounts {
			args = append(args, "-f", account)
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
