package detectresize

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

func offlineSet(request string, options ...build.Option) objects {
	return objects{build.Set("web", append([]build.Option{build.Replicas(2), build.ReplicaCounts(2, 2),
		build.Template("data", "64Mi", expandableClass),
		build.Resize(request), build.Annotation(api.ResizeMethodAnnotation, string(api.MethodExpandOffline))}, options...)...)}
}

// TestOldSizeWithAttributesStopsNoMember: the storage could not grow the volumes to 1Ti. With the method expand-offline, the user requests
// the old size and a VolumeAttributesClass. Neither needs a stop: "only attributes change: no member stops".
func TestOldSizeWithAttributesStopsNoMember(t *testing.T) {
	cannot := infeasible("1Ti", "the pool is full")
	in := with(given(offlineSet("data=64Mi%gold"), expandable("data-web-0", "1Ti", "64Mi", cannot),
		expandable("data-web-1", "1Ti", "64Mi", cannot), objects{member(0, time.Hour), member(1, time.Hour)}), attributesClasses("gold"))
	r := build.Stored(Decide(in))
	if r == nil || len(r.Expansions) != 2 || len(r.Members) != 0 {
		t.Errorf("%+v", r)
	}
}

// TestAttributesWaitForNoFileSystem: the volumes have grown to 128Mi, and their file systems grow with the next mount. With the method
// expand-offline, the user requests more, and a VolumeAttributesClass: "attributes change first, without a stop".
func TestAttributesWaitForNoFileSystem(t *testing.T) {
	o := []build.Option{fileSystemPending(24 * time.Hour), attempted("128Mi", corev1.PersistentVolumeClaimNodeResizePending)}
	claims := append(expandable("data-web-0", "128Mi", "64Mi", o...), expandable("data-web-1", "128Mi", "64Mi", o...)...)
	pods := objects{member(0, 48*time.Hour), member(1, 48*time.Hour)}
	in := with(given(offlineSet("data=256Mi%gold"), claims, pods), attributesClasses("gold"))
	r := build.Stored(Decide(in))
	if r == nil || len(r.Expansions) != 2 || len(r.Members) != 2 {
		t.Fatalf("%+v", r)
	}
	r.Phase = api.Expanding
	got := "gold"
	has := build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Spec.VolumeAttributesClassName, c.Status.CurrentVolumeAttributesClassName = &got, &got
	})
	for i := range claims {
		if c, ok := claims[i].(*corev1.PersistentVolumeClaim); ok {
			claims[i] = build.With(c, has)
		}
	}
	p := Decide(with(given(offlineSet("data=256Mi%gold", build.Status(r)), claims, pods), attributesClasses("gold")))
	evicts := slices.ContainsFunc(p.Actions, func(a plan.Action) bool { return a.Verb == plan.VerbEvict })
	if p.Reason != api.ClaimsExpanded || evicts {
		t.Errorf("the attributes have changed, so the operation must continue, and evict no pod before its growth: %s", p)
	}
}
