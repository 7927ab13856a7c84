package stage

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
)

// AwaitEnd waits for the end of an operation on set web, and returns its record.
func (s *Stage) AwaitEnd(t testing.TB) *api.Resize {
	t.Helper()
	var status *api.Resize
	s.Eventually("the operation ends", func() string {
		status = s.Status("web")
		if status == nil || !status.Phase.Terminal() {
			return fmt.Sprintf("status %+v", status)
		}
		return ""
	})
	return status
}

// AwaitPhase waits until the operation on set web is in the phase or beyond it. An operation that has ended is too late for what the test
// does next, so the wait fails.
func (s *Stage) AwaitPhase(t testing.TB, phase api.Phase) {
	t.Helper()
	phases := []api.Phase{api.Planned, api.Moving, api.Finishing}
	s.Eventually("the operation is seen in phase "+string(phase), func() string {
		status := s.Status("web")
		if status == nil || status.Phase.Terminal() || slices.Index(phases, status.Phase) < slices.Index(phases, phase) {
			return fmt.Sprintf("status %+v", status)
		}
		return ""
	})
}

// memberPhases are the phases of a member in their order.
var memberPhases = []api.MemberPhase{api.MemberPending, api.MemberCopying, api.MemberWaiting, api.MemberStopping, api.MemberFinalPass,
	api.MemberSwapping, api.MemberStarting, api.MemberMoved}

// AwaitMember waits until a member of set web is in the phase or beyond it. It fails like AwaitPhase if the operation has ended.
func (s *Stage) AwaitMember(t testing.TB, phase api.MemberPhase) {
	t.Helper()
	want := slices.Index(memberPhases, phase)
	s.Eventually("a member is seen in phase "+string(phase), func() string {
		status := s.Status("web")
		if status != nil && !status.Phase.Terminal() && slices.ContainsFunc(status.Members,
			func(m api.Member) bool { return slices.Index(memberPhases, m.Phase) >= want }) {
			return ""
		}
		return fmt.Sprintf("status %+v", status)
	})
}

// AwaitReady waits until both replicas are ready.
func (s *Stage) AwaitReady(t testing.TB) {
	t.Helper()
	s.Eventually("the set is ready", func() string {
		if set := s.Set("web"); set == nil || set.Status.ReadyReplicas != 2 || *set.Spec.Replicas != 2 {
			return "it is not"
		}
		return ""
	})
}

// ExpectNothingLeft waits until only the record and the old volumes remain of the operation.
func (s *Stage) ExpectNothingLeft(t testing.TB) {
	t.Helper()
	s.Eventually("nothing is left behind (I9)", func() string { return strings.Join(s.Leftovers(), ", ") })
}

// ExpectResized waits for the end of a resize. It checks that the data is unchanged on larger volumes, that both old volumes are retained,
// and that nothing else is left.
func (s *Stage) ExpectResized(t testing.TB, before Data) *api.Resize {
	t.Helper()
	status := s.AwaitEnd(t)
	if status.Phase != api.Succeeded {
		t.Fatalf("phase %s: %s: %s", status.Phase, status.Reason, status.Message)
	}
	s.AwaitReady(t)
	after := s.Data(t)
	if diff := cmp.Diff(before.Sums, after.Sums); diff != "" {
		t.Errorf("the data changed: %s", diff)
	}
	if after.Kibibytes < 2*before.Kibibytes {
		t.Errorf("the volume has %d KiB, before %d", after.Kibibytes, before.Kibibytes)
	}
	s.ExpectNothingLeft(t)
	if kept := s.keptVolumes(); kept != 2 {
		t.Errorf("%d old volumes are kept, want 2", kept)
	}
	for _, m := range status.Members {
		t.Logf("member %d: held %s, stopped %s, released %s, ready %s", m.Ordinal, m.HeldAt, m.StoppedAt, m.ReleasedAt, m.ReadyAt)
	}
	return status
}

func (s *Stage) keptVolumes() int {
	kept := 0
	for _, v := range s.Volumes() {
		if v.Annotations[api.RetainedUntilAnnotation] != "" &&
			v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain {
			kept++
		}
	}
	return kept
}

// Resize requests a resize, waits for its success, and returns the time that it took.
func (s *Stage) Resize(t testing.TB, request string) time.Duration {
	t.Helper()
	start := time.Now()
	s.Annotate("web", map[string]string{api.ResizeAnnotation: request})
	s.Eventually(request+" is done", func() string {
		status := s.Status("web")
		if status == nil || status.Request != request || !status.Phase.Terminal() {
			return fmt.Sprintf("status %+v", status)
		}
		if status.Phase != api.Succeeded {
			t.Fatalf("phase %s: %s: %s", status.Phase, status.Reason, status.Message)
		}
		return ""
	})
	return time.Since(start)
}
