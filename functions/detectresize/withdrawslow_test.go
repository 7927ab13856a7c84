package detectresize

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestSlowStorageIsNotForgotten: the user withdrew 1Ti and requested 128Mi. The storage still grows the volumes to 1Ti at the deadline, and
// will finish that. The claims request 1Ti again, so that a retry finds volumes to shrink (see TestRetryAfterOutrunWithdrawalCopies), or
// withdraws the size once more. If the claims kept requesting 128Mi, the retry would succeed with volumes of 1Ti.
func TestSlowStorageIsNotForgotten(t *testing.T) {
	for _, r := range []api.Reason{api.DeadlineExceeded, api.ClaimEnlarged} { // the volume of another claim has reached 1Ti
		record := expanding(keepsTemplates, func(record *api.Resize) {
			record.FailedAt, record.Reason, record.Expansions[1].Withdraws = api.Expanding, r, resource.MustParse("1Ti")
		})
		grows := attempted("1Ti", corev1.PersistentVolumeClaimControllerResizeInProgress)
		p := Decide(given(expandableSet(record), expandable("data-web-0", "128Mi", "128Mi"), expandable("data-web-1", "128Mi", "64Mi", grows),
			pods()))
		if strings.Count(p.String(), "request 128Mi to 1Ti") != 1 {
			t.Errorf("%s: %s", r, p)
		}
	}
	late := expanding(keepsTemplates, build.Due(-time.Second), func(r *api.Resize) {
		for i := range r.Expansions {
			r.Expansions[i].Withdraws = resource.MustParse("1Ti")
		}
	})
	grows := attempted("1Ti", corev1.PersistentVolumeClaimControllerResizeInProgress)
	claims := append(expandable("data-web-0", "128Mi", "64Mi", grows), expandable("data-web-1", "128Mi", "64Mi", grows)...)
	failed := build.Stored(Decide(given(expandableSet(late), claims, pods())))
	if failed == nil || failed.Reason != api.DeadlineExceeded {
		t.Fatalf("%+v", failed)
	}
	p := Decide(given(expandableSet(failed), claims, pods()))
	if strings.Count(p.String(), "request 128Mi to 1Ti") != 2 {
		t.Errorf("%s", p)
	}
	claims = append(expandable("data-web-0", "1Ti", "64Mi", grows), expandable("data-web-1", "1Ti", "64Mi", grows)...)
	if end := build.Stored(Decide(given(expandableSet(failed), claims, pods()))); end == nil || end.Phase != api.Failed {
		t.Errorf("the operation does not end: %+v", end)
	}
}
