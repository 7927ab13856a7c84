//go:build cluster

package e2e

import (
	"fmt"
	"slices"
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/stage"
)

// memberPhases are the phases of a member in their order.
var memberPhases = []api.MemberPhase{api.MemberPending, api.MemberCopying, api.MemberWaiting, api.MemberStopping, api.MemberFinalPass,
	api.MemberSwapping,
	api.MemberStarting, api.MemberMoved}

// awaitMember waits until a member of the workload is in the phase or beyond it.
func awaitMember(t *testing.T, s *stage.Stage, phase api.MemberPhase) {
	t.Helper()
	want := slices.Index(memberPhases, phase)
	s.Eventually("a member is seen in phase "+string(phase), func() string {
		status := s.Status("web")
		if status != nil && slices.ContainsFunc(status.Members,
			func(m api.Member) bool { return slices.Index(memberPhases, m.Phase) >= want }) {
			return ""
		}
		return fmt.Sprintf("status %+v", status)
	})
}

// anyHeld reports whether a member was stopped.
func anyHeld(status *api.Resize) bool {
	return slices.ContainsFunc(status.Members, func(m api.Member) bool { return m.HeldAt != nil })
}
