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
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
	"drydock.dev/test/kit/proxy"
	"drydock.dev/test/kit/stage"
)

// standaloneNamespace is the namespace of deploy/standalone.
const standaloneNamespace = "drydock"

// TestDeployedEngineFailsOver runs deploy/standalone with the rights of its account, and deletes the replica with the
// lease during a resize. It manages the whole cluster, so no other test runs in parallel.
func TestDeployedEngineFailsOver(t *testing.T) {
	s := stage.New(t)
	s.CreateSet(stage.Workload("64Mi"))
	before := s.Data(t)
	deployEngine(t, s)
	holder := leader(t, s, "")
	s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi"})
	s.Eventually("the operation is under way", func() string {
		if status := s.Status("web"); status == nil || status.Phase == api.Planned {
			return "it is not"
		}
		return ""
	})
	if err := s.Kube.CoreV1().Pods(standaloneNamespace).Delete(context.Background(), holder, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if next := leader(t, s, holder); next == holder {
		t.Errorf("replica %s still holds the lease", next)
	}
	s.ExpectResized(t, before)
}

// deployEngine installs Drydock as a user would, and removes it at the end of the test. Nothing of it may be left then.
func deployEngine(t *testing.T, s *stage.Stage) {
	t.Helper()
	t.Cleanup(func() {
		removeDrydock(t, s)
		for _, kind := range []string{"namespace", "validatingadmissionpolicies", "mutatingadmissionpolicies", "clusterroles", "crd"} {
			if left := s.Kubectl(t, "", "get", kind, "-o", "name"); strings.Contains(left, "drydock") {
				t.Errorf("kubectl drydock uninstall left\n%s", left)
			}
		}
		s.Kubectl(t, "", "apply", "--server-side", "--force-conflicts", "--field-manager=drydock-config", "-k",
			filepath.Join(kit.Root(t), "config", "apply-v1beta1")) // the cluster of the other tests has it
	})
	userRuns(t, s, "install", "--yes", "--allow-tags", "--image", stage.Image, "--standalone-image", standaloneImage)
	userRuns(t, s, "doctor")
	awaitEngine(t, s)
}

// userRuns runs kubectl drydock as a user would, and returns its output.
func userRuns(t *testing.T, s *stage.Stage, args ...string) string {
	t.Helper()
	return programRuns(t, s, "kubectl-drydock", args...)
}

// programRuns runs a program of bin on the cluster, and returns its output.
func programRuns(t *testing.T, s *stage.Stage, name string, args ...string) string {
	t.Helper()
	output, err := runProgram(t, s, name, args...)
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, output)
	}
	t.Logf("%s %q\n%s", name, args, output)
	return output
}

// runProgram runs a program of bin on the cluster. It may fail.
func runProgram(t *testing.T, s *stage.Stage, name string, args ...string) (output string, err error) {
	t.Helper()
	program := exec.Command(filepath.Join(kit.Root(t), "bin", name), args...)
	program.Env = append(os.Environ(), "KUBECONFIG="+s.Kubeconfig)
	both, err := program.CombinedOutput()
	return string(both), err
}

// leader waits until another replica than not has the lease, and returns its pod.
func leader(t *testing.T, s *stage.Stage, not string) string {
	t.Helper()
	holder := ""
	s.Eventually("a replica holds the lease", func() string {
		lease, err := s.Kube.CoordinationV1().Leases(standaloneNamespace).Get(context.Background(), "drydock-standalone", metav1.GetOptions{})
		if err != nil || lease.Spec.HolderIdentity == nil {
			return fmt.Sprintf("none does (%v)", err)
		}
		pods, err := s.Kube.CoreV1().Pods(standaloneNamespace).List(context.Background(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		for _, pod := range pods.Items {
			if strings.HasPrefix(*lease.Spec.HolderIdentity, pod.Name) && pod.Name != not {
				holder = pod.Name
				return ""
			}
		}
		return "the holder is " + *lease.Spec.HolderIdentity
	})
	return holder
}

// drydock starts drydock-standalone for this stage. It ends with the test, or before.
func drydock(t testing.TB, s *stage.Stage, args ...string) *exec.Cmd {
	t.Helper()
	return s.StartDrydock(t, nil, args...)
}

// proxied is a stage whose process reaches the API server through a proxy.
type proxied struct {
	*stage.Stage
	*proxy.Proxy
}

func newProxy(t testing.TB, s *stage.Stage) *proxied {
	t.Helper()
	p := proxy.Start(t, s.Config)
	return &proxied{&stage.Stage{World: s.World, Kubeconfig: p.Kubeconfig}, p}
}

// quiet waits until there was no request for two seconds.
func (p *proxied) quiet() {
	p.Eventually("Drydock is at rest", func() string {
		last := time.Time{}
		for _, r := range p.Requests() {
			if r.Kind != proxy.Watch {
				last = r.At
			}
		}
		if since := time.Since(last); last.IsZero() || since < 2*time.Second {
			return "it was asking for something " + since.String() + " ago"
		}
		return ""
	})
}

// counts returns the number of requests by kind (read, write, watch) and by HTTP method.
func (p *proxied) counts() map[string]float64 {
	n := map[string]float64{}
	for _, r := range p.Requests() {
		n[string(r.Kind)]++
		if r.Kind != proxy.Watch {
			n[r.Method]++
		}
	}
	return n
}

func (p *proxied) firstWrite() time.Time {
	for _, r := range p.Requests() {
		if r.Kind == proxy.Write {
			return r.At
		}
	}
	return time.Time{}
}
