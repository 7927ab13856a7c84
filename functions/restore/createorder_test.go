package restore

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// TestMissingClaimIsCreatedBeforeOthersAreReleased: a resize is given up. The claim of member 0 is gone, and its copy is reserved for it.
// Member 1 keeps its volume, and its pod is released. A policy refuses that patch. If it comes first, nothing after it is carried out, by
// any event: the claim of member 0 stays missing, although nothing refuses its creation. A resize frees room in the quota with its
// temporary claims, so it has no reason to create claims last.
func TestMissingClaimIsCreatedBeforeOthersAreReleased(t *testing.T) {
	record := build.Operation(api.Reverting, build.Due(time.Hour), build.Members(api.MemberSwapping, web0, web1), func(r *api.Resize) {
		r.FailedAt, r.Reason, r.Message = api.Moving, api.Aborted, "because"
		for i := range r.Members {
			r.Members[i].StoppedAt = &metav1.Time{Time: build.Now.Add(-time.Minute)}
		}
	})
	p := Decide(situation(append(setWith(record, build.Replicas(2)), journalOf(web0, web1)...), heldPodOf(0), heldPodOf(1),
		oldVolume(web0), copyVolume(web0, build.Reserved(manifest(web0, new0, "128Mi"))), source(web1), target(web1)))
	created := slices.IndexFunc(p.Actions, func(a plan.Action) bool { return a.Verb == plan.VerbCreate && a.Resource == plan.Claims })
	released := slices.IndexFunc(p.Actions, func(a plan.Action) bool { return a.Resource == plan.Pods && a.Name == "web-1" })
	if created < 0 || released >= 0 && released < created {
		t.Errorf("claim %s is created after another member's pod is released: %s", web0, p)
	}
}
