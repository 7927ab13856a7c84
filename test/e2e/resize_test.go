//go:build cluster

package e2e

import (
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/stage"
)

// TestResizeKeepsEveryByte is the main case, with every part real.
// Invariants: I1.
func TestResizeKeepsEveryByte(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateSet(stage.Workload("64Mi"))
	before := s.Data(t)
	drydock(t, s)
	s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi"})
	pods := podsOf(t, s)
	s.ExpectResized(t, before)
	if after := podsOf(t, s); after == pods || strings.Count(after, " restarts=0") != 2 {
		t.Errorf("the pods are %s, were %s; want each replaced once", after, pods)
	}
	if template := s.Set("web").Spec.VolumeClaimTemplates[0]; template.Spec.Resources.Requests.Storage().String() != "160Mi" {
		t.Errorf("the template asks for %v", template.Spec.Resources.Requests)
	}
}

// TestResizeWithoutEventSource: the tick finds everything, but later.
// Invariants: I6.
func TestResizeWithoutEventSource(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateSet(stage.Workload("64Mi"))
	before := s.Data(t)
	drydock(t, s, "--no-source", "--tick", "2s")
	s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi@" + stage.OtherClass})
	s.ExpectResized(t, before)
	if is := *s.Claim("data-web-1").Spec.StorageClassName; is != stage.OtherClass {
		t.Errorf("claim data-web-1 is of class %s", is)
	}
}

// TestResizeByOrphanDeleteAndApply: the user creates the set again, as usual without Drydock, and Drydock follows.
// Invariants: I1.
func TestResizeByOrphanDeleteAndApply(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateSet(stage.Workload("64Mi"))
	before := s.Data(t)
	drydock(t, s)
	s.DeleteSet("web", metav1.DeletePropagationOrphan)
	bigger := stage.Workload("160Mi")
	bigger.Annotations[api.ResizeAnnotation] = api.AutoRequest
	s.CreateSet(bigger)
	s.ExpectResized(t, before)
}

// TestEngineKilledAgainAndAgain kills the engine in every observable phase of a member.
// Invariants: I6.
func TestEngineKilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateSet(stage.Workload("64Mi"))
	before := s.Data(t)
	s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi"})
	for _, phase := range []api.MemberPhase{api.MemberCopying, api.MemberStopping, api.MemberFinalPass, api.MemberSwapping,
		api.MemberStarting} {
		engine := drydock(t, s, "--leader-elect=false", "--tick", "2s")
		s.AwaitMember(t, phase)
		stage.Stop(engine, syscall.SIGKILL)
		if status := s.Status("web"); status.Phase.Terminal() {
			t.Fatalf("the operation ended as %s before the engine was killed: %s", status.Phase, status.Message)
		}
	}
	drydock(t, s, "--leader-elect=false", "--tick", "2s")
	s.ExpectResized(t, before)
}

// TestUnfaithfulCopyIsRefusedAndNamed: a mover with user 1000 cannot copy a file of root in the volume.
// Invariants: I8.
func TestUnfaithfulCopyIsRefusedAndNamed(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateSet(stage.WithFileOfRoot(stage.Workload("64Mi")))
	before := s.Data(t)
	drydock(t, s)
	s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi"})
	status := s.AwaitEnd(t)
	if status.Phase != api.Failed || status.Reason != api.CopyFailed || !strings.Contains(status.Message, "roots-file") {
		t.Errorf("%s %s: %q, want a failure that names the file", status.Phase, status.Reason, status.Message)
	}
	if anyHeld(status) || !strings.Contains(status.Message, api.RootMoverLabel) {
		t.Errorf("held %v: %s; want it to be found before a member is stopped, and told what allows it", anyHeld(status), status.Message)
	}
	s.AwaitReady(t)
	if diff := cmp.Diff(before, s.Data(t)); diff != "" {
		t.Errorf("the data changed: %s", diff)
	}
	s.ExpectNothingLeft(t)
}

// TestRootMoverCopiesEveryOwner: the namespace allows root movers, so the same file is copied.
// Invariants: I1.
func TestRootMoverCopiesEveryOwner(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.LabelNamespace(api.RootMoverLabel, api.AllowValue)
	s.CreateSet(stage.WithFileOfRoot(stage.Workload("64Mi")))
	before := s.Data(t)
	drydock(t, s)
	s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=160Mi"})
	s.ExpectResized(t, before)
}
