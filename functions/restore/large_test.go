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
	const digest = 5.0
	linked := target("data-web-0")[0]
	read := testing.AllocsPerRun(1, func() {
		if link, err := api.LoadLink(linked); err != nil || link == nil {
			t.Errorf("%v, %v", link, err)
		}
	})
	for _, phase := range []api.MemberPhase{api.MemberSwapping, api.MemberStarting} {
		// The digests grow with the square of the members, everything else with their number.
		few, many := allocations(30, phase), allocations(300, phase)
		if pair := (many - 10*few) / (300*300 - 10*30*30); pair > digest || digest >= read/2 {
			t.Errorf("%s: each pair costs %.1f allocations, a digest at most %.0f, and to read a link %.0f", phase, pair, digest, read)
		}
	}
}
