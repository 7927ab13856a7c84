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

// TestWithdrawalNeverWrittenIsNoSuccess: the user withdraws 1Ti and requests the old size. Until the deadline no write of a claim
// succeeds (a webhook is down, or detect-resize is), so the claims still request 1Ti, and the storage grows the volumes to that.
func TestWithdrawalNeverWrittenIsNoSuccess(t *testing.T) {
	withdraws := func(r *api.Resize) {
		r.Request = "data=64Mi"
		for i := range r.Expansions {
			r.Expansions[i].To = resource.MustParse("64Mi")
			r.Expansions[i].Withdraws = resource.MustParse("1Ti")
		}
	}
	for name, o := range map[string]build.Option{
		"in progress": attempted("1Ti", corev1.PersistentVolumeClaimControllerResizeInProgress),
		"infeasible":  attempted("1Ti", corev1.PersistentVolumeClaimControllerResizeInfeasible),
	} {
		t.Run(name, func(t *testing.T) {
			claims := append(expandable("data-web-0", "1Ti", "64Mi", o), expandable("data-web-1", "1Ti", "64Mi", o)...)
			late := expanding(keepsTemplates, withdraws, build.Due(-time.Second))
			p := Decide(given(expandableSet(late, build.Resize("data=64Mi")), claims, pods()))
			t.Logf("%s", p)
			for range 3 {
				r := build.Stored(p)
				if r == nil {
					break
				}
				t.Logf("%s %s %s", r.Phase, r.Reason, r.Message)
				if r.Phase == api.Succeeded {
					t.Fatalf("the claims still request 1Ti: %s", r.Message)
				}
				p = Decide(given(expandableSet(r, build.Resize("data=64Mi")), claims, pods()))
			}
		})
	}
}

// TestAbortKeepsPendingGrowth: the volumes have grown to 128Mi, and the claims request that; their file systems wait for a mount. The user
// requests 256Mi, and aborts that. The claims must request 128Mi as before, not less than their volumes have.
func TestAbortKeepsPendingGrowth(t *testing.T) {
	o := []build.Option{fileSystemPending(24 * time.Hour), attempted("128Mi", corev1.PersistentVolumeClaimNodeResizePending)}
	claims := append(expandable("data-web-0", "128Mi", "64Mi", o...), expandable("data-web-1", "128Mi", "64Mi", o...)...)
	two := []build.Option{build.Replicas(2), build.ReplicaCounts(2, 2), build.Template("data", "128Mi", expandableClass)}
	plain := objects{build.Set("web", append(two, build.Resize("data=256Mi"))...)}
	ps := objects{member(0, 48*time.Hour), member(1, 48*time.Hour)}
	r := build.Stored(Decide(given(plain, claims, ps)))
	if r == nil || len(r.Expansions) != 2 {
		t.Fatalf("%+v", r)
	}
	t.Logf("from %s to %s", r.Expansions[0].From.String(), r.Expansions[0].To.String())
	claims = append(expandable("data-web-0", "256Mi", "64Mi", o...), expandable("data-web-1", "256Mi", "64Mi", o...)...)
	r.FailedAt, r.Reason, r.Message = api.Expanding, api.Aborted, "because"
	p := Decide(given(objects{build.Set("web", append(two, build.Resize("data=256Mi"), build.Status(r))...)}, claims, ps))
	if strings.Contains(p.String(), "67108865") {
		t.Errorf("the volumes have 128Mi, and the claims requested that before: %s", p)
	} else {
		return
	}
	// later: the file systems have grown. the user requests 100Mi
	o2 := attempted("128Mi", "")
	claims = append(expandable("data-web-0", "67108865", "128Mi", o2), expandable("data-web-1", "67108865", "128Mi", o2)...)
	p = Decide(given(objects{build.Set("web", append(two, build.Resize("data=100Mi"))...)}, claims, ps))
	r = build.Stored(p)
	claims = append(expandable("data-web-0", "100Mi", "128Mi", o2), expandable("data-web-1", "100Mi", "128Mi", o2)...)
	p = Decide(given(objects{build.Set("web", build.Replicas(2), build.ReplicaCounts(2, 2), build.Template("data", "100Mi", expandableClass),
		build.Resize("data=100Mi"), build.Status(r))}, claims, ps))
	if r := build.Stored(p); r != nil && r.FailedAt == "" {
		t.Errorf("a shrink to 100Mi continues although the volumes keep 128Mi: %s: %s, members %d", r.Phase, r.Message, len(r.Members))
	}
}

// TestAttributesDoNotWaitForOldExpansion: an expansion to 1Ti was aborted, so the claims request their old size. The storage still tries
// 1Ti, with an error that is not final. The user requests another VolumeAttributesClass, which the volumes get at once.
func TestAttributesDoNotWaitForOldExpansion(t *testing.T) {
	gold := "gold"
	has := build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Spec.VolumeAttributesClassName, c.Status.CurrentVolumeAttributesClassName = &gold, &gold
	})
	o := attempted("1Ti", corev1.PersistentVolumeClaimControllerResizeInProgress)
	claims := append(expandable("data-web-0", "67108865", "64Mi", o), expandable("data-web-1", "67108865", "64Mi", o)...)
	base := []build.Option{build.Replicas(2), build.ReplicaCounts(2, 2), build.Template("data", "64Mi", expandableClass),
		build.Resize("data=64Mi%gold")}
	r := build.Stored(Decide(with(given(objects{build.Set("web", base...)}, claims, pods()), attributesClasses("gold"))))
	if r == nil {
		t.Fatal("no record")
	}
	t.Logf("%s %+v", r.Phase, r.Expansions)
	r.Phase = api.Expanding
	claims = append(expandable("data-web-0", "67108865", "64Mi", o, has), expandable("data-web-1", "67108865", "64Mi", o, has)...)
	p := Decide(with(given(objects{build.Set("web", append(base, build.Status(r))...)}, claims, pods()), attributesClasses("gold")))
	t.Logf("%s", p)
	if r := build.Stored(p); r == nil || r.Phase == api.Expanding {
		t.Errorf("the volumes have the class: %s", p)
	}
}
