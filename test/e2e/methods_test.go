//go:build cluster

package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/stage"
)

// writer appends the next number to a file every 100 ms. After a restart it continues with the next number.
const writer = `cd /data && touch log && i=$(tail -n 1 log) && : ${i:=0} && touch filled
trap exit TERM; while :; do i=$((i+1)); echo $i >> log; sync log 2>/dev/null; sleep 0.1 & wait; done`

// writing makes the set's pods write all the time.
func writing(set *appsv1.StatefulSet) *appsv1.StatefulSet {
	stage.RunScript(&set.Spec.Template.Spec.Containers[0], "/data", writer)
	return set
}

// expectEveryLine checks that each line exists once, and returns their number.
func expectEveryLine(t *testing.T, s *stage.Stage, pod string) int {
	t.Helper()
	lines := strings.Fields(s.Exec(t, pod, "cat /data/log"))
	for i, line := range lines {
		if line != strconv.Itoa(i+1) {
			t.Fatalf("line %d of %s is %q", i+1, pod, line)
		}
	}
	return len(lines)
}

// podsOf returns the UIDs and restarts of the set's pods.
func podsOf(t *testing.T, s *stage.Stage) string {
	t.Helper()
	pods, err := s.Kube.CoreV1().Pods(s.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil {
		t.Fatal(err)
	}
	var text []string
	for _, p := range pods.Items {
		restarts := int32(0)
		for _, c := range p.Status.ContainerStatuses {
			restarts += c.RestartCount
		}
		text = append(text, fmt.Sprintf("%s %s restarts=%d", p.Name, p.UID, restarts))
	}
	return strings.Join(text, ", ")
}

// TestExpandWithoutDowntime: the pods write every 100 ms without an interruption, and their file system is larger
// afterwards.
// Invariants: I1.
func TestExpandWithoutDowntime(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	set := writing(stage.Workload("320Mi"))
	set.Spec.VolumeClaimTemplates[0].Spec.StorageClassName = ptr.To(stage.GrowingClass)
	s.CreateSet(set)
	s.AwaitReady(t)
	before, lines := podsOf(t, s), expectEveryLine(t, s, "web-0")
	size := s.Kibibytes(t)
	drydock(t, s)
	s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=640Mi"})
	status := s.AwaitEnd(t)
	if status.Phase != api.Succeeded || len(status.Expansions) != 2 || len(status.Members) > 0 {
		t.Fatalf("%s, %d claims grew, %d members moved: %s", status.Phase, len(status.Expansions), len(status.Members), status.Message)
	}
	if after := podsOf(t, s); after != before {
		t.Errorf("pods: %s, were %s", after, before)
	}
	if now := s.Kibibytes(t); now < size*3/2 {
		t.Errorf("the file system has %d KiB, had %d", now, size)
	}
	for _, pod := range []string{"web-0", "web-1"} {
		if n := expectEveryLine(t, s, pod); n <= lines/2 {
			t.Errorf("%s has written %d lines, and %d before", pod, n, lines)
		}
	}
	if template := s.Set("web").Spec.VolumeClaimTemplates[0]; template.Spec.Resources.Requests.Storage().String() != "640Mi" {
		t.Errorf("the template asks for %v", template.Spec.Resources.Requests)
	}
	s.ExpectNothingLeft(t)
}

// TestFirstPassOfWritingSetKeepsEveryLine: the copy has the lines that were written during the first passes and until
// the stop.
// Invariants: I1.
func TestFirstPassOfWritingSetKeepsEveryLine(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateSet(writing(stage.Workload("64Mi")))
	s.AwaitReady(t)
	for _, pod := range []string{"web-0", "web-1"} { // the final pass has something to copy
		s.Exec(t, pod, "dd if=/dev/urandom of=/data/big bs=1M count=24 2>/dev/null")
	}
	sums := s.Exec(t, "web-0", "sha256sum < /data/big") + s.Exec(t, "web-1", "sha256sum < /data/big")
	drydock(t, s)
	s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi"})
	status := s.AwaitEnd(t)
	if status.Phase != api.Succeeded {
		t.Fatalf("%s: %s", status.Phase, status.Message)
	}
	for _, m := range status.Members {
		if m.Forecast == 0 {
			t.Errorf("member %d had no first pass", m.Ordinal)
		}
	}
	s.AwaitReady(t)
	for _, pod := range []string{"web-0", "web-1"} {
		expectEveryLine(t, s, pod)
	}
	if now := s.Exec(t, "web-0", "sha256sum < /data/big") + s.Exec(t, "web-1", "sha256sum < /data/big"); now != sums {
		t.Error("the data changed")
	}
	s.ExpectNothingLeft(t)
}

// TestShrink: the data and the margin fit. If they do not, that is found before a member stops.
// Invariants: I1, I8.
func TestShrink(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateSet(stage.Workload("160Mi"))
	s.AwaitReady(t)
	before := s.Data(t)
	drydock(t, s)
	s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=40Mi"}) // there are 36 MiB
	status := s.AwaitEnd(t)
	if status.Phase != api.Failed || status.Reason != api.CopyFailed || anyHeld(status) || !strings.Contains(status.Message, "NoSpace") {
		t.Fatalf("%s %s, held %v: %s", status.Phase, status.Reason, anyHeld(status), status.Message)
	}
	t.Log(status.Message)
	s.ExpectNothingLeft(t)
	s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=80Mi"})
	s.Eventually("the claims have shrunk", func() string {
		status = s.Status("web")
		if status == nil || status.Request != "data=80Mi" || !status.Phase.Terminal() {
			return fmt.Sprintf("%+v", status)
		}
		return ""
	})
	if status.Phase != api.Succeeded {
		t.Fatalf("%s: %s", status.Phase, status.Message)
	}
	s.AwaitReady(t)
	after := s.Data(t)
	if diff := cmp.Diff(before.Sums, after.Sums); diff != "" {
		t.Errorf("the data changed: %s", diff)
	}
	if after.Kibibytes > 80<<10 {
		t.Errorf("the volume has %d KiB", after.Kibibytes)
	}
	s.ExpectNothingLeft(t)
}
