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

// keepStop takes the next step of the stop of a set that no Scaler scales: it scales the set to zero for its sleep, and back.
func (w work) keepStop() plan.Plan {
	step := w.stopStep()
	switch {
	case step == members.StopPods && w.rejects(api.ScalingDown), step == members.StartPods && w.rejects(api.WakingUp):
		return w.noteRefusal(step)
	case step == members.StopPods:
		patch, next := plan.PatchOf(plan.StatefulSets, w.Set), members.NextStop(w.Set, members.HoldingSleep(w.Set).Operation, api.KindSleep)
		actions := append(w.beginStop(patch, next), patch.Actions()...)
		return plan.Do(api.ScalingDown, actions...)
	case step == members.StartPods:
		return w.startPods()
	case step == members.NoteStart:
		return plan.Do(api.StatusUpdated, w.storeStop(members.Started(w.stop, w.Now)).Actions()...)
	}
	return w.tidyStop(step)
}

// stopStep returns the next step of the stop of the set.
func (w work) stopStep() members.StopStep {
	return members.NextStopStep(w.Set, w.Now, w.Settings.SleepRetry)
}

// rejects reports whether the API server rejected a write of the plan with this reason.
func (in Input) rejects(reason api.Reason) bool {
	return in.Rejected != "" && in.RejectedPlan == reason
}

// tidyStop takes the steps of a stop that change no count.
func (w work) tidyStop(step members.StopStep) plan.Plan {
	stored, unreadable := members.StoredStop(w.Set, w.Records)
	switch {
	case step == members.RenewStop:
		next := w.stop.Clone()
		next.Set.UID = w.Set.UID
		actions := w.deleteRecords().Actions
		if next.Pending() {
			actions = append(actions, plan.Create(plan.ControllerRevisions, resources.MakeStopRecord(w.Set, next)))
		}
		return plan.Do(api.StatusUpdated, append(actions, w.storeStop(next).Actions()...)...)
	case step == members.EndStop:
		return w.endStop()
	case w.stop != nil:
		return plan.Noop(api.StaysAsleep)
	case unreadable != nil && statefulset.Replicas(w.Set) == 0 && w.scaler != nil: // the Scaler has a count
		return plan.Noop(api.LinkInvalid)
	case unreadable != nil && statefulset.Replicas(w.Set) == 0:
		return plan.Do(api.LinkInvalid, w.warn(api.LinkInvalid, "%v. Scale the set to its previous replica count, then delete this "+
			"ControllerRevision", unreadable))
	case stored != nil && statefulset.Replicas(w.Set) == 0: // for example, a manifest has replaced all annotations
		return plan.Do(api.StatusUpdated, w.storeStop(stored).Actions()...)
	case members.HoldingSleep(w.Set) == nil:
		return w.deleteRecords()
	}
	return plan.Noop(api.NotIdle)
}

// mayRestoreStop reports whether a set at zero has lost its Stop, and has the record of it.
func (w work) mayRestoreStop() bool {
	stored, _ := members.StoredStop(w.Set, w.Records)
	return w.stop == nil && stored != nil && statefulset.Replicas(w.Set) == 0
}

// beginStop adds a stop to the patch: the count of zero, and Retain so that no claim of a stopped pod is deleted. It returns the writes
// before the patch, which create the record of the stop.
func (w work) beginStop(patch *plan.Patch, next *api.Stop) []plan.Action {
	next.StoppedAt = operation.Moment(w.Now)
	if found := statefulset.WhenScaled(w.Set); found != statefulset.Retain {
		next.WhenScaled = found
		patch.Replace(statefulset.WhenScaledPath, statefulset.Retain, "whenScaled Retain")
	}
	patch.Annotate(api.StopAnnotation, next.Encode())
	w.setCount(patch, 0)
	return w.ensureRecord(next)
}

// beginStopFor adds the stop of the paused scaling to the patch, like beginStop. While the set sleeps, it is the stop of the sleep.
func (w work) beginStopFor(scaling *api.Scale, patch *plan.Patch) []plan.Action {
	if sleep := members.HoldingSleep(w.Set); sleep != nil {
		return w.beginStop(patch, members.NextStop(w.Set, sleep.Operation, api.KindSleep))
	}
	return w.beginStop(patch, members.NextStop(w.Set, scaling.Operation, api.KindScale))
}

// startPods asks the pods of a set at zero back.
func (w work) startPods() plan.Plan {
	next, patch := members.NextStart(w.Set, w.Now), plan.PatchOf(plan.StatefulSets, w.Set)
	patch.Annotate(api.StopAnnotation, next.Encode())
	w.setCount(patch, next.Replicas)
	return plan.Do(api.WakingUp, patch.Actions()...)
}

// noteRefusal stores why the API server rejected the count of the step. A sleep that could not stop the set fails by that, and a start is
// tried again later.
func (w work) noteRefusal(step members.StopStep) plan.Plan {
	next, sleep := w.stop, operation.Of(w.Set).Sleep
	if next == nil || step == members.StopPods && !next.Of(sleep) || step == members.StartPods && !next.Pending() {
		next = members.NextStop(w.Set, sleep.Operation, api.KindSleep)
		next.Replicas = cmp.Or(next.Replicas, sleep.Replicas)
	}
	next = next.Clone()
	next.Refused, next.RefusedAt = text.Clip(w.Rejected, maxQuote), operation.Moment(w.Now)
	actions := w.storeStop(next).Actions()
	if !sleep.Active() { // else idle-timeout reports it
		actions = append(actions, w.warn(api.Rejected, "the API server rejected %d replicas: %s. Remove the cause, or scale the set yourself; "+
			"the next try is in %s", max(next.Replicas, 1), next.Refused, w.Settings.SleepRetry))
	}
	return plan.Do(api.Rejected, actions...)
}

