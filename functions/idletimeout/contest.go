package idletimeout

import (
	"fmt"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

const (
	// contestLimit is the number of consecutive sleeps that one field manager ends before the sleep counts as failed.
	contestLimit = 2
	// shortSleep is the time in which a deployment tool restores replicas. A user who starts the set the next morning does not contest
	// the sleep.
	shortSleep = 2 * time.Hour
)

// handleStartedByOthers wakes a set that another client started. If the same client does so repeatedly, like a deployment tool that
// applies replicas, the sleep failed, because each try stops and starts the pods.
func handleStartedByOthers(in Input, group idle.Group, m idle.Member) plan.Plan {
	next := countStarts(in, m)
	if next.Starts < contestLimit {
		return wake(in, group, m, next, api.StartedByOthers, fmt.Sprintf("%s scaled the set to %d replicas", replicasWriter(m.Set),
			statefulset.Replicas(m.Set)))
	}
	next.FailedAt, next.Reason = m.Sleep.Phase, api.StartedByOthers
	return wake(in, group, m, next, api.StartedByOthers, fmt.Sprintf(
		"%s started it in %d sleeps in a row. Remove replicas from the manifest that it applies, "+
			"for example in Git; the next sleep starts after %s at the earliest", replicasWriter(m.Set), next.Starts, idle.Backoff(next,
			in.Settings.SleepRetry)))
}

// countStarts returns the sleep with an updated count of consecutive sleeps that the field manager of the replicas ended.
func countStarts(in Input, m idle.Member) *api.Sleep {
	next, manager := m.Sleep.Clone(), statefulset.ReplicasManager(m.Set)
	short := next.PodsGoneAt == nil || in.Now.Sub(next.PodsGoneAt.Time) < shortSleep
	if manager != next.StartedBy || !short {
		next.Starts = 0
	}
	next.StartedBy, next.Starts = manager, next.Starts+1
	return next
}
