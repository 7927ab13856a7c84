package restore

import (
	"slices"
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// TestRollbackFreesAllClaimsBeforeItCreatesOne: a resize grew data by 60Gi less than it shrank logs, or the quota was lowered since. The
// quota has room for the old claims, and the preflight has compared the sums. But it has no room for the larger one while the other
// present claim counts. If the creation comes first, it is refused by each event, nothing after it is carried out, and the pod stays
// held.
func TestRollbackFreesAllClaimsBeforeItCreatesOne(t *testing.T) {
	const logs0 = "logs-web-0"
	record := rollingBack(api.Moving, build.Members(api.MemberSwapping, web0, logs0))
	set := objects{build.Set("web", build.Template("data", "128Mi", "fixed"), build.Template("logs", "128Mi", "fixed"), build.Status(record)),
		build.Journal(record)}
	pod := objects{build.With(build.PodOf("web", 0, "data", "logs"), build.Held(0), build.Stopped())}
	whole := rollingBack(api.Moving, build.Members(api.MemberSwapping, web0, web1), func(r *api.Resize) { r.Strategy = api.StrategyWhole })
	for name, row := range map[string]struct {
		in   Input
		want []string
	}{
		"two claims of a member": {situation(set, pod, frozenClaim(web0), returning(web0, build.Reserved(manifest(web0, new0, "128Mi"))),
			frozenClaim(logs0), returning(logs0, build.Reserved(manifest(logs0, "pv-new-"+logs0, "128Mi")))),
			[]string{"patch data-web-0", "patch logs-web-0", "create data-web-0", "create logs-web-0"}},
		"the first is gone, and its creation was refused": {situation(set, pod, oldVolume(web0),
			returning(web0, build.Reserved(manifest(web0, new0, "128Mi"))),
			frozenClaim(logs0), returning(logs0, build.Reserved(manifest(logs0, "pv-new-"+logs0, "128Mi")))),
			[]string{"patch logs-web-0", "create data-web-0", "create logs-web-0"}},
		"two members that stop together": {situation(append(setWith(whole, build.Replicas(2)), build.Journal(whole)), heldPodOf(0), heldPodOf(1),
			frozenClaim(web0), returning(web0, build.Reserved(manifest(web0, new0, "128Mi"))),
			frozenClaim(web1), returning(web1, build.Reserved(manifest(web1, "pv-new-"+web1, "128Mi")))),
			[]string{"patch data-web-0", "patch data-web-1", "create data-web-0", "create data-web-1"}},
	} {
		p := Decide(row.in)
		var got []string
		for _, a := range p.Actions {
			if a.Resource == plan.Claims {
				got = append(got, string(a.Verb)+" "+a.Name)
			}
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: got %q, want %q: %s", name, got, row.want, p)
		}
	}
}
