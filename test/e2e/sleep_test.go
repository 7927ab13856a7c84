package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/owners"
	"drydock.dev/test/kit/stage"
)

// TestI4ThreeSleepAndThreeWake: a set of three whose operator gives it its replicas back whenever it has others falls asleep
// by itself, sleeps, and wakes up as three, with its data.
func TestI4ThreeSleepAndThreeWake(t *testing.T) {
	t.Parallel()
	const kind = "RedisReplication"
	row, _ := owners.BuiltIn().Find("redis.redis.opstreelabs.in", kind)
	s := stage.New(t)
	set := stage.Workload("64Mi")
	set.Spec.Replicas = ptr.To[int32](3)
	s.CreateSet(set)
	before := s.Data(t)
	operator := s.StartOperator(t, row, kind, 3)
	drydock(t, s, "--tick", "2s")
	s.Annotate("web", map[string]string{api.IdleTimeoutAnnotation: "10s"})
	nap := awaitSleep(t, s, api.Asleep)
	if nap.Replicas != 3 || s.Set("web").Status.Replicas != 0 {
		t.Errorf("%+v", nap)
	}
	<-time.After(5 * time.Second) // the operator has had time to look a hundred times
	if n := operator.Fights(); n > 0 || *s.Set("web").Spec.Replicas != 0 {
		t.Errorf("the operator started the pods %d times", n)
	}
	s.Annotate("web", map[string]string{api.AwakeUntilAnnotation: idle.Stamp(time.Now().Add(time.Hour))})
	awaitSleep(t, s, api.Succeeded)
	if set := s.Set("web"); *set.Spec.Replicas != 3 || set.Status.ReadyReplicas != 3 {
		t.Errorf("%d replicas, %d ready", *set.Spec.Replicas, set.Status.ReadyReplicas)
	}
	if after := s.Data(t); !slices.Equal(after.Sums, before.Sums) {
		t.Errorf("the data is %v, was %v", after.Sums, before.Sums)
	}
	s.PatchSet("web", fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, api.IdleTimeoutAnnotation))
	s.ExpectOperatorAtWork(t, row, kind, operator)
}

// awaitSleep waits until the sleep of set web is in the phase.
func awaitSleep(t testing.TB, s *stage.Stage, phase api.Phase) *api.Status {
	t.Helper()
	s.Eventually(fmt.Sprintf("the sleep is %s", phase), func() string {
		if nap := s.Sleep("web"); nap == nil || nap.Phase != phase {
			return fmt.Sprintf("%+v", nap)
		}
		return ""
	})
	return s.Sleep("web")
}
