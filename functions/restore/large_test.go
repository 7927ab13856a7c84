package restore

import (
	"fmt"
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestDecisionReadsLinksOnce: of a set with hundreds of members, each look is made while members are stopped. So the links of all
// claims, Jobs and pods must not be read again for each of them. What remains for each pair of a claim and a volume is a digest of a name.
func TestDecisionReadsLinksOnce(t *testing.T) {
	allocations := func(members int, phase api.MemberPhase) float64 {
		var claims []string
		all := objects{}
		for i := range members {
			name, job := fmt.Sprintf("data-web-%d", i), build.Job(i, 1)
			claims = append(claims, name)
			all = append(all, append(append(source(name), target(name)...), job, build.Mover(job, build.Waits(), onNode))...)
			all = append(all, held(i)...)
		}
		in := given(set(build.Operation(api.Moving, build.Members(phase, claims...)), build.Replicas(int32(members))), journal(claims...), all)
		return testing.AllocsPerRun(1, func() { Decide(in) })
	}
	for _, phase := range []api.MemberPhase{api.MemberSwapping, api.MemberStarting} {
		if few, many := allocations(50, phase), allocations(100, phase); many-few > 50*1500 {
			t.Errorf("%s: each of 50 more members costs %.0f allocations", phase, (many-few)/50)
		}
	}
}
