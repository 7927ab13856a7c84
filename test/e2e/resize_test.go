package e2e

import (
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
)

// TestResizeKeepsEveryByte is the main job, with every part real.
func TestResizeKeepsEveryByte(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.CreateSet(workload("64Mi"))
	before, size := s.sums(t, "web-0", "web-1"), s.kibibytes(t, "web-0")
	s.drydock(t)
	s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi"})
	s.expectResized(t, before, size, api.Succeeded)
	if template := s.Set("web").Spec.VolumeClaimTemplates[0]; template.Spec.Resources.Requests.Storage().String() != "160Mi" {
		t.Errorf("the template asks for %v", template.Spec.Resources.Requests)
	}
}

// TestI6ResizeWithoutAnyEventSource switches the source off: the tick finds everything, only slower.
func TestI6ResizeWithoutAnyEventSource(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.CreateSet(workload("64Mi"))
	before, size := s.sums(t, "web-0", "web-1"), s.kibibytes(t, "web-0")
	s.drydock(t, "--no-source", "--tick", "2s")
	s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi@" + otherClass})
	s.expectResized(t, before, size, api.Succeeded)
	if is := *s.Claim("data-web-1").Spec.StorageClassName; is != otherClass {
		t.Errorf("claim data-web-1 is of class %s", is)
	}
}

// TestResizeByOrphanDeleteAndApply is how the field has done it so far: the user re-creates the set, Drydock follows.
func TestResizeByOrphanDeleteAndApply(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.CreateSet(workload("64Mi"))
	before, size := s.sums(t, "web-0", "web-1"), s.kibibytes(t, "web-0")
	s.drydock(t)
	s.DeleteSet("web", metav1.DeletePropagationOrphan)
	bigger := workload("160Mi")
	bigger.Annotations[api.ResizeAnnotation] = api.AutoRequest
	s.CreateSet(bigger)
	s.expectResized(t, before, size, api.Succeeded)
}

// TestI6EngineKilledAgainAndAgain kills the engine in every phase that it can be seen in.
func TestI6EngineKilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.CreateSet(workload("64Mi"))
	before, size := s.sums(t, "web-0", "web-1"), s.kibibytes(t, "web-0")
	s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi"})
	for _, phase := range []api.Phase{api.Copying, api.Switching, api.Starting} {
		engine := s.drydock(t, "--leader-elect=false", "--tick", "2s")
		s.Eventually("the operation is seen in phase "+string(phase), func() string {
			if status := s.Status("web"); status == nil || status.Phase != phase && !passed(status.Phase, phase) {
				return "it is not"
			}
			return ""
		})
		stop(engine, syscall.SIGKILL)
	}
	s.drydock(t, "--leader-elect=false", "--tick", "2s")
	s.expectResized(t, before, size, api.Succeeded)
}

// passed reports whether an operation in phase is is beyond phase want.
func passed(is, want api.Phase) bool {
	order := []api.Phase{api.Planned, api.Copying, api.Switching, api.Starting, api.Succeeded}
	place := map[api.Phase]int{}
	for i, p := range order {
		place[p] = i
	}
	return place[is] > place[want]
}

// TestUnfaithfulCopyIsRefusedAndNamed: a file of root's in a volume of user 1000 cannot be copied by user 1000.
func TestUnfaithfulCopyIsRefusedAndNamed(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.CreateSet(withRootsFile(workload("64Mi")))
	before := s.sums(t, "web-0", "web-1")
	s.drydock(t)
	s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi"})
	status := s.awaitEnd(t)
	if status.Phase != api.Failed || status.Reason != api.CopyFailed || !strings.Contains(status.Message, "roots-file") {
		t.Errorf("%s %s: %q, want a failure that names the file", status.Phase, status.Reason, status.Message)
	}
	s.awaitReady(t)
	if diff := cmp.Diff(before, s.sums(t, "web-0", "web-1")); diff != "" {
		t.Errorf("the data changed: %s", diff)
	}
	s.expectNothingLeft(t)
}

// TestRootMoverCopiesEveryOwner: the same file with root movers allowed in the namespace.
func TestRootMoverCopiesEveryOwner(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.LabelNamespace(api.RootMoverLabel, api.AllowValue)
	s.CreateSet(withRootsFile(workload("64Mi")))
	before, size := s.sums(t, "web-0", "web-1"), s.kibibytes(t, "web-0")
	s.drydock(t)
	s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi"})
	s.expectResized(t, before, size, api.Succeeded)
}

func withRootsFile(set *appsv1.StatefulSet) *appsv1.StatefulSet {
	set.Spec.Template.Spec.InitContainers = []corev1.Container{{
		Name: "root", Image: workloadImage, SecurityContext: &corev1.SecurityContext{RunAsUser: ptr.To[int64](0)},
		Command:      []string{"sh", "-c", "[ -e /data/roots-file ] || { echo root > /data/roots-file; chmod 644 /data/roots-file; }"},
		VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
	}}
	return set
}

// expectResized waits for the end and checks what has to be true then.
func (s *stage) expectResized(t *testing.T, before []string, size int, phase api.Phase) {
	t.Helper()
	status := s.awaitEnd(t)
	if status.Phase != phase {
		t.Fatalf("phase %s: %s: %s", status.Phase, status.Reason, status.Message)
	}
	s.awaitReady(t)
	if diff := cmp.Diff(before, s.sums(t, "web-0", "web-1")); diff != "" {
		t.Errorf("the data changed: %s", diff)
	}
	if now := s.kibibytes(t, "web-1"); now < 2*size {
		t.Errorf("the volume has %d KiB, before %d", now, size)
	}
	s.expectNothingLeft(t)
	kept := 0
	for _, v := range s.Volumes() {
		if v.Annotations[api.RetainedUntilAnnotation] != "" && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain {
			kept++
		}
	}
	if kept != 2 {
		t.Errorf("%d old volumes are kept, want 2", kept)
	}
	t.Logf("stopped %s, quiet %s, ready %s", status.Stopped, status.Quiesced, status.Ready)
}
