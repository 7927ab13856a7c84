package idletimeout

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

const (
	// maxRounds limits how often a sleep scales a set to zero after another client restored its replicas.
	maxRounds = 3
	// lateOwnerWrites is how long after the set fell asleep a write may still come from an operator that read its resource before
	// the pause.
	lateOwnerWrites = time.Minute
)

// continueSleep returns the next step of a sleep.
func continueSleep(in Input, group idle.Group, m idle.Member, v idle.Verdict) plan.Plan {
	sleep := m.Sleep
	_, abort := m.Set.Annotations[api.AbortAnnotation]
	if sleep.Phase != api.Waking {
		ends := v.Awake || abort || !statefulset.Managed(m.Set)
		untouched := sleep.ScaledToZeroAt == nil && !sleep.OwnerStops && (sleep.Phase == api.Stopping || ends)
		switch {
		case untouched && statefulset.Replicas(m.Set) == 0: // another client scaled the set to zero first, and is responsible for its wake-up
			return conclude(in, m, api.Succeeded, api.AtZeroAlready, replicasWriter(m.Set)+" scaled the set to zero")
		case abort:
			return failSleep(in, group, m, sleep, api.Aborted, "aborted at the user's request")
		case !statefulset.Managed(m.Set):
			return wake(in, group, m, sleep, api.WakingUp, "the set is no longer opted in")
		case v.Awake:
			return wake(in, group, m, sleep, api.WakingUp, v.Why)
		}
	}
	switch sleep.Phase {
	case api.Stopping:
		return handleStopping(in, group, m)
	case api.Asleep:
		return handleAsleep(in, group, m)
	case api.Waking:
		return handleWaking(in, group, m)
	}
	return plan.Noop(api.NotOurPhase)
}

// isRejected reports whether the API server permanently rejected a write to the member.
func (in Input) isRejected(m idle.Member) bool { return in.Rejected != "" && m.Set.Name == in.Name }

// handleStopping scales the set to zero, or waits until its operator has done so.
func handleStopping(in Input, group idle.Group, m idle.Member) plan.Plan {
	sleep, replicas := m.Sleep, statefulset.Replicas(m.Set)
	scaled := sleep.ScaledToZeroAt != nil
	switch {
	case in.isRejected(m):
		return failSleep(in, group, m, sleep, api.Rejected, "the API server rejected a write of the scale-down: "+in.Rejected)
	case statefulset.AtZero(m.Set) && (scaled || sleep.OwnerStops):
		next := sleep.Clone()
		next.Phase, next.PodsGoneAt, next.Deadline = api.Asleep, operation.Moment(in.Now), nil
		next.Reason, next.Message = api.FellAsleep, fmt.Sprintf("the set gets its %d replicas back when it is needed", sleep.Replicas)
		return plan.Do(api.FellAsleep, append(operation.Store(m.Set, next).Actions(), operation.NoteOf(m.Set, next, false))...).
			Then(events.Scaled, sleep.Operation)
	case operation.Overdue(sleep, in.Now):
		return failSleep(in, group, m, sleep, api.DeadlineExceeded, fmt.Sprintf("%d pods did not end within %s and their grace period, "+
			"so the set is started again. Check the pods, their finalizers and their nodes", m.Set.Status.Replicas, in.Settings.QuiesceTimeout))
	case sleep.OwnerStops:
		return plan.Wait(api.ScalingDown, "its operator scales it to zero, %d replicas are left", m.Set.Status.Replicas)
	case scaled && in.Scalers[m.Set.Name] != nil:
		return handleStoppingByScaler(in, group, m)
	case replicas == 0 && scaled:
		return plan.Wait(api.ScalingDown, "%d replicas are left", m.Set.Status.Replicas)
	case scaled && statefulset.Controller(m.Set) == nil: // no operator can be late, so another client started the set
		return handleStartedByOthers(in, group, m)
	case scaled && sleep.Round >= maxRounds:
		return failSleep(in, group, m, countStarts(in, m), api.StartedByOthers, fmt.Sprintf("%s restored %d replicas %d times",
			replicasWriter(m.Set), replicas, sleep.Round))
	case scaled:
		return scaleDown(in, m, nextRound(sleep))
	}
	next := sleep.Clone()
	next.Replicas = replicas
	return scaleDown(in, m, next)
}

// nextRound returns the sleep with another round. Its replica count is still the count from before the first round.
func nextRound(sleep *api.Sleep) *api.Sleep {
	next := sleep.Clone()
	next.Round++
	next.Phase, next.PodsGoneAt = api.Stopping, nil
	return next
}

// scaleDown stores the replica count in the write that sets it to zero. The same write makes the set retain the claims of the
// stopped pods.
func scaleDown(in Input, m idle.Member, next *api.Sleep) plan.Plan {
	next.ScaledToZeroAt = operation.Moment(in.Now)
	next.Deadline = operation.Moment(in.Now.Add(in.Settings.QuiesceTimeout + statefulset.GracePeriod(m.Set) + in.hookDeadlines(m)))
	patch := plan.PatchOf(plan.StatefulSets, m.Set)
	if found := statefulset.WhenScaled(m.Set); found != statefulset.Retain {
		next.WhenScaled = found
		patch.Replace(statefulset.WhenScaledPath, statefulset.Retain, "whenScaled Retain")
	}
	patch.Annotate(api.SleepAnnotation, next.Encode())
	pause := in.scale(patch, m, 0)
	return plan.Do(api.ScalingDown, slices.Concat(in.ensureRecord(m, next), patch.Actions(), pause)...)
}

// handleAsleep handles a sleeping set that has no reason to wake. If the set has replicas, they come from an operator that was
// late, or from another client that started the set.
func handleAsleep(in Input, group idle.Group, m idle.Member) plan.Plan {
	sleep, replicas := m.Sleep, statefulset.Replicas(m.Set)
	if replicas == 0 {
		return plan.Noop(api.StaysAsleep)
	}
	late := statefulset.Controller(m.Set) != nil && !sleep.OwnerStops && sleep.PodsGoneAt != nil &&
		in.Now.Sub(sleep.PodsGoneAt.Time) < lateOwnerWrites
	if late && sleep.Round < maxRounds {
		return scaleDown(in, m, nextRound(sleep))
	}
	return handleStartedByOthers(in, group, m)
}

// replicasWriter names the client that last wrote the replicas.
func replicasWriter(set *appsv1.StatefulSet) string {
	if manager := statefulset.ReplicasManager(set); manager != "" {
		return fmt.Sprintf("field manager %q", manager)
	}
	return "another client"
}
