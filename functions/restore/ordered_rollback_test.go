package restore

import (
	"slices"
	"testing"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// TestRollbackOfOrderedSetStopsAllMembers: the defaults, OrderedReady and `whole`. Member 1 has stopped. It waits for member 0, because
// their volumes must come back together. So member 0 must be stopped now.
func TestRollbackOfOrderedSetStopsAllMembers(t *testing.T) {
	record := build.Operation(api.Moving, build.RollbackOf("0123456789ff"), build.Members(api.MemberStopping, web0, web1),
		build.MemberDue(0, time.Hour), build.MemberDue(1, time.Hour))
	for i := range record.Members {
		record.Members[i].Claims[0].NewVolume = "pv-new-" + record.Members[i].Claims[0].Claim
	}
	record.Member(1).StoppedAt = record.Member(1).HeldAt
	returning := func(claim string) objects {
		return objects{build.VolumeOf(build.Target(claim, "128Mi"), build.Released(), build.Retained(api.RoleReturning, claim))}
	}
	in := situation(setWith(record, build.Replicas(2)), objects{build.Journal(record)}, source(web0), source(web1), returning(web0),
		returning(web1),
		pod(0, build.Held(0)), heldPodOf(1))
	p := Decide(in)
	if !slices.ContainsFunc(p.Actions, func(a plan.Action) bool {
		return a.Resource == plan.Pods && a.Name == "web-0" && a.Verb == plan.VerbDelete
	}) {
		t.Errorf("member 1 is down and waits for member 0, which is never stopped: %s", p)
	}
}
