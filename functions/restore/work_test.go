package restore

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moving"
	"drydock.dev/test/kit/build"
)

// TestLongDurationsDoNotOverflow: the API server accepts any grace period, and 2147483647 s is a usual way to write "as long as it takes".
// A deadline that overflows lies in the past, so every stop is cancelled as soon as it has begun.
func TestLongDurationsDoNotOverflow(t *testing.T) {
	for name, c := range map[string]struct {
		grace    int64
		maxStop  string
		phase    api.MemberPhase
		strategy func(*api.Resize)
	}{
		"five ordered members with the longest 32-bit grace period": {2147483647, "", api.MemberStopping, func(*api.Resize) {}},
		"one member with the longest 64-bit grace period":           {9223372036854775807, "", api.MemberStopping, build.Rolling},
		"the final pass with a very long max-stop":                  {30, "2562047h", api.MemberFinalPass, build.Rolling},
	} {
		record := build.Operation(api.Moving, build.Members(api.MemberWaiting, web0, web1, web2, "data-web-3", "data-web-4"), c.strategy)
		set := setWith(record, build.Replicas(5), build.Edit(func(s *appsv1.StatefulSet) {
			s.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To(c.grace)
			if c.maxStop != "" {
				s.Annotations[api.MaxStopAnnotation] = c.maxStop
			}
		}))
		w := &work{Input: situation(set), Work: moving.Work{Before: record, Record: record}}
		if deadline := w.phaseDeadline(&record.Members[0], c.phase); deadline != nil && deadline.Time.Before(build.Now.Add(time.Second)) {
			t.Errorf("%s: phase %s begins at %s, and its deadline is %s", name, c.phase, build.Now, deadline)
		}
	}
}
