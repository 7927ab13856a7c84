package pauseowner

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/owners"
	"drydock.dev/test/kit/build"
)

// TestOwnerOfADeletedSetIsResumed: a user deletes a sleeping set. A finalizer holds the set, for example that of cleanup-pod, whose cleanup
// has failed and waits for the user. Nothing wakes a set that is being deleted, so the pause has no end.
func TestOwnerOfADeletedSetIsResumed(t *testing.T) {
	for name, o := range map[string]Owner{"it is paused": ownerWithPause(t), "it is stopped": ownerWithStop(t)} {
		by := owners.ByPause
		if name == "it is stopped" {
			by = owners.ByStop
		}
		held := o.held(t, by, build.SleepID)
		record := held.recorded(by)
		record.Row = held.Row
		set := build.Set("web", build.Replicas(0), build.ReplicaCounts(0, 0),
			build.WithSleep(build.Sleep(api.Asleep, build.AsleepFor(time.Hour))),
			build.Edit(func(s *appsv1.StatefulSet) {
				s.DeletionTimestamp = &metav1.Time{Time: build.Now.Add(-9 * time.Hour)}
				s.Finalizers = []string{api.CleanupFinalizer}
			}))
		in := Input{Observed: build.World(set), Namespace: build.Namespace, OwnerRecords: []OwnerRecord{record}}
		if p := Decide(in); !writesTo(p, o.Resource) {
			t.Errorf("%s: the set is being deleted since nine hours: %s", name, p)
		}
	}
}
