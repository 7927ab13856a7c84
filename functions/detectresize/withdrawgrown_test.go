package detectresize

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// TestGrownVolumeDoesNotCountAsWithdrawn: an expansion to 1Ti exceeded its deadline, because the file systems grow only when they are
// mounted, and no pod could be restarted. The volumes have 1Ti, and the claims' status says 64Mi until then. Now the user requests 128Mi.
func TestGrownVolumeDoesNotCountAsWithdrawn(t *testing.T) {
	grown := func(requested, capacity string, options ...build.Option) objects {
		attempted := build.Edit(func(c *corev1.PersistentVolumeClaim) {
			c.Status.AllocatedResources = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Ti")}
		})
		all := append(expandable("data-web-0", requested, capacity, append(options, attempted)...),
			expandable("data-web-1", requested, capacity, append(options, attempted)...)...)
		return append(all, member(0, 24*time.Hour), member(1, 24*time.Hour))
	}
	failed := build.Operation(api.Failed, func(r *api.Resize) {
		r.Request, r.Reason, r.FailedAt = "data=1Ti", api.DeadlineExceeded, api.Expanding
	})
	decide := func(record *api.Resize, claims objects) (*api.Resize, plan.Plan) {
		p := Decide(given(expandableSet(record, build.Replicas(2), build.ReplicaCounts(2, 2)), claims))
		for _, a := range p.Actions {
			for _, op := range a.Ops {
				if text, is := op.Value.(string); is && strings.HasSuffix(op.Path, "drydock.dev~1status") {
					next, err := api.LoadResize(build.Set("web", build.Annotation(api.StatusAnnotation, text)))
					if err != nil {
						t.Fatal(err)
					}
					record = next
				}
			}
		}
		t.Log(p)
		return record, p
	}
	pending := fileSystemPending(24 * time.Hour)
	record, p := decide(failed, grown("1Ti", "64Mi", pending))
	if record.Phase != api.Expanding {
		return // for example, it waits for the mount and shrinks the volumes by a copy then
	}
	record.ReplaceSet = false                                 // the templates do not matter here
	record, _ = decide(record, grown("1Ti", "64Mi", pending)) // the claims request 128Mi
	record, p = decide(record, grown("128Mi", "64Mi", pending))
	for _, a := range p.Actions {
		if a.Verb == plan.VerbEvict {
			t.Errorf("a request for 128Mi stops pod %s so that its file system grows to 1Ti", a.Name)
		}
	}
	if record, p = decide(record, grown("128Mi", "1Ti")); record.Phase == api.Succeeded {
		t.Errorf("the resize to 128Mi is %s, and the volumes have 1Ti: %s", record.Phase, record.Message)
	}
}

// TestOutrunWithdrawalIsNoSuccess: the storage has begun to grow the volumes to more than the user requests now, and finishes that
// (KEP-1790).
func TestOutrunWithdrawalIsNoSuccess(t *testing.T) {
	withdraws := func(r *api.Resize) {
		for i := range r.Expansions {
			r.Expansions[i].Withdraws = resource.MustParse("1Ti")
		}
	}
	for name, row := range map[string]struct{ requested, capacity string }{
		"the claims requested 128Mi before the storage finished 1Ti":     {"128Mi", "1Ti"},
		"an older growth to 256Mi ended before they could request 128Mi": {"1Ti", "256Mi"},
	} {
		p := Decide(given(expandableSet(expanding(keepsTemplates, withdraws)), expandable("data-web-0", row.requested, row.capacity),
			expandable("data-web-1", row.requested, row.capacity), pods()))
		if p.Reason == api.ResizeCompleted {
			t.Errorf("%s: the resize to 128Mi has succeeded: %s", name, p)
		}
	}
}
