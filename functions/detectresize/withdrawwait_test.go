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

// TestWithdrawalThatWaitsSaysWhy: the storage tries 1Ti without end, with an error that is not final. The user requests the old size 64Mi,
// and the claims do so (plus one byte). The storage does not give up before the deadline.
func TestWithdrawalThatWaitsSaysWhy(t *testing.T) {
	o := attempted("1Ti", corev1.PersistentVolumeClaimControllerResizeInProgress)
	withdraws := func(r *api.Resize) {
		r.Request = "data=64Mi"
		for i := range r.Expansions {
			r.Expansions[i].To = resource.MustParse("64Mi")
			r.Expansions[i].Withdraws = resource.MustParse("1Ti")
		}
	}
	claims := append(expandable("data-web-0", "67108865", "64Mi", o), expandable("data-web-1", "67108865", "64Mi", o)...)
	late := expanding(keepsTemplates, withdraws, build.Due(-time.Second))
	p := Decide(given(expandableSet(late, build.Resize("data=64Mi")), claims, pods()))
	r := build.Stored(p)
	t.Logf("%s", r.Message)
	if strings.Contains(r.Message, "still request the new size") || strings.Contains(r.Message, "did not grow") {
		t.Errorf("the claims request 64Mi, and nothing has to grow: %s", r.Message)
	}
	r.Phase, r.FailedAt = api.Failed, api.Expanding
	p = Decide(given(expandableSet(r, build.Resize("data=64Mi"), build.Annotation(api.RetryAnnotation, "now")), claims, pods()))
	t.Logf("retry: %s", p)
	p = Decide(given(expandableSet(r, build.Resize("data=128Mi")), claims, pods()))
	t.Logf("128Mi: %s %+v", p, build.Stored(p).Expansions)
}

// TestRetryOfWithdrawalIsNoSuccessWhileStorageGrows: that withdrawal has failed, as above. The retry must not succeed at once, while the
// storage still grows the volumes to 1Ti (see TestOldSizeIsNoSuccessWhileStorageGrows).
func TestRetryOfWithdrawalIsNoSuccessWhileStorageGrows(t *testing.T) {
	o := attempted("1Ti", corev1.PersistentVolumeClaimControllerResizeInProgress)
	claims := append(expandable("data-web-0", "67108865", "64Mi", o), expandable("data-web-1", "67108865", "64Mi", o)...)
	failed := build.Operation(api.Failed, func(r *api.Resize) {
		r.Request, r.Reason, r.FailedAt = "data=64Mi", api.DeadlineExceeded, api.Expanding
	})
	opts := []build.Option{build.Resize("data=64Mi")}
	p := Decide(given(expandableSet(failed, append(opts, build.Annotation(api.RetryAnnotation, "now"))...), claims, pods()))
	for range 4 {
		t.Logf("%s", p)
		r := build.Stored(p)
		if r == nil {
			break
		}
		if r.Phase == api.Succeeded {
			t.Errorf("the retry succeeds while the storage grows the volumes to 1Ti: %s", r.Message)
			break
		}
		p = Decide(given(expandableSet(r, opts...), claims, pods()))
	}
}
