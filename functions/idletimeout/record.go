package idletimeout

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
)

// Record is the record of a sleep. It is written before the set is scaled to zero and removed after the wake-up, so that the
// replicas come back (I4) also when the set's own document is lost, and a set is found that has lost its opt-in label.
type Record struct {
	Revision *appsv1.ControllerRevision
	Link     *api.Link
}

// mayHaveRecords reports whether there may be a record that matters. Who tells that a set is used which runs has none read.
func (in Input) mayHaveRecords() bool {
	return !in.Signal.wakes() || slices.ContainsFunc(in.Group, func(m idle.Member) bool {
		return m.Sleep.Active() || statefulset.Replicas(m.Set) == 0
	})
}

// remember makes the record of a sleep that has none yet. One that tells another count, because somebody scaled the set
// between the record and the scaling to zero, is made again: a record cannot be changed.
func (in Input) remember(m idle.Member, sleep *api.Sleep) []plan.Action {
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

// unreadable says why nobody knows how many replicas a set at zero had that does not tell of its sleep any more.
func (in Input) unreadable(m idle.Member) error {
	for _, r := range in.Records[m.Set.Name] {
		if _, err := api.LoadSleepRecord(r.Revision); err != nil && statefulset.Replicas(m.Set) == 0 && r.Link.Set.UID == m.Set.UID {
			return err
		}
	}
	return nil
}

// lost is the sleep of a set at zero that does not tell of it any more; nil if there is none.
func (in Input) lost(m idle.Member) *api.Sleep {
	if statefulset.Replicas(m.Set) > 0 {
		return nil
	}
	for _, r := range in.Records[m.Set.Name] {
		record, err := api.LoadSleepRecord(r.Revision)
		if err == nil && r.Link.Set.UID == m.Set.UID && (m.Sleep == nil || m.Sleep.Operation != r.Link.Operation) {
			return &record.Sleep
		}
	}
	return nil
}

// forget removes the record of a sleep that is over: its set is gone, is another one, tells of its end, or runs and tells of
// none.
func (in Input) forget() plan.Plan {
	if len(in.Group) == 0 {
		for _, r := range in.Records[in.Name] {
			return plan.Do(api.CleaningUp, plan.Delete(plan.ControllerRevisions, r.Revision))
		}
	}
	for _, m := range in.Group {
		for _, r := range in.Records[m.Set.Name] {
			if in.over(m, r.Link) {
				return plan.Do(api.CleaningUp, plan.Delete(plan.ControllerRevisions, r.Revision))
			}
		}
	}
	return plan.Noop(api.SetGone)
}

// over reports whether nobody needs the record any more. A Scaler that is paused still scales its set to zero, whatever the set tells.
func (in Input) over(m idle.Member, link *api.Link) bool {
	switch {
	case m.SleepErr != nil:
		return false
	case link.Set.UID != m.Set.UID:
		return true
	case m.Sleep != nil && m.Sleep.Operation == link.Operation:
		return m.Sleep.Phase.Terminal()
	}
	return statefulset.Replicas(m.Set) > 0 && !in.paused(m)
}