// endStop removes the Stop and its record, and restores the user's retention policy. If the API server
// rejects it, Retain stays, which deletes no claim.
func (w work) endStop() plan.Plan {
	patch, notes := plan.PatchOf(plan.StatefulSets, w.Set), []plan.Action(nil)
	if was := members.PolicyToRestore(w.Set); was != "" {
		if w.rejects(api.CleaningUp) {
			notes = append(notes, w.warn(api.Rejected, "whenScaled stays %s, because the API server rejected %s: %s", statefulset.Retain, was,
				text.Clip(w.Rejected, maxQuote)))
		} else {
			plan.Set(patch, statefulset.WhenScaledPath, statefulset.Retain, was, "whenScaled "+string(was))
		}
	}
	patch.Unannotate(api.StopAnnotation)
	// The records are last: the sweep finds a set that has lost its opt-in label only by them.
	return plan.Do(api.CleaningUp, slices.Concat(patch.Actions(), notes, w.deleteRecords().Actions)...)
}

// hasStopOfSleep reports whether the pods were stopped for a sleep.
func (w work) hasStopOfSleep() bool { return w.stop.Pending() && w.stop.Kind == api.KindSleep }

// stopOfScaler returns the stop of a sleep that has ended, as one of the Scaler.
func (w work) stopOfScaler() *api.Stop {
	next := w.stop.Clone()
	next.Kind, next.Operation = api.KindScale, w.record.Operation
	return next
}

// keepStopForScaler leaves the stop of a sleep that has ended to the paused Scaler.
func (w work) keepStopForScaler() plan.Plan {
	next := w.stopOfScaler()
	actions := append(w.deleteRecords().Actions, plan.Create(plan.ControllerRevisions, resources.MakeStopRecord(w.Set, next)))
	return plan.Do(api.SetPaused, append(actions, w.storeStop(next).Actions()...)...)
}

// giveUpStopped handles stopped pods that the Scaler requests no more. They do not come back. A pre hook has to drain them first, so then
// the Stop stays until they have been started for that, and needs no record.
func (w work) giveUpStopped() plan.Plan {
	if w.hasPreHook() {
		actions, next, patch := w.deleteRecords().Actions, w.stopOfScaler(), plan.PatchOf(plan.StatefulSets, w.Set)
		if next.WhenScaled != "" && statefulset.AtZero(w.Set) {
			if was := members.PolicyToRestore(w.Set); was != "" {
				plan.Set(patch, statefulset.WhenScaledPath, statefulset.Retain, was, "whenScaled "+string(was))
			}
			next.WhenScaled = ""
		}
		if next.Encode() != w.stop.Encode() { // the end of a sleep would start the pods if the Scaler is deleted
			actions = append(actions, patch.Annotate(api.StopAnnotation, next.Encode()).Actions()...)
		}
		return plan.Do(api.CleaningUp, actions...)
	}
	return w.endAtZero(api.AtZeroAlready)
}

// endAtZero ends a stop whose pods do not come back. A set at zero gets its Stop back from the record, so the record goes first. While the
// API server rejects that, the Stop stays. The notes precede the end of the Stop, because nothing would repeat them afterwards.
func (w work) endAtZero(reason api.Reason, notes ...plan.Action) plan.Plan {
	if w.RecordsKept {
		return plan.Noop(reason)
	}
	store := w.storeStop(members.Started(w.stop, w.Now))
	return plan.Do(reason, slices.Concat(w.deleteRecords().Actions, notes, store.Actions())...)
}

// leaveStopped ends the pause of a Scaler that was deleted. Its pods do not come back by themselves.
func (w work) leaveStopped() plan.Plan {
	return w.endAtZero(api.ScalerGone, w.warn(api.ScalerGone, "the Scaler was deleted while it was paused, so the set stays at 0 replicas. "+
		"To start it, run kubectl scale -n %s sts %s --replicas=%d", w.Namespace, w.Name, w.stop.Replicas))
}

const replicasPath = "/spec/replicas"

// setCount sets the replicas of the set.
func (w work) setCount(patch *plan.Patch, count int32) {
	now := statefulset.Replicas(w.Set)
	plan.Set(patch, replicasPath, now, count, fmt.Sprintf("replicas %d to %d", now, count))
}

func (w work) storeStop(stop *api.Stop) *plan.Patch {
	return plan.PatchOf(plan.StatefulSets, w.Set).Annotate(api.StopAnnotation, stop.Encode())
}

// ensureRecord creates the record of a stop if it is missing. A ControllerRevision is immutable, so one with another count is replaced.
func (w work) ensureRecord(stop *api.Stop) []plan.Action {
	var actions []plan.Action
	for _, record := range w.Records {
		if record.Name != api.StopRecordName(stop.Operation) {
			continue
		}
		if stored, err := api.LoadStopRecord(record); err == nil && stored.Replicas == stop.Replicas {
			return nil
		}
		actions = append(actions, plan.Delete(plan.ControllerRevisions, record))
	}
	return append(actions, plan.Create(plan.ControllerRevisions, resources.MakeStopRecord(w.Set, stop)))
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
