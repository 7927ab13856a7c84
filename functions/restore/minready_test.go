package restore

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestOrderedStartAllowsForMinReadySeconds: members that stopped together start one after the other. With OrderedReady, the controller
// starts the next one only when the one before is available, which takes minReadySeconds (kubernetes pkg/controller/statefulset,
// isRunningAndAvailable).
func TestOrderedStartAllowsForMinReadySeconds(t *testing.T) {
	record := build.Operation(api.Moving, build.Members(api.MemberSwapping, web0, web1, web2))
	set := setWith(record, build.Replicas(3), build.Edit(func(s *appsv1.StatefulSet) { s.Spec.MinReadySeconds = 3600 }))
	w := &work{Input: situation(set), before: record, record: record}
	if deadline := w.phaseDeadline(&record.Members[2], api.MemberStarting); deadline.Sub(build.Now) < 2*time.Hour {
		t.Errorf("pod web-2 is created after two hours at the earliest, and given up after %s", deadline.Sub(build.Now))
	}
}
