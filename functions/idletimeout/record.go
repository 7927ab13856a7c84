package idletimeout

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
)

// mayHaveRecords reports whether records have to be read. The activity of a running set needs none.
func (in Input) mayHaveRecords() bool {
	return !in.Signal.reportsUse() || slices.ContainsFunc(in.Group, func(m idle.Member) bool {
		return m.Sleep.Active() || statefulset.Replicas(m.Set) == 0
	})
}

// ensureRecord creates the record of a sleep if it is missing. A ControllerRevision is immutable, so a record with another replica
// count or policy is replaced. That happens if another client scaled the set after the record was created.
func (in Input) ensureRecord(m idle.Member, sleep *api.Sleep) []plan.Action {
	var actions []plan.Action
	for _, r := range in.Records[m.Set.Name] {
		if r.Link.Operation != sleep.Operation {
			continue
		}
		record, err := api.LoadSleepRecord(r.Revision)
		if err == nil && record.Sleep.Replicas == sleep.Replicas && record.Sleep.WhenScaled == sleep.WhenScaled {
			return nil
		}
		actions = append(actions, plan.Delete(plan.ControllerRevisions, r.Revision))
	}
	return append(actions, plan.Create(plan.ControllerRevisions, resources.MakeSleepRecord(m.Set, sleep)))
}

// unreadableRecord returns why the record of a set at zero cannot be read, or nil. Its previous replica count is then unknown.
func (in Input) unreadableRecord(m idle.Member) error {
	for _, r := range in.presentRecords(m) {
		if _, err := api.LoadSleepRecord(r.Revision); err != nil && statefulset.Replicas(m.Set) == 0 {
			return err
		}
	}
	return nil
}

// presentRecords returns the records of the member's sleeps. A record that is being deleted does not count, although a finalizer of another
// client may keep it for long: it is older than the present sleep.
func (in Input) presentRecords(m idle.Member) (present []Record) {
	for _, r := range in.Records[m.Set.Name] {
		if r.Link.Set.UID == m.Set.UID && r.Revision.DeletionTimestamp == nil {
			present = append(present, r)
		}
	}
	return present
}

// lostSleep returns a sleep whose annotation was lost, and that keeps the set at zero or its Scaler paused, or nil. The whenScaled of a set
// that runs stays as it is: the manifest that removed the annotation may have set it.
func (in Input) lostSleep(m idle.Member) *api.Sleep {
	for _, r := range in.presentRecords(m) {
		record, err := api.LoadSleepRecord(r.Revision)
		if err == nil && m.LostRecord(&record.Sleep) && (statefulset.Replicas(m.Set) == 0 || in.isScalerPaused(m) && statefulset.Managed(m.Set)) {
			return &record.Sleep
		}
	}
	return nil
}

// endPauseOfLostSleep ends the pause of the Scaler of a running set that has lost both the annotation of its sleep and its opt-in label.
// Drydock may not write to the set then.
func (in Input) endPauseOfLostSleep(m idle.Member) plan.Plan {
	for _, r := range in.presentRecords(m) {
		record, err := api.LoadSleepRecord(r.Revision)
		scaler := cmp.Or(in.Scalers[m.Set.Name], in.Unrecorded[m.Set.Name])
		if err == nil && m.LostRecord(&record.Sleep) && scaler != nil && scaler.Spec.Paused {
			return plan.Do(api.WakingUp, scaleScaler(scaler, max(record.Sleep.Replicas, 1))...)
		}
	}
	return plan.Noop(api.NotManaged)
}

// deleteFinishedRecord deletes one record of a finished sleep.
func (in Input) deleteFinishedRecord() plan.Plan {
	if len(in.Group) == 0 {
		for _, r := range in.Records[in.Name] {
			if in.mayDelete(r.Revision) {
				return plan.Do(api.CleaningUp, plan.Delete(plan.ControllerRevisions, r.Revision))
			}
		}
	}
	for _, m := range in.Group {
		if p := in.deleteFinishedRecordOf(m); p.Kind == plan.KindDo {
			return p
		}
	}
	return plan.Noop(api.SetGone)
}

// deleteFinishedRecordOf deletes one record of a finished sleep of the member.
func (in Input) deleteFinishedRecordOf(m idle.Member) plan.Plan {
	for _, r := range in.Records[m.Set.Name] {
		if in.isFinished(m, r.Link) && in.mayDelete(r.Revision) {
			return plan.Do(api.CleaningUp, plan.Delete(plan.ControllerRevisions, r.Revision))
		}
	}
	return plan.Noop(api.NotIdle)
}

// keepsFinishedRecord reports whether the API server rejected the deletion of a finished sleep's record. Another sleep must not begin,
// because the old count would compete with the new one.
func (in Input) keepsFinishedRecord(m idle.Member) bool {
	return slices.ContainsFunc(in.presentRecords(m), func(r Record) bool { return in.isFinished(m, r.Link) })
}

// mayDelete reports whether another try to delete the record can have an effect. It has none if a finalizer of another client keeps a
// deleted record, or if the API server rejected the deletion in this event.
func (in Input) mayDelete(record *appsv1.ControllerRevision) bool {
	return record.DeletionTimestamp == nil && in.Rejected[record.Name] == ""
}

// isFinished reports whether the sleep of the record is finished: its set was replaced, its sleep ended, or the set runs without that
// sleep. While a Scaler is paused it may still scale the set to zero.
func (in Input) isFinished(m idle.Member, link *api.Link) bool {
	switch {
	case m.SleepErr != nil:
		return false
	case link.Set.UID != m.Set.UID:
		return true
	case m.Sleep != nil && m.Sleep.Operation == link.Operation:
		return m.Sleep.Phase.Terminal()
	}
	return statefulset.Replicas(m.Set) > 0 && !in.isScalerPaused(m)
}
