package idletimeout

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// TestActivityStartsASiblingThatWasStoppedWithoutASleep: one custom resource has two sets, db and web, in one group. The operator is
// stopped for db, when pause-owner refuses the sleep of web (TestRefusedSiblingKeepsItsClaims). web is at zero, because its operator has
// stopped it for Drydock, and not because a user wanted it. An activity of web must start it: only a wake-up of db ends the stop.
func TestActivityStartsASiblingThatWasStoppedWithoutASleep(t *testing.T) {
	byCluster, group := build.ControlledBy("PerconaXtraDBCluster", "main"), build.InGroup("shop")
	for name, signal := range map[string]string{"an activity": events.Activity, "a wake event": events.Wake} {
		t.Run(name, func(t *testing.T) {
			db := build.Set("db", zero, build.ReplicaCounts(0, 0), group, byCluster, build.IdleTimeout("1h"), build.LastActivity(9*time.Hour),
				build.WithSleep(build.Sleep(api.Asleep, build.OwnerStops(), build.AsleepFor(time.Minute))))
			refused := build.Sleep(api.Refused, build.SleepEnded(api.OwnerNotPausable, time.Minute), func(s *api.Sleep) { s.KeepMembers = 3 })
			set := web(zero, build.ReplicaCounts(0, 0), group, byCluster, build.LastActivity(9*time.Hour), build.WithSleep(refused))
			s := simulation{t: t, now: build.Now, sets: []*appsv1.StatefulSet{set, db}}
			for range 4 {
				p := Decide(on(s.sets...).withSignal(signal, 0))
				t.Logf("%s", p)
				for _, a := range p.Actions {
					if a.Verb == plan.VerbPatch {
						s.patch(a)
					}
				}
			}
			if sleep := s.sleepOf("db"); sleep.Phase == api.Asleep {
				t.Errorf("web is in use and stays at zero, because db stays asleep: %s", build.Words(sleep))
			}
		})
	}
}
