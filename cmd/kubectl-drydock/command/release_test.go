package command

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestCommandOfATenantGetsNoAccount: a record may have a tenant's text. A command in it must not get the administrator's account.
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

// TestReleaseSuggestsToDeleteOnlyUnusedVolumes: docs/troubleshooting.md repairs a lost claim by binding it to its old volume again. That
// volume then has the only data of the member.
func TestReleaseSuggestsToDeleteOnlyUnusedVolumes(t *testing.T) {
	used := oldVolume(build.ID, "pv-in-use")
	unused := oldVolume(build.ID, "pv-unused")
	s := newLogServer(t)
	used.(*corev1.PersistentVolume).Status.Phase = corev1.VolumeBound
	s.Lists["persistentvolumes"] = []metav1.Object{used, unused}
	out, _, err := s.run(t, "release")
	if err != nil || !strings.Contains(out, "pv-in-use") {
		t.Fatal(out, err)
	}
	if strings.Contains(out, "patch pv pv-in-use") {
		t.Errorf("the command deletes the data of a volume that is in use: %s", out)
	}
}
