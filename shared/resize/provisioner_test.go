package resize

import (
	"testing"

	storagev1 "k8s.io/api/storage/v1"
)

// TestClassWithoutProvisionerIsRefusedForCopies: the volumes of such a class may hold data. A claim can still grow in place.
func TestClassWithoutProvisionerIsRefusedForCopies(t *testing.T) {
	for name, row := range map[string]struct{ request, want string }{
		"copied to the class without provisioner": {"data=128Mi@local", "NotProvisioned"},
		"copied to another class":                 {"data=128Mi@fast", ""},
		"grows in place":                          {"data=128Mi", ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(setAsking(row.request), twoClaims())
			in.Cluster.Classes["local"] = &storagev1.StorageClass{Provisioner: noProvisioner}
			if got := reasons(Preflight(in, Compare(in))); got != row.want {
				t.Errorf("found %q, want %q", got, row.want)
			}
		})
	}
}
