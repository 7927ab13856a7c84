package resize

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/owners"
	"drydock.dev/test/kit/build"
)

// TestOwnerThatCanOnlyBeStoppedIsRefusedAtOnce: the row of PerconaXtraDBCluster has only a stop, and a resize needs a pause. pause-owner
// refuses each time, but only after the claims that grow in place have grown for good.
func TestOwnerThatCanOnlyBeStoppedIsRefusedAtOnce(t *testing.T) {
	owned := func(o metav1.Object) {
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "pxc.percona.com/v1", Kind: "PerconaXtraDBCluster", Name: "main",
			UID: "uid-main", Controller: ptr.To(true)}})
	}
	for situation, request := range map[string]string{"claims grow in place, and the set gets other templates": "data=128Mi",
		"claims are copied": "data=128Mi@fast"} {
		in := input(setAsking(request, build.Option(owned)), twoClaims())
		in.Registry = owners.BuiltIn()
		w := Compare(in)
		if got := reasons(Preflight(in, w)); got != string(api.OwnerNotPausable) {
			t.Errorf("%s: no refusal (%q), and %d claims grow before pause-owner refuses", situation, got, len(w.Record(in).Expansions))
		}
	}
}
