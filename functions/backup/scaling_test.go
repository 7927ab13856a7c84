package backup

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestDecisionTimeGrowsLinearlyWithMembers: decisions are made while members are stopped. In a set with hundreds of members, the links of
// all claims, Jobs and pods must not be read again for each member.
func TestDecisionTimeGrowsLinearlyWithMembers(t *testing.T) {
	allocations := func(members int) float64 {
		var claims []string
		all := []metav1.Object{build.Node()}
		for i := range members {
			claim, job := build.Claim(fmt.Sprintf("data-web-%d", i), "64Mi"), build.Job(i, 1)
			target := build.Target(claim.Name, "128Mi")
			claims = append(claims, claim.Name)
			all = append(all, claim, target, build.VolumeOf(claim), build.VolumeOf(target), build.PodOf("web", i, "data"), job, build.Mover(job))
		}
		record := build.Operation(api.Moving, build.Members(api.MemberCopying, claims...))
		all = append(all, build.Set("web", build.Replicas(int32(members)), build.Template("data", "64Mi", "fixed"), build.Status(record)),
			build.Journal(record))
		in := Input{Observed: build.World(all...), Settings: build.Settings()}
		return testing.AllocsPerRun(1, func() { Decide(in) })
	}
	// Ten times the members cost ten times as much. If each member read the links of all, it would be a hundred times.
	if few, many := allocations(30), allocations(300); many > 15*few {
		t.Errorf("%.0f allocations for 30 members, %.0f for 300 members", few, many)
	}
}
