//go:build cluster

package knative

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/test/kit"
	"drydock.dev/test/kit/stage"
)

const (
	// drydock is the namespace of config/.
	drydock = "drydock"
	// workloads is the namespace of the sets. It stays, because the source's adapter is deployed again when a watched
	// namespace appears or disappears.
	workloads = "drydock-e2e"
	// serviceLabel is Knative Serving's label on a function's pods.
	serviceLabel = "serving.knative.dev/service"
)

// patience is longer than an operation whose every step waits for the tick.
const patience = 8 * time.Minute

// functions are the deployed functions.
var functions = []string{"backup", "cleanup-pod", "dead-letter", "detect-resize", "grow-volumes", "idle-timeout", "pause-owner",
	"restore", "scale", "sift", "status-page", "wake-gateway"}

// listeners returns the functions that receive events: all but the wake gateway and the status page.
func listeners() []string {
	return slices.DeleteFunc(slices.Clone(functions), func(name string) bool {
		return name == "wake-gateway" || name == "status-page"
	})
}

// knative is a stage with Drydock on Knative.
type knative struct {
	*stage.Stage
	functions *observer
}

// setUp installs Drydock once, and returns an empty namespace with an observer of the functions. A denied verb of a
// function fails the test (I10).
func setUp(t testing.TB) *knative {
	t.Helper()
	s := stage.In(t, workloads, map[string]string{"drydock.dev/watch": "true"})
	s.Patience = patience
	k := &knative{Stage: s}
	installed.Do(func() { k.install(t, "config") })
	k.functions = observe(t, s.Kube)
	return k
}

var installed sync.Once

func (k *knative) install(t testing.TB, config string) {
	t.Helper()
	start := time.Now()
	k.make(t, "configure", "CONFIG="+config)
	k.make(t, "deploy", "IMAGE="+image())
	k.Kubectl(t, "", "-n", drydock, "wait", "--for=condition=Ready", "--timeout=180s",
		"broker,inmemorychannel,apiserversource,pingsource,trigger", "--all")
	t.Logf("%s and all functions installed after %s", config, time.Since(start).Round(time.Second))
}

// image returns the functions' image.
func image() string { return cmp.Or(os.Getenv("DRYDOCK_TEST_IMAGE"), stage.Image) }

// make runs a target of the Makefile.
func (k *knative) make(t testing.TB, args ...string) {
	t.Helper()
	command := exec.CommandContext(context.Background(), "make", append([]string{"--no-print-directory", "-C", kit.Root(t)}, args...)...)
	command.Env = append(os.Environ(), "KUBECONFIG="+k.Kubeconfig, "KUBECTL="+kit.Kubectl(t))
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("make %v: %v\n%s", args, err, output)
	}
}

// plugin runs kubectl-drydock in the workload's namespace.
func (k *knative) plugin(t testing.TB, args ...string) string {
	t.Helper()
	command := exec.CommandContext(context.Background(), filepath.Join(kit.Root(t), "bin", "kubectl-drydock"),
		append(args, "-n", k.Namespace)...)
	command.Env = append(os.Environ(), "KUBECONFIG="+k.Kubeconfig)
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl drydock %v: %v\n%s", args, err, output)
	}
	t.Logf("kubectl drydock %v\n%s", args, output)
	return string(output)
}

// awaitRest waits until every function is at zero. A pod that ends does not count: it gets no new request, but Knative's queue-proxy lets
// it drain for another half a minute.
func (k *knative) awaitRest(t testing.TB) {
	t.Helper()
	k.Eventually("every function is at zero", func() string {
		pods, err := k.Kube.CoreV1().Pods(drydock).List(context.Background(), metav1.ListOptions{LabelSelector: serviceLabel})
		if err != nil {
			return err.Error()
		}
		running := slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil })
		if n := len(running); n > 0 {
			return fmt.Sprintf("%d pods, one is %s", n, running[0].Name)
		}
		return ""
	})
}

// endPods kills every pod with the label at once.
func (k *knative) endPods(t testing.TB, namespace, selector string) {
	t.Helper()
	pods := k.Kube.CoreV1().Pods(namespace)
	list, err := pods.List(context.Background(), metav1.ListOptions{LabelSelector: selector})
	if err != nil || len(list.Items) == 0 {
		t.Fatalf("looking for pods %s in %s: %d found, %v", selector, namespace, len(list.Items), err)
	}
	for _, pod := range list.Items {
		now := int64(0)
		if err := pods.Delete(context.Background(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
			t.Fatalf("deleting pod %s: %v", pod.Name, err)
		}
	}
}
