package scale

import (
	"cmp"
	"fmt"
	"slices"

	"drydock.dev/shared/api"
	"drydock.dev/shared/members"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/text"
)

// stops stops the pods of a set for a sleep or a paused Scaler, and starts them again.
type stops struct{ work }

func (w work) stops() stops { return stops{w} }

// keepStop takes the next step of the stop of a set that no Scaler scales: it scales the set to zero for its sleep, and back.
func (s stops) keepStop() plan.Plan {
	step := s.stopStep()
	switch {
	case step == members.StopPods && s.rejects(api.ScalingDown), step == members.StartPods && s.rejects(api.WakingUp):
		return s.noteRefusal(step)
	case step == members.StopPods:
		patch, next := plan.PatchOf(plan.StatefulSets, s.Set), members.NextStop(s.Set, members.HoldingSleep(s.Set).Operation, api.KindSleep)
		actions := append(s.beginStop(patch, next), patch.Actions()...)
		return plan.Do(api.ScalingDown, actions...)
	case step == members.StartPods:
		return s.startPods()
	case step == members.NoteStart:
		return plan.Do(api.StatusUpdated, s.storeStop(members.Started(s.stop, s.Now)).Actions()...)
	}
	return s.tidyStop(step)
}

// stopStep returns the next step of the stop of the set.
func (s stops) stopStep() members.StopStep {
	return members.NextStopStep(s.Set, s.Now, s.Settings.SleepRetry)
}

// rejects reports whether the API server rejected a write of the plan with this reason.
func (in Input) rejects(reason api.Reason) bool {
	return in.Rejected != "" && in.RejectedPlan == reason
}

// tidyStop takes the steps of a stop that change no count.
func (s stops) tidyStop(step members.StopStep) plan.Plan {
	stored, unreadable := members.StoredStop(s.Set, s.Records)
	switch {
	case step == members.RenewStop:
		next := s.stop.Clone()
		next.Set.UID = s.Set.UID
		actions := s.deleteRecords().Actions
		if next.Pending() {
			actions = append(actions, plan.Create(plan.ControllerRevisions, resources.MakeStopRecord(s.Set, next)))
		}
		return plan.Do(api.StatusUpdated, append(actions, s.storeStop(next).Actions()...)...)
	case step == members.EndStop:
		return s.endStop()
	case s.stop != nil:
		return plan.Noop(api.StaysAsleep)
	case unreadable != nil && statefulset.Replicas(s.Set) == 0 && s.scaler != nil: // the Scaler has a count
		return plan.Noop(api.LinkInvalid)
	case unreadable != nil && statefulset.Replicas(s.Set) == 0:
		return plan.Do(api.LinkInvalid, s.warn(api.LinkInvalid, "%v. Scale the set to its previous replica count, then delete this "+
			"ControllerRevision", unreadable))
	case stored != nil && statefulset.Replicas(s.Set) == 0: // for example, a manifest has replaced all annotations
		return plan.Do(api.StatusUpdated, s.storeStop(stored).Actions()...)
	case members.HoldingSleep(s.Set) == nil:
		return s.deleteRecords()
	}
	return plan.Noop(api.NotIdle)
}

// mayRestoreStop reports whether a set at zero has lost its Stop, and has the record of it.
func (s stops) mayRestoreStop() bool {
	stored, _ := members.StoredStop(s.Set, s.Records)
	return s.stop == nil && stored != nil && statefulset.Replicas(s.Set) == 0
}

// beginStop adds a stop to the patch: the count of zero, and Retain so that no claim of a stopped pod is deleted. It returns the writes
// before the patch, which create the record of the stop.
func (s stops) beginStop(patch *plan.Patch, next *api.Stop) []plan.Action {
	next.StoppedAt = operation.Moment(s.Now)
	if found := statefulset.WhenScaled(s.Set); found != statefulset.Retain {
		next.WhenScaled = found
		patch.Replace(statefulset.WhenScaledPath, statefulset.Retain, "whenScaled Retain")
	}
	patch.Annotate(api.StopAnnotation, next.Encode())
	s.setCount(patch, 0)
	return s.ensureRecord(next)
}

// beginStopFor adds the stop of the paused scaling to the patch, like beginStop. While the set sleeps, it is the stop of the sleep.
func (s stops) beginStopFor(scaling *api.Scale, patch *plan.Patch) []plan.Action {
	if sleep := members.HoldingSleep(s.Set); sleep != nil {
		return s.beginStop(patch, members.NextStop(s.Set, sleep.Operation, api.KindSleep))
	}
	return s.beginStop(patch, members.NextStop(s.Set, scaling.Operation, api.KindScale))
}

