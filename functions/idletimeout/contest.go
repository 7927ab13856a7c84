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
	// contested is how many sleeps one after the other the same field manager ends before the set is left to it for longer.
	contested = 2
	// shortSleep: a deployment tool heals within it. A person who starts the set in the morning does not contest the sleep.
	shortSleep = 2 * time.Hour
)

// startedByOthers wakes a set that another process has started. If the same process does so again and again, as a deployment tool
// that applies replicas, the sleep has failed: each try stops and starts the pods.
func startedByOthers(in Input, group idle.Group, m idle.Member) plan.Plan {
	next := countStarts(in, m)
	if next.Starts < contested {
		return wake(in, group, m, next, api.StartedByOthers, fmt.Sprintf("%s gave it %d replicas", writer(m.Set), statefulset.Replicas(m.Set)))
	}
	next.FailedAt, next.Reason = m.Sleep.Phase, api.StartedByOthers
	return wake(in, group, m, next, api.StartedByOthers, fmt.Sprintf(
		"%s started it in %d sleeps, one after the other. Remove replicas from what it applies, "+
			"as from the manifest in Git; the set is not put to sleep for %s", writer(m.Set), next.Starts, idle.Rest(next, in.Settings.SleepRetry)))
}

// countStarts returns the sleep with the count of sleeps that the present field manager of the replicas has ended.
func countStarts(in Input, m idle.Member) *api.Sleep {
	next, manager := m.Sleep.Clone(), statefulset.ReplicasManager(m.Set)
	short := next.Quiesced == nil || in.Now.Sub(next.Quiesced.Time) < shortSleep
	if manager != next.StartedBy || !short {
		next.Starts = 0
	}
	next.StartedBy, next.Starts = manager, next.Starts+1
	return next
}
