package members

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/statefulset"
)

// Asleep reports whether a sleep keeps the set without pods now, although its Scaler may request some. A lost sleep does until idle-timeout
// has written that the set wakes up.
func Asleep(set *appsv1.StatefulSet) bool { return HoldingSleep(set) != nil || LostSleep(set) }

// HoldingSleep returns the sleep that keeps the set without pods now, or nil. If the set's operator stops the pods itself, it
// holds them, and Drydock does not. A sleep that cannot be read holds nothing that runs and starts nothing that does not.
func HoldingSleep(set *appsv1.StatefulSet) *api.Sleep {
	sleep, err := api.LoadSleep(set)
	if err != nil || !sleep.Active() || sleep.OwnerStops {
		return nil
	}
	switch {
	case sleep.Phase == api.Stopping, sleep.Phase == api.Asleep:
		return sleep
	case sleep.Phase == api.Waking && sleep.Step == api.AwaitsDependency:
		return sleep
	}
	return nil
}

// LostSleep reports whether the set is stopped for a sleep and has lost its record, for example because a manifest has replaced its
// annotations. idle-timeout then writes that it wakes up, and that it was used.
func LostSleep(set *appsv1.StatefulSet) bool {
	stop := api.LoadStop(set)
	sleep, err := api.LoadSleep(set)
	return stop.Pending() && stop.Kind == api.KindSleep && statefulset.Managed(set) && statefulset.Replicas(set) == 0 &&
		!stop.Of(sleep) && err == nil && !sleep.Active()
}

// StopStep is the next step of the stop of a set's pods.
type StopStep int

const (
	NoStep    StopStep = iota
	StopPods           // scale the set to zero
	StartPods          // ask the pods back
	NoteStart          // store that another client has started the pods
	RenewStop          // store the Stop with the UID of the set that a resize has created again
	EndStop            // restore the retention policy, and remove the Stop
)

// ChangesNoCount reports whether the step leaves the replicas as they are. Such a step waits for no other operation.
func (s StopStep) ChangesNoCount() bool { return s == RenewStop || s == EndStop }

// NextStopStep returns the next step for a set. Retry is the time between two tries to write a count that the API server rejects.
//
// If the set has lost the sleep of a pending Stop, idle-timeout writes that it wakes up. It may not do so on a set that has left Drydock.
// The Stop for a paused Scaler ends when the Scaler asks for pods, or when it is deleted. Until then, the Scaler undoes what other clients
// start.
func NextStopStep(set *appsv1.StatefulSet, now time.Time, retry time.Duration) StopStep {
	sleep, sleepErr := api.LoadSleep(set)
	scaling, _ := api.LoadScale(set) // scale reports an unreadable one
	stop := api.LoadStop(set)
	held, atZero := HoldingSleep(set), statefulset.Replicas(set) == 0
	switch {
	case set.DeletionTimestamp != nil, sleepErr != nil:
		return NoStep
	case stop != nil && stop.Set.UID != set.UID:
		return RenewStop
	case held != nil && !atZero:
		first := held.Phase == api.Stopping && !stop.Of(held) && !operation.Aborted(set)
		if first || stop.Of(held) && OperatorIsLate(set, now) {
			return StopPods
		}
		return NoStep
	case held != nil:
		return NoStep
	// idle-timeout may have seen that other clients started the pods. A client that scales to zero later means it.
	case stop.Pending() && stop.Of(sleep) && sleep.Active() && (!atZero || sleep.StartedByOthers()):
		return NoteStart
	case atZero && (stop.Pending() && stop.Kind == api.KindSleep && (stop.Of(sleep) || !statefulset.Managed(set)) ||
		OrdersStart(sleep, stop)):
		if stop != nil && stop.RefusedAt != nil && operation.Within(now, stop.RefusedAt.Time, retry) {
			return NoStep
		}
		return StartPods
	case stop == nil, sleep.Active(): // it still asks whether its pods were asked back, or will stop them
		return NoStep
	case stop.Pending() && (atZero || scaling != nil && scaling.Paused): // its Scaler starts the pods
		return NoStep
	case stop.WhenScaled != "" && podsEnd(set):
		return NoStep
	}
	return EndStop
}

// PolicyToRestore returns the retention policy that the set had before its stop, if Drydock alone has written the present one. It is empty
// otherwise: the policy is that of a user, also if it has the value that Drydock has written.
func PolicyToRestore(set *appsv1.StatefulSet) appsv1.PersistentVolumeClaimRetentionPolicyType {
	stop := api.LoadStop(set)
	if stop == nil || statefulset.WhenScaled(set) != statefulset.Retain || !statefulset.RetainsForDrydock(set) {
		return ""
	}
	return stop.WhenScaled
}