// startPods asks the pods of a set at zero back.
func (s stops) startPods() plan.Plan {
	next, patch := members.NextStart(s.Set, s.Now), plan.PatchOf(plan.StatefulSets, s.Set)
	patch.Annotate(api.StopAnnotation, next.Encode())
	s.setCount(patch, next.Replicas)
	return plan.Do(api.WakingUp, patch.Actions()...)
}

// noteRefusal stores why the API server rejected the count of the step. A sleep that could not stop the set fails by that, and a start is
// tried again later.
func (s stops) noteRefusal(step members.StopStep) plan.Plan {
	next, sleep := s.stop, operation.Of(s.Set).Sleep
	if next == nil || step == members.StopPods && !next.Of(sleep) || step == members.StartPods && !next.Pending() {
		next = members.NextStop(s.Set, sleep.Operation, api.KindSleep)
		next.Replicas = cmp.Or(next.Replicas, sleep.Replicas)
	}
	next = next.Clone()
	next.Refused, next.RefusedAt = text.Clip(s.Rejected, maxQuote), operation.Moment(s.Now)
	actions := s.storeStop(next).Actions()
	if !sleep.Active() { // else idle-timeout reports it
		actions = append(actions, s.warn(api.Rejected, "the API server rejected %d replicas: %s. Remove the cause, or scale the set yourself; "+
			"the next try is in %s", max(next.Replicas, 1), next.Refused, s.Settings.SleepRetry))
	}
	return plan.Do(api.Rejected, actions...)
}

// endStop removes the Stop and its record, and restores the user's retention policy. If the API server
// rejects it, Retain stays, which deletes no claim.
func (s stops) endStop() plan.Plan {
	patch, notes := plan.PatchOf(plan.StatefulSets, s.Set), []plan.Action(nil)
	if was := members.PolicyToRestore(s.Set); was != "" {
		if s.rejects(api.CleaningUp) {
			notes = append(notes, s.warn(api.Rejected, "whenScaled stays %s, because the API server rejected %s: %s", statefulset.Retain, was,
				text.Clip(s.Rejected, maxQuote)))
		} else {
			plan.Set(patch, statefulset.WhenScaledPath, statefulset.Retain, was, "whenScaled "+string(was))
		}
	}
	patch.Unannotate(api.StopAnnotation)
	// The records are last: the sweep finds a set that has lost its opt-in label only by them.
	return plan.Do(api.CleaningUp, slices.Concat(patch.Actions(), notes, s.deleteRecords().Actions)...)
}

// hasStopOfSleep reports whether the pods were stopped for a sleep.
func (s stops) hasStopOfSleep() bool { return s.stop.Pending() && s.stop.Kind == api.KindSleep }

// stopOfScaler returns the stop of a sleep that has ended, as one of the Scaler.
func (s stops) stopOfScaler() *api.Stop {
	next := s.stop.Clone()
	next.Kind, next.Operation = api.KindScale, s.record.Operation
	return next
}

// keepStopForScaler leaves the stop of a sleep that has ended to the paused Scaler.
func (s stops) keepStopForScaler() plan.Plan {
	next := s.stopOfScaler()
	actions := append(s.deleteRecords().Actions, plan.Create(plan.ControllerRevisions, resources.MakeStopRecord(s.Set, next)))
	return plan.Do(api.SetPaused, append(actions, s.storeStop(next).Actions()...)...)
}

// giveUpStopped handles stopped pods that the Scaler requests no more. They do not come back. A pre hook has to drain them first, so then
// the Stop stays until they have been started for that, and needs no record.
func (s stops) giveUpStopped() plan.Plan {
	if s.scaleHooks().hasPreHook() {
		actions, next, patch := s.deleteRecords().Actions, s.stopOfScaler(), plan.PatchOf(plan.StatefulSets, s.Set)
		if next.WhenScaled != "" && statefulset.AtZero(s.Set) {
			if was := members.PolicyToRestore(s.Set); was != "" {
				plan.Set(patch, statefulset.WhenScaledPath, statefulset.Retain, was, "whenScaled "+string(was))
			}
			next.WhenScaled = ""
		}
		if next.Encode() != s.stop.Encode() { // the end of a sleep would start the pods if the Scaler is deleted
			actions = append(actions, patch.Annotate(api.StopAnnotation, next.Encode()).Actions()...)
		}
		return plan.Do(api.CleaningUp, actions...)
	}
	return s.endAtZero(api.AtZeroAlready)
}

