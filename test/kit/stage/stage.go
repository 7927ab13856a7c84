// Package stage is a namespace on a cluster with real machines, and a workload in it whose every byte can be told: what
// tests need to see that a resize keeps the data.
package stage

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"drydock.dev/test/kit"
)

// What `make cluster` and `make images` provide.
const (
	Image         = "dev.local/drydock:dev"
	WorkloadImage = "dev.local/busybox:1"
	Class         = "fixed"
	OtherClass    = "fixed-2"
)

// Stage is a namespace on a real cluster.
type Stage struct {
	*kit.World
	Kubeconfig string
}

// New makes a namespace that ends with the test.
func New(t testing.TB) *Stage {
	t.Helper()
	path, config := cluster(t)
	return &Stage{World: kit.NewRealWorld(t, config), Kubeconfig: path}
}

// In uses a namespace that stays, and makes it where it does not exist. Its StatefulSets end with the test.
func In(t testing.TB, namespace string, labels map[string]string) *Stage {
	t.Helper()
	path, config := cluster(t)
	return &Stage{World: kit.NewWorldIn(t, config, namespace, labels), Kubeconfig: path}
}

// cluster is the one that $KUBECONFIG names, or the local node.
func cluster(t testing.TB) (string, *rest.Config) {
	t.Helper()
	path := os.Getenv(clientcmd.RecommendedConfigPathEnvVar)
	if path == "" {
		path = filepath.Join(kit.Root(t), ".cluster", "kubeconfig")
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatalf("reading kubeconfig %s: %v; start a node with: make cluster", path, err)
	}
	return path, config
}

// Exec runs a script in a pod.
func (s *Stage) Exec(t testing.TB, pod, script string) string {
	t.Helper()
	return strings.TrimSpace(s.Kubectl(t, "", "-n", s.Namespace, "exec", pod, "--", "sh", "-c", script))
}

// Kubectl runs it with the input and returns what it prints.
func (s *Stage) Kubectl(t testing.TB, input string, args ...string) string {
	t.Helper()
	output, err := s.TryKubectl(t, input, args...)
	if err != "" {
		t.Fatal(err)
	}
	return output
}

// TryKubectl is Kubectl for what may fail: the second result says how.
func (s *Stage) TryKubectl(t testing.TB, input string, args ...string) (output, problem string) {
	t.Helper()
	command := exec.CommandContext(context.Background(), kit.Kubectl(t), append([]string{"--kubeconfig", s.Kubeconfig}, args...)...)
	var stdout, stderr bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(input), &stdout, &stderr
	if err := command.Run(); err != nil {
		return stdout.String(), "kubectl " + strings.Join(args, " ") + ": " + err.Error() + ": " + stderr.String()
	}
	return stdout.String(), ""
}
