package detectresize

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// attempted says which size the storage works on, and how far it is.
func attempted(size string, state corev1.ClaimResourceStatus) build.Option {
	return build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Status.AllocatedResources = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
		c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: state}
	})
}

// neverGrew is the failure of an expansion to 1Ti.
func neverGrew(r *api.Resize) {
	r.Request, r.Reason, r.FailedAt = "data=1Ti", api.DeadlineExceeded, api.Expanding
}

// TestSmallerRequestForGrownVolumeIsNotForgotten: an expansion to 1Ti exceeded its deadline, because the file systems grow only when they
// are mounted. The volumes have 1Ti. The user requests 128Mi. The resize must touch the claims (by a copy), or wait or refuse with words.
// It must not only replace the templates and report success.
func TestSmallerRequestForGrownVolumeIsNotForgotten(t *testing.T) {
	o := []build.Option{fileSystemPending(24 * time.Hour), attempted("1Ti", corev1.PersistentVolumeClaimNodeResizePending)}
	for name, pods := range map[string]objects{"running": {member(0, 24*time.Hour), member(1, 24*time.Hour)}, "set at zero": nil} {
		opts := []build.Option{build.Replicas(2), build.ReplicaCounts(2, 2)}
		if pods == nil {
			opts = []build.Option{build.Replicas(0), build.ReplicaCounts(0, 0)}
		}
		in := given(expandableSet(build.Operation(api.Failed, neverGrew), opts...), expandable("data-web-0", "1Ti", "64Mi", o...),
			expandable("data-web-1", "1Ti", "64Mi", o...), pods)
		p := Decide(in)
		if r := build.Stored(p); r != nil && r.Phase == api.Planned && len(r.Members) == 0 && len(r.Expansions) == 0 {
			t.Errorf("%s: the resize to 128Mi only replaces the templates and then succeeds; the claims request 1Ti "+
				"and their volumes have 1Ti: %s", name, r.Message)
		}
	}
}

// TestRetryWithSmallerRequestRestartsNoPod: the same, with the annotation retry.
func TestRetryWithSmallerRequestRestartsNoPod(t *testing.T) {
	o := []build.Option{fileSystemPending(24 * time.Hour), attempted("1Ti", corev1.PersistentVolumeClaimNodeResizePending)}
	claims := append(expandable("data-web-0", "1Ti", "64Mi", o...), expandable("data-web-1", "1Ti", "64Mi", o...)...)
	pods := objects{member(0, 24*time.Hour), member(1, 24*time.Hour)}
	opts := []build.Option{build.Replicas(2), build.ReplicaCounts(2, 2), build.Annotation(api.RetryAnnotation, "now")}
	p := Decide(given(expandableSet(build.Operation(api.Failed, neverGrew), opts...), claims, pods))
	r := build.Stored(p)
	if r == nil || r.Phase != api.Expanding {
		return
	}
	p = Decide(given(expandableSet(r, opts[:2]...), claims, pods))
	for _, a := range p.Actions {
		if a.Verb == plan.VerbEvict {
			t.Errorf("a request for 128Mi stops pod %s so that its file system grows to 1Ti", a.Name)
		}
	}
}

// TestOldSizeIsNoSuccessWhileStorageGrows: a slow storage was growing the volumes to 1Ti when the deadline passed. The user requests the
// old size 64Mi. External-resizer finishes a growth that is in progress.
func TestOldSizeIsNoSuccessWhileStorageGrows(t *testing.T) {
	o := attempted("1Ti", corev1.PersistentVolumeClaimControllerResizeInProgress)
	withdraws := func(r *api.Resize) {
		for i := range r.Expansions {
			r.Expansions[i].To = resource.MustParse("64Mi")
			r.Expansions[i].Withdraws = resource.MustParse("1Ti")
		}
	}
	in := given(expandableSet(expanding(keepsTemplates, withdraws), build.Resize("data=64Mi")),
		expandable("data-web-0", "67108865", "64Mi", o),
		expandable("data-web-1", "67108865", "64Mi", o), pods())
	p := Decide(in)
	if p.Reason == api.ResizeCompleted {
		t.Errorf("the resize to 64Mi has succeeded while the storage grows the volumes to 1Ti: %s", p)
	}
}

// TestRetryAfterOutrunWithdrawalCopies: the resize to 128Mi fails with ClaimEnlarged, because the storage finishes the growth to 1Ti. The
// claims then request 1Ti again, so that a retry finds volumes to shrink.
func TestRetryAfterOutrunWithdrawalCopies(t *testing.T) {
	expanding := build.Operation(api.Expanding, func(r *api.Resize) {
		r.Request, r.Reason, r.FailedAt = "data=128Mi", api.ClaimEnlarged, api.Expanding
		for _, name := range []string{"data-web-0", "data-web-1"} {
			r.Expansions = append(r.Expansions, api.Expansion{Claim: name, UID: types.UID("uid-" + name), From: resource.MustParse("64Mi"),
				To: resource.MustParse("128Mi"), Withdraws: resource.MustParse("1Ti")})
		}
	})
	p := Decide(given(expandableSet(expanding), expandable("data-web-0", "128Mi", "1Ti"), expandable("data-web-1", "128Mi", "1Ti"), pods()))
	if text := p.String(); strings.Count(text, "request 128Mi to 1Ti") != 2 {
		t.Errorf("%s", text)
	}
	failed := build.Operation(api.Failed, func(r *api.Resize) {
		r.Request, r.Reason, r.FailedAt = "data=128Mi", api.ClaimEnlarged, api.Expanding
	})
	p = Decide(given(expandableSet(failed, build.Annotation(api.RetryAnnotation, "now")), expandable("data-web-0", "1Ti", "1Ti"),
		expandable("data-web-1", "1Ti", "1Ti"), pods()))
	if r := build.Stored(p); r == nil || r.Phase != api.Planned || len(r.Members) != 2 {
		t.Errorf("the retry copies no volume: %s", p)
	}
}
