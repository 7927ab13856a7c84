package restore

import (
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// TestRollbackTriesAllClaimsBeforeTheFirstDeletion: a policy or a webhook may refuse a claim on its old volume since the resize. No pod
// starts on half of a rollback, so after the first deletion there is no way back.
func TestRollbackTriesAllClaimsBeforeTheFirstDeletion(t *testing.T) {
	const logs0 = "logs-web-0"
	one := rollingBack(api.Moving, build.Members(api.MemberSwapping, web0, logs0))
	whole := rollingBack(api.Moving, build.Members(api.MemberSwapping, web0, web1), func(r *api.Resize) { r.Strategy = api.StrategyWhole })
	for name, row := range map[string]struct {
		in     Input
		claims int
	}{
		"two claims of a member": {situation(objects{build.Set("web", build.Template("data", "128Mi", "fixed"),
			build.Template("logs", "128Mi", "fixed"), build.Status(one)), build.Journal(one)},
			objects{build.With(build.PodOf("web", 0, "data", "logs"), build.Held(0), build.Stopped())},
			source(web0), returning(web0), source(logs0), returning(logs0)), 2},
		"two members that stop together": {situation(append(setWith(whole, build.Replicas(2)), build.Journal(whole)), heldPodOf(0), heldPodOf(1),
			source(web0), returning(web0), source(web1), returning(web1)), 2},
	} {
		p, tried := Decide(row.in), 0
		for _, a := range p.Actions {
			switch {
			case a.Resource == plan.Claims && a.Verb == plan.VerbTry:
				tried++
			case a.Resource == plan.Claims && a.Verb == plan.VerbDelete && tried < row.claims:
				t.Errorf("%s: %s is deleted after %d of %d dry runs: %s", name, a.Name, tried, row.claims, p)
			}
		}
		if tried == 0 {
			t.Errorf("%s: no dry run: %s", name, p)
		}
	}
}
