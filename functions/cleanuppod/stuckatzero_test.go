package cleanuppod

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit/build"
)

// TestStuckOwnerOfAResizeEndsNoCleanupAtZero: as TestStuckOwnerOfAResizeEndsNoCleanup, but the set was scaled to zero.
func TestStuckOwnerOfAResizeEndsNoCleanupAtZero(t *testing.T) {
	done := build.Operation(api.Succeeded)
	set := web(build.Replicas(0), build.ReplicaCounts(0, 0), build.ControlledBy("Database", "main"), build.Status(done), cleaning(),
		build.Annotation(api.AbortAnnotation, "now"))
	record := resources.MakeOwnerRecord(set, done, api.PausedOwner{Version: api.PauseVersion, APIVersion: "example.com/v1", Kind: "Database",
		Resource: "databases", Name: "main", UID: "uid-main"})
	record.UID, record.ResourceVersion = "uid-record", "9"
	lists := read([]metav1.Object{set, usedClaim("data-web-0"), usedClaim("data-web-1")}...)
	lists["controllerrevisions"] = append(lists["controllerrevisions"], record)
	in := observed(t, lists)
	p := Decide(in)
	r, _ := api.LoadCleanup(set)
	if r.Active() && p.Reason == api.InProgress {
		t.Errorf("the cleanup never ends and cannot be aborted, and the set stays busy: %s", p)
	}
}
