package detectresize

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestRetryAfterSlowStorageIsNoSuccess: the user withdrew 1Ti and requested 128Mi. The storage was still growing the volumes to 1Ti at the
// deadline, so the resize failed: "Look at the storage, then retry". The claims request 128Mi. Then the storage finished 1Ti, and the user
// retries. As after ClaimEnlarged (see TestRetryAfterOutrunWithdrawalCopies), the retry must shrink the volumes, or say that they have 1Ti.
// It must not only replace the templates and report success.
func TestRetryAfterSlowStorageIsNoSuccess(t *testing.T) {
	failed := build.Operation(api.Failed, func(r *api.Resize) {
		r.Request, r.Reason, r.FailedAt = "data=128Mi", api.DeadlineExceeded, api.Expanding
		for _, name := range []string{"data-web-0", "data-web-1"} {
			r.Expansions = append(r.Expansions, api.Expansion{Claim: name, UID: types.UID("uid-" + name), Template: "data",
				Volume: "pv-" + name, From: resource.MustParse("64Mi"), To: resource.MustParse("128Mi"), Withdraws: resource.MustParse("1Ti")})
		}
	})
	for template, means := range map[string]string{"64Mi": "only replaces the templates", "128Mi": "finds nothing to do"} {
		set := objects{build.Set("web", build.Replicas(2), build.Template("data", template, expandableClass), build.Resize("data=128Mi"),
			build.Status(failed), build.Annotation(api.RetryAnnotation, "now"))}
		p := Decide(given(set, expandable("data-web-0", "128Mi", "1Ti"), expandable("data-web-1", "128Mi", "1Ti"), pods()))
		if r := build.Stored(p); r == nil || r.Phase == api.Planned && len(r.Members) != 2 {
			t.Errorf("template %s: the retry %s, and the volumes keep 1Ti: %s", template, means, p)
		}
	}
}
