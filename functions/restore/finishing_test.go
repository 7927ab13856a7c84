package restore

import (
	"strings"
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestSuccessIsReportedOnlyWithTheRequestedSizes: an operator whose resource has another size makes the claims larger again as soon as it
// is resumed.
func TestSuccessIsReportedOnlyWithTheRequestedSizes(t *testing.T) {
	for size, want := range map[string]api.Reason{"128Mi": api.ResizeCompleted, "256Mi": api.ClaimsGrown} {
		in := situation(setWith(build.Operation(api.Finishing, build.Members(api.MemberMoved, web0))),
			objects{build.Claim(web0, size, build.BoundTo("pv-new-"+web0))})
		p := Decide(in)
		if p.Reason != want {
			t.Errorf("claims of %s: %s, want %s", size, p, want)
		}
		if want == api.ClaimsGrown && !strings.Contains(p.String(), "256Mi instead of 128Mi") {
			t.Errorf("the plan does not name the sizes: %s", p)
		}
	}
}
