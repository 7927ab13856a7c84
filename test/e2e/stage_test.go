// Package e2e resizes volumes on a real node: real containers, real file systems, and drydock-standalone as a process of
// its own. It needs the node of `make cluster`, or a cluster of one's own by KUBECONFIG, and the images of `make images`.
package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

const (
	moverImage    = "dev.local/drydock:dev"
	workloadImage = "dev.local/busybox:1"
	class         = "fixed"
	otherClass    = "fixed-2"
)

// stage is a namespace on a real cluster.
type stage struct {
	*kit.World
	kubeconfig string
}

func newStage(t testing.TB) *stage {
	t.Helper()
	path := os.Getenv(clientcmd.RecommendedConfigPathEnvVar)
	if path == "" {
		path = filepath.Join(kit.Root(t), ".cluster", "kubeconfig")
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatalf("reading kubeconfig %s: %v; start a node with: make cluster", path, err)
	}
	return &stage{World: kit.NewRealWorld(t, config), kubeconfig: path}
}

// drydock starts the standalone engine for this stage. It is ended with the test, if not before.
func (s *stage) drydock(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	log := &lockedBuffer{}
	binary := filepath.Join(kit.Root(t), "bin", "drydock-standalone")
	command := exec.Command(binary, append([]string{"--namespace", s.Namespace, "--lease-namespace", s.Namespace,
		"--listen", "127.0.0.1:0", "--broker", ""}, args...)...)
	command.Env = append(os.Environ(), "KUBECONFIG="+s.kubeconfig, "DRYDOCK_IMAGE="+moverImage)
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		t.Fatalf("starting %s: %v; build it with: make build", binary, err)
	}
	t.Cleanup(func() {
		stop(command, syscall.SIGTERM)
		if t.Failed() {
			t.Logf("log of drydock-standalone:\n%s", log.tail(20000))
		}
	})
	return command
}

func stop(command *exec.Cmd, signal syscall.Signal) {
	if command.ProcessState == nil {
		_ = command.Process.Signal(signal)
		_ = command.Wait()
	}
}

// exec runs a script in a pod.
func (s *stage) exec(t testing.TB, pod, script string) string {
	t.Helper()
	return strings.TrimSpace(s.kubectl(t, "", "-n", s.Namespace, "exec", pod, "--", "sh", "-c", script))
}

// kubectl runs it with the input and returns what it prints.
func (s *stage) kubectl(t testing.TB, input string, args ...string) string {
	t.Helper()
	command := exec.Command(kit.Kubectl(t), append([]string{"--kubeconfig", s.kubeconfig}, args...)...)
	var stdout, stderr bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(input), &stdout, &stderr
	if err := command.Run(); err != nil {
		t.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String()
}

// fill writes big and small files, links and a sparse file, once, and says so.
const fill = `cd /data && if [ ! -e filled ]; then
  for i in 1 2 3; do dd if=/dev/urandom of=big$i bs=1M count=12 2>/dev/null; done
  mkdir -p small/a small/b && i=0 && while [ $i -lt 1000 ]; do echo "row $i $HOSTNAME" > small/a/$i; i=$((i+1)); done
  ln small/a/1 small/b/hard && ln -s ../a/2 small/b/soft && dd if=/dev/zero of=sparse bs=1 count=1 seek=8M 2>/dev/null
  chmod 640 small/a/3 && mkdir empty && touch -d '2020-02-02 02:02:02' small/a/4 && sync && touch filled
fi; trap exit TERM; while :; do sleep 1 & wait; done`

// sum digests names, kinds, modes, owners, times, numbers of links, link targets and contents. The root folder itself is
// the kubelet's.
const sum = `cd /data && { find . -path ./lost+found -prune -o -print | grep -v '^[.]$' | sort | while read -r f; do stat -c '%N %F %a %u %g %Y %h' "$f"; done
 find . -path ./lost+found -prune -o -type f -print | sort | while read -r f; do sha256sum "$f"; done; } | sha256sum`

// workload is a set whose pods fill their volume and then keep still.
func workload(size string) *appsv1.StatefulSet {
	set := kit.WorldSet("web", 2, size, "data")
	set.Spec.VolumeClaimTemplates[0].Spec.StorageClassName = ptr.To(class)
	pod := &set.Spec.Template.Spec
	pod.TerminationGracePeriodSeconds = ptr.To[int64](10)
	pod.SecurityContext.RunAsGroup = ptr.To[int64](1000)
	// Or the kubelet itself changes groups and modes at every start.
	pod.SecurityContext.FSGroupChangePolicy = ptr.To(corev1.FSGroupChangeOnRootMismatch)
	pod.Containers[0] = corev1.Container{
		Name: "db", Image: workloadImage, Command: []string{"sh", "-c", fill},
		VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
		ReadinessProbe: &corev1.Probe{PeriodSeconds: 1,
			ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"test", "-e", "/data/filled"}}}},
	}
	return set
}

func (s *stage) sums(t testing.TB, pods ...string) []string {
	t.Helper()
	var sums []string
	for _, pod := range pods {
		sums = append(sums, s.exec(t, pod, sum))
	}
	return sums
}

// awaitEnd waits for the end of an operation that drydock-standalone carries out.
func (s *stage) awaitEnd(t testing.TB) *api.Status {
	t.Helper()
	var status *api.Status
	s.Eventually("the operation ends", func() string {
		status = s.Status("web")
		if status == nil || !status.Phase.Terminal() {
			return fmt.Sprintf("status %+v", status)
		}
		return ""
	})
	return status
}

func (s *stage) awaitReady(t testing.TB) {
	t.Helper()
	s.Eventually("the set is ready", func() string {
		if set := s.Set("web"); set == nil || set.Status.ReadyReplicas != 2 || *set.Spec.Replicas != 2 {
			return "it is not"
		}
		return ""
	})
}

func (s *stage) expectNothingLeft(t testing.TB) {
	t.Helper()
	s.Eventually("nothing is left behind (I9)", func() string { return strings.Join(s.Leftovers(), ", ") })
}

// kibibytes is the size of the volume as df sees it in the pod.
func (s *stage) kibibytes(t testing.TB, pod string) int {
	t.Helper()
	n := 0
	if _, err := fmt.Sscan(s.exec(t, pod, "df -Pk /data | awk 'NR==2{print $2}'"), &n); err != nil {
		t.Fatalf("reading df: %v", err)
	}
	return n
}
