package cleanuppod

import (
	"testing"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/test/kit/build"
)

// TestOperatorThatIsPausedNoMoreKeepsClaims: Drydock has paused an operator and scaled its set of three members to zero. Then a user, or a
// tool that applies the custom resource from Git, ends the pause. The operator starts the members one by one.
func TestOperatorThatIsPausedNoMoreKeepsClaims(t *testing.T) {
	down := func(s *api.Sleep) { s.ScaledToZeroAt = operation.Moment(build.Now.Add(-time.Minute)) }
	for name, sleep := range map[string]*api.Sleep{
		"a user ended the pause in the morning": build.Sleep(api.Asleep, build.SleepStarted(9*time.Hour), build.AsleepFor(8*time.Hour)),
		"a tool ends it again after the second try": build.Sleep(api.Stopping, build.SleepStarted(3*time.Minute), down,
			build.Step(api.StoppedAgain), build.SleepDue(time.Minute)),
	} {
		t.Run(name, func(t *testing.T) {
			set := web(build.ControlledBy("Elasticsearch", "main"), build.IdleTimeout("1h"), build.LastActivity(10*time.Hour),
				build.Replicas(1), build.ReplicaCounts(1, 1), settledRecord(3), build.WithSleep(sleep))
			for range 4 {
				p := idleTimeout(build.Now, "web", set)
				t.Logf("%s", p)
				set = afterPlan(set, p)
			}
			expectCleanupWithoutSleep(t, set, replica(0), usedClaim("data-web-0"), usedClaim("data-web-1"), usedClaim("data-web-2"))
			for range 2 {
				p := Decide(on(set, replica(0), usedClaim("data-web-0"), usedClaim("data-web-1"), usedClaim("data-web-2")))
				if set = afterPlan(set, p); p.Reason == api.CleanupStarted {
					t.Errorf("its operator still starts members, and their claims are cleaned up: %s; sleep %s", p,
						set.Annotations[api.SleepAnnotation])
				}
			}
		})
	}
}
