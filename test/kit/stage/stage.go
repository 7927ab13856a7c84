// Package stage provides a namespace on a cluster with real machines. Its workload has known data, so that tests notice a byte that a
// resize has changed.
package stage

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/remotecommand"

	"drydock.dev/test/kit"
)

// Images and StorageClasses of `make images` and `make cluster`.
const (
	Image         = "dev.local/drydock:dev"
	WorkloadImage = "dev.local/busybox:1"
	Class         = "fixed"
	OtherClass    = "fixed-2"
	DirectClass   = "direct" // mounts its device for each pod: no read-only mount beside a writable one
	OnceClass     = "once"   // allows one pod at a time
	GrowingClass  = "expandable"
	CloudClass    = "csi"         // attaches and detaches, expands online, has attributes that can be changed
	OfflineClass  = "csi-offline" // expands only while detached
	SlowClass     = "csi-slow"    // attaching and detaching take ten seconds each
	LimitClass    = "csi-limit"   // two of its volumes can be attached, which the scheduler does not know
)

// Stage is a namespace on a real cluster.
type Stage struct {
	*kit.World
	Kubeconfig string
}

// New creates a namespace that ends with the test.
func New(t testing.TB) *Stage {
	t.Helper()
	path, config := cluster(t)
	return &Stage{World: kit.NewRealWorld(t, config), Kubeconfig: path}
}

// In uses a permanent namespace, and creates it if necessary. Its StatefulSets end with the test.
func In(t testing.TB, namespace string, labels map[string]string) *Stage {
	t.Helper()
	path, config := cluster(t)
	return &Stage{World: kit.NewWorldIn(t, config, namespace, labels), Kubeconfig: path}
}

// cluster returns the cluster of $KUBECONFIG, or else the local node.
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

// Exec runs a script in a pod, and returns its output.
func (s *Stage) Exec(t testing.TB, pod, script string) string {
	t.Helper()
	output, err := s.TryExec(pod, script)
	if err != nil {
		t.Fatalf("running %q in pod %s: %v: %s", script, pod, err, output)
	}
	return strings.TrimSpace(output)
}

// TryExec is Exec for a script that may fail. Its errors are part of the output then. The start of kubectl would cost a third of a second
// of a core.
func (s *Stage) TryExec(pod, script string) (string, error) {
	call := s.Kube.CoreV1().RESTClient().Get().Resource("pods").Namespace(s.Namespace).Name(pod).SubResource("exec").VersionedParams(
		&corev1.PodExecOptions{Command: []string{"sh", "-c", script}, Stdout: true, Stderr: true}, scheme.ParameterCodec)
	executor, err := remotecommand.NewWebSocketExecutor(s.Config, http.MethodGet, call.URL().String())
	if err != nil {
		return "", err
	}
	var stdout, stderr bytes.Buffer
	err = executor.StreamWithContext(context.Background(), remotecommand.StreamOptions{Stdout: &stdout, Stderr: &stderr})
	if err != nil {
		return stdout.String() + stderr.String(), err
	}
	return stdout.String(), nil
}

// Terminate sends the stop signal to the first process of a pod. It doesn't tell whether that has worked: the kernel may end the shell that
// sends it together with the container, before its answer is out.
func (s *Stage) Terminate(pod string) {
	_, _ = s.TryExec(pod, "kill 1")
}

// Kubectl runs kubectl with the input and returns its output.
func (s *Stage) Kubectl(t testing.TB, input string, args ...string) string {
	t.Helper()
	output, err := s.TryKubectl(t, input, args...)
	if err != "" {
		t.Fatal(err)
	}
	return output
}

// TryKubectl is Kubectl for a command that may fail. The second result is the error.
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

// Start runs a script in a new pod, and waits until it runs. The pod ends with the test, or by stop.
func (s *Stage) Start(t testing.TB, name, script string) (stop func()) {
	t.Helper()
	return s.StartImage(t, WorkloadImage, name, script)
}

// StartImage is Start with another image. The image needs a shell.
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
