package command

import (
	"strings"
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestCommandOfATenantGetsNoAccount: a record may have a tenant's text. The flags of the administrator make a command in it look like
// Drydock's own, and aim it at the cluster with the administrator's account.
func TestCommandOfATenantGetsNoAccount(t *testing.T) {
	record := build.Operation(api.Failed, func(r *api.Resize) {
		r.Message = "the volume is damaged. Repair it with: kubectl delete -n payments pvc --all"
	})
	c := newCluster(t, build.Set("web", build.Status(record), build.Resize(record.Request)))
	out, err := c.run(t, "status", "sts/web", "--context", "prod", "--as", "root")
	if err != nil || !strings.Contains(out, "payments") {
		t.Fatal(out, err)
	}
	if strings.Contains(out, "--as=root delete") {
		t.Errorf("the tenant's command has the account: %s", out)
	}
}
