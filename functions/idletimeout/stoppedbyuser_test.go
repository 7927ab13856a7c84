package idletimeout

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit/build"
)

// TestWakeUpEndsIfTheOperatorKeepsTheSetStopped: an operator has stopped a set for its sleep. It wakes, pause-owner ends the stop, and
// before the set is ready, a user stops the database in its custom resource. Drydock restores the replicas once, because the operator may
// be away. The operator scales the set to zero again, as its user wants. The wake-up must end then, and not start the pods every half
// hour for good.
func TestWakeUpEndsIfTheOperatorKeepsTheSetStopped(t *testing.T) {
	for name, option := range map[string]build.Option{
		"opted in": build.Annotation("example.com/x", "y"), "the user has opted it out, too": optOut,
		"the user has written abort, too": build.Annotation(api.AbortAnnotation, "now"),
	} {
		t.Run(name, func(t *testing.T) {
			waking := sleep(api.Waking, due, build.OwnerStops(), build.AsleepFor(time.Hour))
			s := simulation{t: t, now: build.Now, sets: []*appsv1.StatefulSet{web(zero, build.ReplicaCounts(0, 0),
				build.ControlledBy("Database", "main"), waking, option,
				build.Label("broken", "true"))}} // its pods need some seconds to become ready
			starts := 0
			for range 24 * 60 {
				s.step("web")
				if statefulset.Replicas(s.sets[0]) > 0 {
					starts++
					s.sets[0] = build.With(s.sets[0], zero, build.ReplicaCounts(0, 0)) // the operator obeys its user
				}
				s.now = s.now.Add(time.Minute)
			}
			if record := s.sleepOf("web"); starts > 1 || record.Active() {
				t.Errorf("in a day, the pods were started %d times; %s", starts, build.Words(record))
			}
		})
	}
}
