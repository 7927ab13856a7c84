//go:build cluster

package sim

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/test/kit"
)

// scaleInvariants are the checks of a scaling after each write. They keep state of the earlier writes.
type scaleInvariants struct {
	*scalingRun
	// uid and count are from the latest observed set.
	uid     types.UID
	count   int32
	targets map[string]int32 // by operation
	jobs    map[types.UID]bool
}

// sync reads the set after another client has changed it.
func (s *scaleInvariants) sync() {
	if set := s.Set("web"); set != nil {
		s.uid, s.count = set.UID, *set.Spec.Replicas
	}
}

// judge returns the first violation after a write of Drydock.
func (s *scaleInvariants) judge(_ *kit.World, set setType) string {
	wrong := s.told()
	if set == nil {
		return wrong
	}
	record, err := api.LoadScale(set)
	if err != nil {
		return err.Error()
	}
	wrong = cmp.Or(wrong, s.drained(set, record), s.away(set, record), s.aimed(record), s.finished(record), s.owned(set), s.once())
	s.uid, s.count = set.UID, *set.Spec.Replicas
	return wrong
}

// drained checks that a member is removed only after the hook of this operation has succeeded for exactly these
// ordinals.
func (s *scaleInvariants) drained(set setType, record *api.Scale) string {
	live := *set.Spec.Replicas
	if set.UID != s.uid || live >= s.count {
		return ""
	}
	if record == nil || record.Phase != api.Scaling {
		return fmt.Sprintf("I1: members %s are removed by no scaling: %+v", removed(live, s.count), record)
	}
	for _, run := range s.hooks.of(record.Operation, "pre") {
		if run.succeeded && run.removed == removed(live, s.count) {
			return ""
		}
	}
	return fmt.Sprintf("I1: members %s are removed, and these hooks have run: %+v", removed(live, s.count), s.hooks.runs)
}

// away checks that the record of a paused set says that its members come back. Then the ledger orders no removal. If the Scaler was
// deleted, they do not come back by themselves.
func (s *scaleInvariants) away(set setType, record *api.Scale) string {
	if !s.pauses || *set.Spec.Replicas > 0 || record != nil && record.Paused || record == nil && s.Scaler("web") == nil {
		return ""
	}
	return fmt.Sprintf("I1: the members are away, and the record does not say that they come back: %+v", record)
}

// removed returns the ordinals of a larger set that a smaller set lacks.
func removed(fewer, more int32) string {
	var all []string
	for ordinal := fewer; ordinal < more; ordinal++ {
		all = append(all, strconv.Itoa(int(ordinal)))
	}
	return strings.Join(all, ",")
}

// aimed checks that the target of an operation does not change.
func (s *scaleInvariants) aimed(record *api.Scale) string {
	if !record.Active() {
		return ""
	}
	if target, known := s.targets[record.Operation]; known && target != record.Target {
		return fmt.Sprintf("operation %s goes to %d, and went to %d before", record.Operation, record.Target, target)
	}
	s.targets[record.Operation] = record.Target
	if record.Deadline == nil {
		return fmt.Sprintf("I8: phase %s has no deadline", record.Phase)
	}
	return ""
}

// finished checks that a successful scaling has run its last hook.
func (s *scaleInvariants) finished(record *api.Scale) string {
	if record == nil || record.Phase != api.Succeeded || record.Reason != api.ScalingCompleted {
		return ""
	}
	for _, run := range s.hooks.of(record.Operation, "post") {
		if run.succeeded {
			return ""
		}
	}
	return fmt.Sprintf("operation %s has succeeded, and its hook post has not: %+v", record.Operation, s.hooks.runs)
}

// owned checks that a hook was created for this set.
func (s *scaleInvariants) owned(set setType) string {
	for _, job := range s.hooks.jobs() {
		if s.jobs[job.UID] {
			continue
		}
		s.jobs[job.UID] = true
		if link, err := api.LoadLink(&job); err != nil || link == nil || link.Set.UID != set.UID {
			return fmt.Sprintf("I3: Job %s is of %+v, the set is %s", job.Name, link, set.UID)
		}
	}
	return ""
}

// once checks that the onFailure hook runs once in an operation.
func (s *scaleInvariants) once() string {
	for operation := range s.targets {
		if runs := s.hooks.of(operation, "onFailure"); len(runs) > 1 {
			return fmt.Sprintf("hook onFailure of operation %s has run %d times", operation, len(runs))
		}
	}
	return ""
}

// told checks that a Scaler with a failed scaling is not healthy.
func (s *scaleInvariants) told() string {
	for _, name := range []string{"web", "other"} {
		scaler := s.Scaler(name)
		if scaler == nil {
			continue
		}
		is := func(kind string) bool { return meta.IsStatusConditionTrue(scaler.Status.Conditions, kind) }
		failed := scaler.Status.Stage == v1alpha1.StageFailed || scaler.Status.Failed != nil
		if failed && is(v1alpha1.ConditionHealthy) || failed != is(v1alpha1.ConditionFailed) && len(scaler.Status.Conditions) > 0 {
			return fmt.Sprintf("the status of Scaler %s is %+v", name, scaler.Status)
		}
	}
	return ""
}
