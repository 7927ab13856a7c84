package idletimeout

import (
	"cmp"
	"fmt"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/events"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/members"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// situation is what the checks judge: one set of the group, and the verdict on it.
type situation struct {
	in    Input
	group idle.Group
	m     idle.Member
	v     idle.Verdict
}

// namedCheck is a line of a list. The first line that applies decides, so each line may rely on those before it.
type namedCheck struct {
	when    string
	applies func(s situation) bool
	decide  func(s situation) plan.Plan
}

// first returns what the first check that applies decides. The last check of each list always applies.
func first(checks []namedCheck, s situation) plan.Plan {
	for _, c := range checks {
		if c.applies(s) {
			return c.decide(s)
		}
	}
	return plan.Noop(api.NotOurPhase)
}

func always(situation) bool { return true }

func noop(reason api.Reason) func(situation) plan.Plan {
	return func(situation) plan.Plan { return plan.Noop(reason) }
}

// memberChecks decide about one set of the group.
var memberChecks = []namedCheck{
	{"it is being deleted", func(s situation) bool { return s.m.Set.DeletionTimestamp != nil }, noop(api.SetGone)},
	{"the record of its sleep cannot be read", func(s situation) bool { return s.m.SleepErr != nil }, func(s situation) plan.Plan {
		return reportUnreadableSleep(s.in, s.m)
	}},
	{"it is waking up", func(s situation) bool { return s.m.Sleep.Active() && s.m.Sleep.Phase == api.Waking },
		func(s situation) plan.Plan { return first(wakingChecks, s) }},
	{"it falls asleep or sleeps", func(s situation) bool { return s.m.Sleep.Active() }, func(s situation) plan.Plan {
		return first(sleepChecks, s.withStopOfSibling())
	}},
	{"it lost the record of its sleep", func(s situation) bool { return s.m.LostSleep }, func(s situation) plan.Plan {
		return wake(s.in, s.group, s.m, s.in.lostSleep(s.m), api.WakingUp, "the set lost the record of its sleep")
	}},
	{"it is not opted in", func(s situation) bool { return !statefulset.Managed(s.m.Set) }, noop(api.NotManaged)},
	{"another operation runs", func(s situation) bool { return s.m.Busy }, noop(api.InProgress)},
	{"its settings are invalid, as reported", func(s situation) bool { return s.m.Err != nil && s.m.InvalidReported() },
		noop(api.AlreadyRefused)},
	{"its settings are invalid", func(s situation) bool { return s.m.Err != nil }, func(s situation) plan.Plan {
		return refuseSleep(s.in, s.m, api.AwaitsCorrection, api.RequestInvalid, s.m.InvalidMessage())
	}},
	{"the cause of its refusal is gone, and no next sleep replaces the record", func(s situation) bool {
		return s.m.IsCorrected() && (s.v.Awake || statefulset.Replicas(s.m.Set) == 0)
	}, func(s situation) plan.Plan { return storeCorrection(s.m) }},
	{"it became ready after its wake-up had failed", func(s situation) bool { return s.m.BecameReadyLate() },
		func(s situation) plan.Plan { return storeLateReady(s.in, s.m) }},
	{"it is at zero", func(s situation) bool { return statefulset.Replicas(s.m.Set) == 0 }, func(s situation) plan.Plan {
		return handleAtZero(s.in, s.group, s.m)
	}},
	{"it has no reason to be awake", func(s situation) bool { return !s.v.Awake }, func(s situation) plan.Plan {
		return first(startChecks, s)
	}},
	{"its idle time begins", func(s situation) bool { return s.m.Rules.LastActivity.IsZero() && s.group.Timeout() > 0 },
		func(s situation) plan.Plan {
			return plan.Do(api.ActivityNoted, setLastActivity(plan.PatchOf(plan.StatefulSets, s.m.Set), s.m, s.in.Now).Actions()...)
		}},
	{"it is awake", always, noop(api.NotIdle)},
}

// startChecks decide whether a sleep begins, or has to wait for something first.
var startChecks = []namedCheck{
	{"an earlier sleep failed not long ago", func(s situation) bool { return s.in.isBackingOff(s.m, s.v) }, noop(api.AlreadyRefused)},
	{"its Scaler is paused", func(s situation) bool { return s.in.isScalerPaused(s.m) }, noop(api.SetPaused)},
	{"a rollout runs", func(s situation) bool { return statefulset.WhyRollingOut(s.m.Set) != "" }, func(s situation) plan.Plan {
		return plan.Wait(api.RolloutRunning, "%s", statefulset.WhyRollingOut(s.m.Set))
	}},
	{"a set that depends on it is awake, and no user pauses it", func(s situation) bool {
		return awakeDependent(s.group, s.m) != "" && s.v.Request != idle.RequestPaused
	}, func(s situation) plan.Plan {
		return plan.Wait(api.DependentAwake, "%s depends on this set and is not asleep yet", awakeDependent(s.group, s.m))
	}},
	{"the activity probes keep it awake", func(s situation) bool {
		return s.v.Probes && (!allProbed(s.in.Probes, s.group) || s.in.anyProbeKeepsAwake())
	}, noop(api.AlreadyRefused)},
	{"nothing is in the way", always, func(s situation) plan.Plan { return startSleep(s.in, s.m, s.v) }},
}

// sleepChecks continue a sleep until the set is needed.
var sleepChecks = []namedCheck{
	{"another client scaled it to zero first, and is responsible for its wake-up", situation.isAtZeroOfOthers, func(s situation) plan.Plan {
		return conclude(s.in, s.m, api.Succeeded, api.AtZeroAlready, replicasWriter(s.m.Set)+" scaled the set to zero")
	}},
	{"it is no longer opted in", func(s situation) bool { return !statefulset.Managed(s.m.Set) }, func(s situation) plan.Plan {
		return wake(s.in, s.group, s.m, s.m.Sleep, api.WakingUp, "the set is no longer opted in")
	}},
	{"its user aborts", func(s situation) bool { return operation.Aborted(s.m.Set) }, func(s situation) plan.Plan {
		return failSleep(s.in, s.group, s.m, s.m.Sleep, api.Aborted, "aborted at the user's request")
	}},
	{"another client started it, also if it is needed: a client that scales it to zero later means it", func(s situation) bool {
		return isStopped(s.m) && s.m.Sleep.Phase != api.Planned && statefulset.Replicas(s.m.Set) > 0 &&
			!members.OperatorIsLate(s.m.Set, s.in.Now)
	}, func(s situation) plan.Plan { return handleStarted(s.in, s.group, s.m) }},
	{"it is needed", func(s situation) bool { return s.v.Awake }, func(s situation) plan.Plan {
		return wake(s.in, s.group, s.m, s.m.Sleep, api.WakingUp, s.v.Why)
	}},
	{"it is being stopped", func(s situation) bool { return s.m.Sleep.Phase == api.Stopping }, func(s situation) plan.Plan {
		return first(stopChecks, s)
	}},
	{"it sleeps", func(s situation) bool { return s.m.Sleep.Phase == api.Asleep && statefulset.Replicas(s.m.Set) == 0 },
		noop(api.StaysAsleep)},
	{"it sleeps, and has replicas", func(s situation) bool { return s.m.Sleep.Phase == api.Asleep }, func(s situation) plan.Plan {
		return handleStarted(s.in, s.group, s.m)
	}},
	{"pause-owner has yet to agree", always, noop(api.NotOurPhase)},
}

// stopChecks wait until scale, or the operator of the set, has stopped all pods.
var stopChecks = []namedCheck{
	{"all pods have ended", func(s situation) bool {
		return statefulset.AtZero(s.m.Set) && (isStopped(s.m) || s.m.Sleep.OwnerStops)
	}, func(s situation) plan.Plan { return fallAsleep(s.in, s.m) }},
	{"the API server rejected the stop", func(s situation) bool {
		return s.m.Stop.Of(s.m.Sleep) && s.m.Stop.RefusedAt != nil && !isStopped(s.m)
	}, func(s situation) plan.Plan {
		return failSleep(s.in, s.group, s.m, s.m.Sleep, api.Rejected,
			fmt.Sprintf("the API server rejected a write of the scale-down: %s. Remove the cause", s.m.Stop.Refused))
	}},
	{"the scaling to zero failed", func(s situation) bool { return failedStop(s.m) != nil && !isStopped(s.m) }, func(s situation) plan.Plan {
		failed := failedStop(s.m)
		return failSleep(s.in, s.group, s.m, s.m.Sleep, failed.Reason, fmt.Sprintf("the scale-down to zero failed: %s", failed.Message))
	}},
	{"it takes too long", func(s situation) bool { return s.in.Now.After(s.in.stopDeadline(s.m)) }, func(s situation) plan.Plan {
		return failSleep(s.in, s.group, s.m, s.m.Sleep, api.DeadlineExceeded, whyNotStopped(s.in, s.m))
	}},
	{"its operator stops it", func(s situation) bool { return s.m.Sleep.OwnerStops }, func(s situation) plan.Plan {
		return plan.Wait(api.ScalingDown, "its operator scales it to zero, %d replicas are left", s.m.Set.Status.Replicas)
	}},
	{"another client started it", func(s situation) bool { return isStopped(s.m) && statefulset.Replicas(s.m.Set) > 0 },
		func(s situation) plan.Plan { return handleStarted(s.in, s.group, s.m) }},
	{"pods are left", always, func(s situation) plan.Plan {
		return plan.Wait(api.ScalingDown, "%d replicas are left", s.m.Set.Status.Replicas)
	}},
}

// wakingChecks wait until a waking set is ready. While it is at zero the sleep does not end, unless another client scaled it to zero.
var wakingChecks = []namedCheck{
	{"it waits for a set that it depends on", func(s situation) bool {
		return statefulset.Replicas(s.m.Set) == 0 && s.m.Sleep.Step == api.AwaitsDependency
	}, func(s situation) plan.Plan { return awaitDependency(s.in, s.group, s.m) }},
	{"its operator has to start it", func(s situation) bool { return statefulset.Replicas(s.m.Set) == 0 && s.m.Sleep.OwnerStops },
		func(s situation) plan.Plan { return first(operatorChecks, s) }},
	{"its Scaler scales it, possibly still to zero", func(s situation) bool { return s.in.scalingRuns(s.m) }, func(situation) plan.Plan {
		return plan.Wait(api.WaitingForReady, "its Scaler scales it") // whenScaled stays Retain
	}},
	{"it is at zero", func(s situation) bool { return statefulset.Replicas(s.m.Set) == 0 }, func(s situation) plan.Plan {
		return first(zeroChecks, s)
	}},
	{"it has replicas", always, func(s situation) plan.Plan { return first(readyChecks, s) }},
}

// operatorChecks wait until the operator that stopped the set has started it. If it does not, scale restores the replicas once.
var operatorChecks = []namedCheck{
	{"its operator has time left", func(s situation) bool { return s.m.Sleep.Step != api.StartedForOwner && !s.isOverdue() },
		func(s situation) plan.Plan {
			return plan.Wait(api.WaitingForReady, "0 of %d replicas are ready; its operator has to start them", wantedReplicas(s.m.Sleep))
		}},
	{"its operator is away", func(s situation) bool { return s.m.Sleep.Step != api.StartedForOwner }, func(s situation) plan.Plan {
		return startForOwner(s.in, s.m)
	}},
	{"the API server rejected its replicas", func(s situation) bool { return s.m.Stop.Of(s.m.Sleep) && s.m.Stop.RefusedAt != nil },
		func(s situation) plan.Plan { return noteRefusedStart(s.in, s.m) }},
	{"scale has yet to ask its pods back", func(s situation) bool { return !isStarted(s.m) }, func(situation) plan.Plan {
		return plan.Wait(api.WaitingForReady, "its pods have not been asked back yet")
	}},
	{"its operator stops it again", func(s situation) bool { return !statefulset.AtZero(s.m.Set) && !s.isOverdue() },
		func(situation) plan.Plan { return plan.Wait(api.ScalingDown, "its operator scales it to zero again") }},
	{"its operator obeys a stop that Drydock cannot end", func(s situation) bool { return s.m.Sleep.OwnerProblem != "" },
		func(s situation) plan.Plan {
			return conclude(s.in, s.m, api.Failed, api.OwnerStays, s.m.Sleep.OwnerProblem+". So its operator scaled the set to zero again")
		}},
	{"its operator keeps it at zero", always, func(s situation) plan.Plan {
		return conclude(s.in, s.m, api.Succeeded, api.AtZeroAlready, replicasWriter(s.m.Set)+" scaled the set to zero again")
	}},
}

// zeroChecks decide about a waking set at zero. Its pods have yet to be asked back, or another client has scaled it to zero.
var zeroChecks = []namedCheck{
	{"its Scaler is paused", func(s situation) bool { return s.scaler() != nil && s.scaler().Spec.Paused }, func(s situation) plan.Plan {
		return conclude(s.in, s.m, api.Succeeded, api.SetPaused, fmt.Sprintf("its Scaler %s is paused, so it stays at zero. To start it, set "+
			"spec.paused of the Scaler to false", s.scaler().Name))
	}},
	{"its Scaler failed to start it", func(s situation) bool { return scalerFailedToStart(s.m) }, func(s situation) plan.Plan {
		record := operation.Of(s.m.Set).Scale
		return conclude(s.in, s.m, api.Failed, record.Reason,
			fmt.Sprintf("Scaler %s could not start the set: %s", record.Scaler.Name, record.Message))
	}},
	{"its Scaler requests no pods", func(s situation) bool { return s.scaler() != nil && !s.in.scalerStartsSet(s.m) },
		func(s situation) plan.Plan {
			return conclude(s.in, s.m, api.Succeeded, api.AtZeroAlready, fmt.Sprintf("its Scaler %s requests no pods, so it stays at zero. To "+
				"start it, scale the Scaler", s.scaler().Name))
		}},
	{"the API server rejected its replicas, and not the stop", func(s situation) bool {
		return s.awaitsStart() && s.m.Stop.Of(s.m.Sleep) && s.m.Stop.RefusedAt != nil
	}, func(s situation) plan.Plan { return noteRefusedStart(s.in, s.m) }},
	{"scale has yet to ask its pods back: an end would forget the order", func(s situation) bool {
		return s.scaler() != nil && !s.isOverdue() || s.scaler() == nil && s.awaitsStart()
	}, func(situation) plan.Plan {
		return plan.Wait(api.WaitingForReady, "its pods have not been asked back yet")
	}},
	{"another client stops it again", func(s situation) bool { return !statefulset.AtZero(s.m.Set) && !s.isOverdue() },
		func(situation) plan.Plan {
			return plan.Wait(api.ScalingDown, "another client scales it to zero again; its claims are retained until all pods have ended")
		}},
	{"its Scaler takes too long", func(s situation) bool { return s.scaler() != nil }, func(s situation) plan.Plan {
		return conclude(s.in, s.m, api.Failed, api.NotReady, fmt.Sprintf("Scaler %s has not started the set in time. Read its status",
			s.scaler().Name))
	}},
	{"another client stopped it again", always, func(s situation) plan.Plan {
		return conclude(s.in, s.m, api.Succeeded, api.AtZeroAlready, replicasWriter(s.m.Set)+" scaled the set to zero")
	}},
}

// readyChecks wait until the pods of a waking set are ready.
var readyChecks = []namedCheck{
	{"its operator starts it", func(s situation) bool { return s.operatorStarts() && !s.isOverdue() }, func(s situation) plan.Plan {
		return plan.Wait(api.WaitingForReady, "its operator has started %d of %d replicas", statefulset.Replicas(s.m.Set), s.m.Sleep.Replicas)
	}},
	{"its operator takes too long", situation.operatorStarts, func(s situation) plan.Plan {
		return conclude(s.in, s.m, api.Failed, api.NotReady, fmt.Sprintf("its operator has started only %d of %d replicas in time. Check the "+
			"operator. The claims of the others are kept", statefulset.Replicas(s.m.Set), s.m.Sleep.Replicas))
	}},
	{"it is ready after a sleep that failed", func(s situation) bool {
		return idle.EnoughReady(s.m.Set, true) && s.m.Sleep.FailedAt != ""
	}, func(s situation) plan.Plan {
		failure := cmp.Or(s.m.Sleep.Failure, &api.SleepFailure{Reason: s.m.Sleep.Reason, Message: s.m.Sleep.Message})
		return conclude(s.in, s.m, api.Failed, failure.Reason, failure.Message)
	}},
	{"it is ready", func(s situation) bool { return idle.EnoughReady(s.m.Set, true) }, func(s situation) plan.Plan {
		reason, message := s.in.successOf(s.m.Sleep)
		return conclude(s.in, s.m, api.Succeeded, reason, message)
	}},
	{"its pods take too long", situation.isOverdue, func(s situation) plan.Plan {
		return conclude(s.in, s.m, api.Failed, api.NotReady, fmt.Sprintf("only %d of %d replicas became ready in time. Check the pods",
			s.m.Set.Status.ReadyReplicas, statefulset.Replicas(s.m.Set)))
	}},
	{"pods are not ready yet", always, func(s situation) plan.Plan {
		return plan.Wait(api.WaitingForReady, "%d of %d replicas are ready", s.m.Set.Status.ReadyReplicas, statefulset.Replicas(s.m.Set))
	}},
}

// withStopOfSibling returns the situation with a fact that pause-owner has yet to store: its operator has stopped all its sets.
func (s situation) withStopOfSibling() situation {
	if s.m.Sleep.Phase == api.Planned && s.group.StoppedWithSibling(s.m) {
		s.m.Sleep = s.m.Sleep.Clone()
		s.m.Sleep.OwnerStops = true
	}
	return s
}

// isAtZeroOfOthers reports whether the set is at zero before Drydock has stopped it.
func (s situation) isAtZeroOfOthers() bool {
	sleep, ends := s.m.Sleep, s.v.Awake || operation.Aborted(s.m.Set)
	return !s.m.Stop.Of(sleep) && !sleep.OwnerStops && sleep.Phase != api.Asleep && (sleep.Phase == api.Stopping || ends) &&
		statefulset.Replicas(s.m.Set) == 0
}

// isOverdue reports whether the wake-up has taken too long.
func (s situation) isOverdue() bool { return operation.Overdue(s.m.Sleep, s.in.Now) }

// scaler returns the Scaler of the set, or nil.
func (s situation) scaler() *v1alpha1.Scaler { return s.in.Scalers[s.m.Set.Name] }

// awaitsStart reports whether scale has an order to ask the pods back.
func (s situation) awaitsStart() bool {
	return isStopped(s.m) || members.OrdersStart(s.m.Sleep, s.m.Stop)
}

// operatorStarts reports whether the operator of the set has started only some of its pods.
func (s situation) operatorStarts() bool {
	return s.m.Sleep.OwnerStops && statefulset.Replicas(s.m.Set) < s.m.Sleep.Replicas
}

// fallAsleep stores that all pods have ended.
func fallAsleep(in Input, m idle.Member) plan.Plan {
	next := m.Sleep.Clone()
	next.Phase, next.PodsGoneAt, next.Deadline = api.Asleep, operation.Moment(in.Now), nil
	if isStopped(m) {
		next.Replicas = m.Stop.Replicas
	}
	next.Reason, next.Message = api.FellAsleep, fmt.Sprintf("the set gets its %d replicas back when it is needed", next.Replicas)
	return plan.Do(api.FellAsleep, append(operation.Store(m.Set, next).Actions(), operation.NoteOf(m.Set, next, false))...).
		Then(events.Scaled, next.Operation)
}
