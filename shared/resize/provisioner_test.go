package resize

import (
	"testing"

	storagev1 "k8s.io/api/storage/v1"
)

// TestClassWithoutProvisionerIsRefusedForACopyOnly: the administrator's volumes may hold data. A claim can still grow in place.
func TestClassWithoutProvisionerIsRefusedForACopyOnly(t *testing.T) {
	for name, row := range map[string]struct{ request, want string }{
		"copied to it":          {"data=128Mi@local", "NotProvisioned"},
		"copied to another one": {"data=128Mi@fast", ""},
		"grows in place":        {"data=128Mi", ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := given(wants(row.request), two())
			in.Cluster.Classes["local"] = &storagev1.StorageClass{Provisioner: noProvisioner}
			if got := reasons(Preflight(in, Read(in))); got != row.want {
				t.Errorf("found %q, want %q", got, row.want)
			}
		})
	}
}
