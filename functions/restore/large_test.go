package restore

import (
	"fmt"
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestDecisionReadsLinksOnce: in a set with hundreds of members, every decision costs downtime of stopped members. So the links of all
// claims, Jobs and pods must not be read again for each member. Only one digest of a name remains for each pair of a claim and a volume.
func TestDecisionReadsLinksOnce(t *testing.T) {
	allocations := func(members int, phase api.MemberPhase) float64 {
		var claims []string
		all := objects{}
		for i := range members {
			name, job := fmt.Sprintf("data-web-%d", i), build.Job(i, 1)
			claims = append(claims, name)
			all = append(all, append(append(source(name), target(name)...), job, build.Mover(job, build.FirstPassConverged(), onNode))...)
			all = append(all, heldPodOf(i)...)
		}
		in := situation(setWith(build.Operation(api.Moving, build.Members(phase, claims...)), build.Replicas(int32(members))),
			journalOf(claims...), all)
		return testing.AllocsPerRun(1, func() { Decide(in) })
	}
	for _, phase := range []api.MemberPhase{api.MemberSwapping, api.MemberStarting} {
		if few, many := allocations(50, phase), allocations(100, phase); many-few > 50*1500 {
			t.Errorf("%s: each of 50 more members costs %.0f allocations", phase, (many-few)/50)
		}
	}
}
