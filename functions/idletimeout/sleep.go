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
	// rounds limits how often a set is scaled to zero again after another client has restored its replicas.
	rounds = 3
	// settle is how long after falling asleep an operator that had read its resource before the pause may still write.
	settle = time.Minute
)

// continueSleep takes the next step of a sleep.
func continueSleep(in Input, group idle.Group, m idle.Member, v idle.Verdict) plan.Plan {
	sleep := m.Sleep
	_, abort := m.Set.Annotations[api.AbortAnnotation]
	if sleep.Phase != api.Waking {
		ends := v.Awake || abort || !statefulset.Managed(m.Set)
		untouched := sleep.Stopping == nil && !sleep.OwnerStops && (sleep.Phase == api.Stopping || ends)
		switch {
		case untouched && statefulset.Replicas(m.Set) == 0: // another client was faster, and has to wake it
			return conclude(in, m, api.Succeeded, api.AtZeroAlready, writer(m.Set)+" has scaled it to zero")
		case abort:
			return giveUp(in, group, m, sleep, api.Aborted, "aborted")
		case !statefulset.Managed(m.Set):
			return wake(in, group, m, sleep, api.WakingUp, "it is not opted in any more")
		case v.Awake:
			return wake(in, group, m, sleep, api.WakingUp, v.Why)
		}
	}
	switch sleep.Phase {
	case api.Stopping:
		return stopping(in, group, m)
	case api.Asleep:
		return sleeping(in, group, m)
	case api.Waking:
		return waking(in, group, m)
	}
	return plan.Noop(api.NotOurPhase)
}

// rejected reports whether the API server has refused a write on the member for good.
func (in Input) rejected(m idle.Member) bool { return in.Rejected != "" && m.Set.Name == in.Name }

// stopping scales the set to zero, or waits until its operator has.
func stopping(in Input, group idle.Group, m idle.Member) plan.Plan {
	sleep, replicas := m.Sleep, statefulset.Replicas(m.Set)
	scaled := sleep.Stopping != nil
	switch {
	case in.rejected(m):
		return giveUp(in, group, m, sleep, api.Rejected, "the API server refuses: "+in.Rejected)
	case statefulset.AtZero(m.Set) && (scaled || sleep.OwnerStops):
		next := sleep.Clone()
		next.Phase, next.Quiesced, next.Deadline = api.Asleep, operation.Moment(in.Now), nil
		next.Reason, next.Message = api.FellAsleep, fmt.Sprintf("%d replicas come back when somebody needs them", sleep.Replicas)
		return plan.Do(api.FellAsleep, append(operation.Store(m.Set, next).Actions(), operation.NoteOf(m.Set, next, false))...).Then(events.Scaled, sleep.Operation)
	case operation.Overdue(sleep, in.Now):
		return giveUp(in, group, m, sleep, api.DeadlineExceeded, fmt.Sprintf("%d pods did not end within %s and their own grace period, "+
			"so the set is started again. Look at the pods, their finalizers and nodes", m.Set.Status.Replicas, in.Settings.QuiesceTimeout))
	case sleep.OwnerStops:
		return plan.Wait(api.ScalingDown, "its operator stops it, %d replicas are left", m.Set.Status.Replicas)
	case scaled && in.Scalers[m.Set.Name] != nil:
		return stoppingByScaler(in, group, m)
	case replicas == 0 && scaled:
		return plan.Wait(api.ScalingDown, "%d replicas are left", m.Set.Status.Replicas)
	case scaled && statefulset.Controller(m.Set) == nil: // there is no operator that could be late: another client wants it awake
		return startedByOthers(in, group, m)
	case scaled && sleep.Round >= rounds:
		return giveUp(in, group, m, countStarts(in, m), api.StartedByOthers, fmt.Sprintf("%s put %d replicas back %d times", writer(m.Set), replicas, sleep.Round))
	case scaled:
		return scaleDown(in, m, again(sleep))
	}
	next := sleep.Clone()
	next.Replicas = replicas
	return scaleDown(in, m, next)
}

// again is another round of a sleep. The count that comes back is the one from before it.
func again(sleep *api.Sleep) *api.Sleep {
	next := sleep.Clone()
	next.Round++
	next.Phase, next.Quiesced = api.Stopping, nil
	return next
}

// scaleDown records the number of replicas in the same write that sets it to zero, and keeps the claims of the stopped pods.
func scaleDown(in Input, m idle.Member, next *api.Sleep) plan.Plan {
	next.Stopping = operation.Moment(in.Now)
	next.Deadline = operation.Moment(in.Now.Add(in.Settings.QuiesceTimeout + statefulset.GracePeriod(m.Set) + in.hooksTake(m)))
	patch := plan.PatchOf(plan.StatefulSets, m.Set)
	if found := statefulset.WhenScaled(m.Set); found != statefulset.Retain {
		next.WhenScaled = found
		patch.Replace(statefulset.WhenScaledPath, statefulset.Retain, "whenScaled Retain")
	}
	patch.Annotate(api.SleepAnnotation, next.Encode())
	pause := in.scale(patch, m, 0)
	return plan.Do(api.ScalingDown, slices.Concat(in.remember(m, next), patch.Actions(), pause)...)
}

// sleeping handles a set that sleeps and has no reason to wake. If it has replicas, its operator is late, or another client wants it
// awake.
func sleeping(in Input, group idle.Group, m idle.Member) plan.Plan {
	sleep, replicas := m.Sleep, statefulset.Replicas(m.Set)
	if replicas == 0 {
		return plan.Noop(api.StaysAsleep)
	}
	late := statefulset.Controller(m.Set) != nil && !sleep.OwnerStops && sleep.Quiesced != nil && in.Now.Sub(sleep.Quiesced.Time) < settle
	if late && sleep.Round < rounds {
		return scaleDown(in, m, again(sleep))
	}
	return startedByOthers(in, group, m)
}

func writer(set *appsv1.StatefulSet) string {
	if manager := statefulset.ReplicasManager(set); manager != "" {
		return fmt.Sprintf("field manager %q", manager)
	}
	return "somebody"
}