// OrdersStart reports whether the sleep wants pods that scale has not stopped: it began with the wake-up, or the operator that
// stopped them does not start them. They are asked for once.
func OrdersStart(sleep *api.Sleep, stop *api.Stop) bool {
	if !sleep.Active() || sleep.Phase != api.Waking || stop.Of(sleep) && stop.StartedAt != nil {
		return false
	}
	return sleep.Step == api.StartedForOwner || sleep.Step == "" && sleep.WakingAt == nil && !sleep.OwnerStops
}

// lateOperator is how long after a stop a write may still come from an operator that read its resource before its pause.
const lateOperator = time.Minute

// OperatorIsLate reports whether the set was scaled up so soon after its stop that its operator may not have known of its pause. The set is
// then stopped once more. Later, after that, or if the API server rejects that, the client that scales it up needs it.
func OperatorIsLate(set *appsv1.StatefulSet, now time.Time) bool {
	stop := api.LoadStop(set)
	return stop.Pending() && !stop.Again && stop.RefusedAt == nil && statefulset.Controller(set) != nil && !hasScaler(set) &&
		operation.Within(now, stop.StoppedAt.Time, lateOperator)
}

func hasScaler(set *appsv1.StatefulSet) bool {
	scaling, err := api.LoadScale(set)
	return err == nil && scaling != nil
}

// podsEnd reports whether pods may still end because of a lower count. The retention policy Delete would take their claims with them.
func podsEnd(set *appsv1.StatefulSet) bool {
	return set.Status.Replicas > statefulset.Replicas(set) || statefulset.Replicas(set) == 0 && !statefulset.AtZero(set)
}

// NextStop returns the Stop with which the operation stops the pods of the set. It takes over what an earlier Stop has set aside.
func NextStop(set *appsv1.StatefulSet, operationID string, kind api.Kind) *api.Stop {
	stop := api.LoadStop(set)
	next := &api.Stop{Set: api.SetRef{Name: set.Name, UID: set.UID}, Operation: operationID, Kind: kind, Replicas: statefulset.Replicas(set)}
	if stop != nil {
		next.WhenScaled = stop.WhenScaled
	}
	// Pods that others have started during the stop of an earlier sleep are the count of the next one. A paused Scaler undoes them.
	if stop.Pending() && (stop.Operation == operationID || kind == api.KindScale || next.Replicas == 0) {
		next.Replicas, next.Again = max(stop.Replicas, 1), stop.Operation == operationID
	}
	return next
}

// NextStart returns the Stop of a set at zero after its pods were asked back for StartPods. Its Replicas are the count to write. The set
// has the Stop of a sleep, or a sleep whose operator does not start the pods.
func NextStart(set *appsv1.StatefulSet, now time.Time) *api.Stop {
	next := api.LoadStop(set)
	if !next.Pending() || next.Kind != api.KindSleep {
		sleep := operation.Of(set).Sleep
		next = NextStop(set, sleep.Operation, api.KindSleep)
		next.Replicas, next.Again = sleep.Replicas, false
	}
	next = Started(next, now)
	next.Replicas = max(next.Replicas, 1)
	return next
}

// Started returns the Stop after its pods were asked back.
func Started(stop *api.Stop, now time.Time) *api.Stop {
	next := stop.Clone()
	next.StartedAt, next.Refused, next.RefusedAt = operation.Moment(now), "", nil
	return next
}

// StoredStop returns the latest Stop of the set in the records of stops, or nil, and why a record cannot be read. A record that is being
// deleted does not count, although a finalizer of another client may keep it for long. Neither does one whose sleep has ended: its pods
// were asked back, or were never stopped.
func StoredStop(set *appsv1.StatefulSet, records []*appsv1.ControllerRevision) (latest *api.Stop, err error) {
	sleep := operation.Of(set).Sleep
	for _, record := range records {
		link := api.RevisionLink(record)
		if link == nil || !link.Set.IsOf(set) || record.DeletionTimestamp != nil {
			continue
		}
		stop, problem := api.LoadStopRecord(record)
		switch {
		case problem != nil:
			err = problem
		case stop.Operation != link.Operation || stop.Set != link.Set || stop.StoppedAt == nil || stop.Of(sleep) && !sleep.Active():
		case latest == nil || latest.StoppedAt.Before(stop.StoppedAt):
			latest = stop
		}
	}
	return latest, err
}