// endAtZero ends a stop whose pods do not come back. A set at zero gets its Stop back from the record, so the record goes first. While the
// API server rejects that, the Stop stays. The notes precede the end of the Stop, because nothing would repeat them afterwards.
func (s stops) endAtZero(reason api.Reason, notes ...plan.Action) plan.Plan {
	if s.RecordsKept {
		return plan.Noop(reason)
	}
	store := s.storeStop(members.Started(s.stop, s.Now))
	return plan.Do(reason, slices.Concat(s.deleteRecords().Actions, notes, store.Actions())...)
}

// leaveStopped ends the pause of a Scaler that was deleted. Its pods do not come back by themselves.
func (s stops) leaveStopped() plan.Plan {
	return s.endAtZero(api.ScalerGone, s.warn(api.ScalerGone, "the Scaler was deleted while it was paused, so the set stays at 0 replicas. "+
		"To start it, run kubectl scale -n %s sts %s --replicas=%d", s.Namespace, s.Name, s.stop.Replicas))
}

const replicasPath = "/spec/replicas"

// setCount sets the replicas of the set.
func (s stops) setCount(patch *plan.Patch, count int32) {
	now := statefulset.Replicas(s.Set)
	plan.Set(patch, replicasPath, now, count, fmt.Sprintf("replicas %d to %d", now, count))
}

func (s stops) storeStop(stop *api.Stop) *plan.Patch {
	return plan.PatchOf(plan.StatefulSets, s.Set).Annotate(api.StopAnnotation, stop.Encode())
}

// ensureRecord creates the record of a stop if it is missing. A ControllerRevision is immutable, so one with another count is replaced.
func (s stops) ensureRecord(stop *api.Stop) []plan.Action {
	var actions []plan.Action
	for _, record := range s.Records {
		if record.Name != api.StopRecordName(stop.Operation) {
			continue
		}
		if stored, err := api.LoadStopRecord(record); err == nil && stored.Replicas == stop.Replicas {
			return nil
		}
		actions = append(actions, plan.Delete(plan.ControllerRevisions, record))
	}
	return append(actions, plan.Create(plan.ControllerRevisions, resources.MakeStopRecord(s.Set, stop)))
}

// deleteRecords deletes the records of stops. It is for a set that has none, or is gone.
func (in Input) deleteRecords() plan.Plan {
	var actions []plan.Action
	for _, record := range in.Records {
		if record.DeletionTimestamp == nil && !in.RecordsKept {
			actions = append(actions, plan.Delete(plan.ControllerRevisions, record))
		}
	}
	return plan.Do(api.CleaningUp, actions...)
}

// keepLedger writes the set's ledger. It carries out the order of a user with it.
func (in Input) keepLedger() plan.Plan {
	set := in.Set
	if !members.Due(set) || in.Rejected != "" && len(in.Scalers) > 0 { // a rejected write must not keep the Scaler from its work
		return plan.Noop(api.MembersCounted)
	}
	patch, notes := plan.PatchOf(plan.StatefulSets, set), []plan.Action(nil)
	warn := func(reason api.Reason, message string, args ...any) {
		notes = append(notes, plan.Event(in.Namespace, in.Name, plan.Note{Warning: true, Reason: reason, Message: fmt.Sprintf(message, args...),
			UID: set.UID}))
	}
	written, ordered := members.Asked(set)
	if ordered {
		patch.Unannotate(api.CleanupFromAnnotation)
	}
	if !members.Keeps(set) {
		if ordered {
			warn(api.RequestInvalid, "annotation %s was removed and nothing is cleaned up: the StatefulSet has no cleanup pod template. Write "+
				"annotation %s first", api.CleanupFromAnnotation, api.CleanupTemplateAnnotation)
		}
		return plan.Do(api.MembersCounted, append(patch.Unannotate(api.LedgerAnnotation).Actions(), notes...)...)
	}
	facts := in.Members
	if len(in.Scalers) > 0 && operation.Of(set).Scale == nil { // a Scaler that has not taken the set over may want more pods
		facts.Held = true
	}
	next := members.Next(set, facts)
	if ordered {
		if err := members.AddOrder(set, next, written); err != nil {
			warn(api.RequestInvalid, "annotation %s was removed and nothing is cleaned up: %v", api.CleanupFromAnnotation, err)
		}
	} else if next.Encode() == set.Annotations[api.LedgerAnnotation] {
		return plan.Noop(api.MembersCounted)
	}
	if missing, some := members.Missing(next, set); some {
		warn(api.PodsExpected, "the claims of pods %[1]s-%[2]d to %[1]s-%[3]d are kept, because these pods are expected back. To give them up, "+
			"run: kubectl drydock cleanup -n %[4]s sts/%[1]s --from %[2]d", in.Name, missing.Start, missing.End-1, in.Namespace)
	}
	return plan.Do(api.MembersCounted, append(patch.Annotate(api.LedgerAnnotation, next.Encode()).Actions(), notes...)...)
}
