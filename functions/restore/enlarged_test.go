package restore

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestEnlargedClaimIsNotReplaced: another client enlarges a claim while it is copied to a volume of 128Mi. A swap would undo that.
func TestEnlargedClaimIsNotReplaced(t *testing.T) {
	sized := func(requested, capacity string) build.Option {
		return build.Edit(func(c *corev1.PersistentVolumeClaim) {
			c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(requested)}
			c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(capacity)}
		})
	}
	for name, row := range map[string]struct {
		claim build.Option
		fails bool
	}{
		"to more than the copy":               {sized("1Gi", "1Gi"), true},
		"to less than the copy":               {sized("100Mi", "100Mi"), false},
		"the storage has not enlarged it yet": {sized("1Gi", "64Mi"), false},
		"not at all":                          {sized("64Mi", "64Mi"), false},
	} {
		for phase, pods := range map[api.MemberPhase]objects{api.MemberWaiting: pod(0), api.MemberFinalPass: heldPodOf(0),
			api.MemberSwapping: heldPodOf(0)} {
			in := situation(setWith(movingOne(phase)), journalOf(web0), source(web0, row.claim), target(web0), pods)
			p := Decide(in)
			record := build.Stored(p)
			fails := p.Reason == api.ClaimEnlarged && record != nil && record.Phase == api.Reverting
			if fails != row.fails {
				t.Errorf("%s, %s: %s, want it to be given up: %t", name, phase, p, row.fails)
			}
		}
	}
}
