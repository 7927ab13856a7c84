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

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	GrowingClass  = "expandable"
	CloudClass    = "csi"         // attached and detached, grows under the running pod, has attributes that can be changed
	OfflineClass  = "csi-offline" // grows only while it is detached
	SlowClass     = "csi-slow"    // attaching takes ten seconds, and so does detaching
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

// cluster is the cluster of $KUBECONFIG, or the local node.
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

// Kubectl runs it with the input and returns its output.
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

// Start runs a script in a new pod, and waits until it runs. It ends with the test, or when it is told to.
func (s *Stage) Start(t testing.TB, name, script string) (stop func()) {
	t.Helper()
	return s.StartImage(t, WorkloadImage, name, script)
}

// StartImage is Start with another image that has a shell.
func (s *Stage) StartImage(t testing.TB, image, name, script string) (stop func()) {
	t.Helper()
	ctx, zero := context.Background(), int64(0)
	pods := s.Kube.CoreV1().Pods(s.Namespace)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &zero,
		Containers: []corev1.Container{{Name: "sh", Image: image, Command: []string{"sh", "-c", script}}}}}
	if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatalf("starting pod %s: %v", name, err)
	}
	stop = func() { _ = pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &zero}) }
	t.Cleanup(stop)
	s.Eventually(name+" runs", func() string {
		now, err := pods.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if now.Status.Phase != corev1.PodRunning {
			return string(now.Status.Phase)
		}
		return ""
	})
	return stop
}
