package operation

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
)

// State is a row of the table of phases.
type State struct {
	Kind  api.Kind
	Phase api.Phase
	// Means says what holds for the set in this phase.
	Means string
	// By is the function that works on the operation. It is empty in a terminal phase.
	By api.Function
	// Next are the phases that may follow. The record may also change within its phase.
	Next []api.Phase
	// Also has the other functions that write the record in this phase, and the phases in which they leave it.
	Also map[api.Function]phases
	// First is true if an operation may begin in this phase.
	First bool
}

type phases = []api.Phase

// beginners are the functions that begin operations of a kind. They also update the records of ended ones.
var beginners = map[api.Kind]api.Function{api.KindResize: api.DetectResize, api.KindRollback: api.DetectResize,
	api.KindSleep: api.IdleTimeout, api.KindCleanup: api.CleanupPod, api.KindScale: api.ScaleFunction}

// MayWrite reports whether the function may write a record in the phase next over one in the phase former. Former is empty if an operation
// begins. The policy drydock-fence-sets allows the same.
func MayWrite(f api.Function, kind api.Kind, former, next api.Phase) bool {
	from, to := Find(kind, former), Find(kind, next)
	switch {
	case to == nil || former != "" && from == nil:
		return false
	case former == "":
		return to.First && f == beginners[kind]
	case f == api.PauseOwner && former == next: // it writes in every phase why an owner stays paused
		return kind == api.KindResize || kind == api.KindRollback || kind == api.KindSleep
	case f == from.By || former.Terminal() && f == beginners[kind]:
		return former == next || slices.Contains(from.Next, next)
	}
	return slices.Contains(from.Also[f], next)
}

// States is the table of all phases. Every operation follows it: no function writes a phase that cannot follow the one before.
// docs/status.md shows the same rows.
var States = []State{
	{Kind: api.KindResize, Phase: api.Expanding, First: true, By: api.DetectResize,
		Means: "the claims request more and grow; the set runs", Next: phases{api.Planned, api.Succeeded, api.Failed}},
	{Kind: api.KindResize, Phase: api.Planned, First: true, By: api.PauseOwner,
		Means: "the preflight succeeded; Drydock waits for a turn, then for the owner's consent", Next: phases{api.Moving, api.Reverting}},
	{Kind: api.KindResize, Phase: api.Moving, By: api.Restore,
		Means: "members are copied and moved, see the phases of a member", Next: phases{api.Finishing, api.Reverting, api.Failed},
		Also: map[api.Function]phases{api.Backup: {api.Moving, api.Reverting}}},
	{Kind: api.KindResize, Phase: api.Finishing, By: api.Restore,
		Means: "every member runs on its new volumes; the objects of the operation are removed", Next: phases{api.Succeeded, api.Failed}},
	{Kind: api.KindResize, Phase: api.Reverting, By: api.Restore,
		Means: "the resize has failed; held pods start on their present volumes",
		Next:  phases{api.Failed, api.Finishing}},
	{Kind: api.KindResize, Phase: api.Succeeded, Means: "the set has the requested volumes and fields"},
	{Kind: api.KindResize, Phase: api.Failed, Means: "`failedAt` has the phase that failed, and `members` the members that were moved"},
	{Kind: api.KindResize, Phase: api.Refused, First: true, Means: "the preflight found an obstacle; nothing was changed"},

	{Kind: api.KindRollback, Phase: api.Planned, First: true, By: api.PauseOwner,
		Means: "the preflight succeeded; Drydock waits for the owner's consent", Next: phases{api.Moving, api.Reverting}},
	{Kind: api.KindRollback, Phase: api.Moving, By: api.Restore,
		Means: "members get their old volumes back; nothing is copied",
		Next:  phases{api.Finishing, api.Reverting, api.Failed}, Also: map[api.Function]phases{api.Backup: {api.Moving, api.Reverting}}},
	{Kind: api.KindRollback, Phase: api.Finishing, By: api.Restore,
		Means: "every member has its old volumes back; the objects of the operation are removed", Next: phases{api.Succeeded, api.Failed}},
	{Kind: api.KindRollback, Phase: api.Reverting, By: api.Restore,
		Means: "the rollback has failed; held pods start on their present volumes",
		Next:  phases{api.Failed, api.Finishing}},
	{Kind: api.KindRollback, Phase: api.Succeeded, Means: "the claims have their old volumes back"},
	{Kind: api.KindRollback, Phase: api.Failed, Means: "`members` has the members that have their old volumes back"},
	{Kind: api.KindRollback, Phase: api.Refused, First: true, Means: "the preflight found an obstacle; nothing was changed"},

	{Kind: api.KindSleep, Phase: api.Planned, First: true, By: api.PauseOwner,
		Means: "the set will go to sleep; nothing was changed",
		Next:  phases{api.Stopping, api.Waking, api.Succeeded, api.Refused},
		Also:  map[api.Function]phases{api.IdleTimeout: {api.Planned, api.Waking, api.Succeeded}}},
	{Kind: api.KindSleep, Phase: api.Stopping, By: api.IdleTimeout,
		Means: "the owner consents; the set is scaled to zero",
		Next:  phases{api.Asleep, api.Waking, api.Succeeded}},
	{Kind: api.KindSleep, Phase: api.Asleep, By: api.IdleTimeout,
		Means: "the set has no replicas; there is no deadline", Next: phases{api.Waking}},
	{Kind: api.KindSleep, Phase: api.Waking, First: true, By: api.IdleTimeout,
		Means: "the set gets its replicas back and becomes ready",
		Next:  phases{api.Succeeded, api.Failed}},
	{Kind: api.KindSleep, Phase: api.Succeeded, Means: "the set is awake, or its users keep it at zero"},
	{Kind: api.KindSleep, Phase: api.Failed, Means: "the set was started again; `failedAt` has the phase that failed"},
	{Kind: api.KindSleep, Phase: api.Refused, First: true, Means: "nothing was changed"},

	{Kind: api.KindCleanup, Phase: api.Cleaning, First: true, By: api.CleanupPod,
		Means: "cleanup pods run on the claims of removed members", Next: phases{api.Succeeded, api.Failed}},
	{Kind: api.KindCleanup, Phase: api.Succeeded, First: true,
		Means: "no claims are left (`CleanupCompleted`), or nothing was to do (`CleanupReady`)"},
	{Kind: api.KindCleanup, Phase: api.Failed,
		Means: "the remaining claims are kept until a retry, a new template or another count"},
	{Kind: api.KindCleanup, Phase: api.Refused, First: true,
		Means: "the template, or a setting beside it, cannot be used; nothing was changed"},

	{Kind: api.KindScale, Phase: api.PreScaling, First: true, By: api.ScaleFunction,
		Means: "the hook before the change runs; the set has its previous count", Next: phases{api.Scaling, api.Failing, api.Failed}},
	{Kind: api.KindScale, Phase: api.Scaling, First: true, By: api.ScaleFunction,
		Means: "the set has the new count; its members start or stop", Next: phases{api.PostScaling, api.Failing, api.Failed}},
	{Kind: api.KindScale, Phase: api.PostScaling, First: true, By: api.ScaleFunction,
		Means: "the members are ready; the hook after the change runs", Next: phases{api.Succeeded, api.Failing, api.Failed}},
	{Kind: api.KindScale, Phase: api.Failing, By: api.ScaleFunction,
		Means: "the scaling has failed; the hook for a failure runs", Next: phases{api.Failed}},
	{Kind: api.KindScale, Phase: api.Succeeded, First: true,
		Means: "the set has its count (`ScalingCompleted`), or nothing was to do (`ScalerReady`)"},
	{Kind: api.KindScale, Phase: api.Failed,
		Means: "`failedAt` has the phase that failed. A retry is another operation"},
}

// Find returns the row of the phase, or nil if the kind has no such phase.
func Find(kind api.Kind, phase api.Phase) *State {
	i := slices.IndexFunc(States, func(s State) bool { return s.Kind == kind && s.Phase == phase })
	if i < 0 {
		return nil
	}
	return &States[i]
}

// MovedBy returns the function that works on the operation in the record's phase. It is empty in a terminal phase.
func MovedBy(record Record) api.Function {
	head := record.Head()
	if state := Find(head.Kind, head.Phase); state != nil {
		return state.By
	}
	return ""
}

// cloned is a record with a Clone method that returns its own type.
type cloned[R any] interface {
	Record
	Clone() R
}

// Enter returns a copy of the record in the phase, with the deadline of that phase.
func Enter[R cloned[R]](record R, phase api.Phase, now time.Time, timeout time.Duration) R {
	next := record.Clone()
	head := next.Head()
	head.Phase, head.Deadline = phase, Moment(now.Add(timeout))
	return next
}

// Conclude returns a copy of the record in a terminal phase.
func Conclude[R cloned[R]](record R, phase api.Phase, now time.Time, reason api.Reason, message string) R {
	next := record.Clone()
	head := next.Head()
	head.Phase, head.Reason, head.Message, head.Finished, head.Deadline = phase, reason, message, Moment(now), nil
	if phase == api.Succeeded {
		head.FailedAt = "" // it had failed before, and succeeded nevertheless
	}
	return next
}

// Fail returns a copy of the record in a terminal phase. FailedAt becomes the former phase.
func Fail[R cloned[R]](record R, phase api.Phase, now time.Time, reason api.Reason, message string) R {
	next := Conclude(record, phase, now, reason, message)
	next.Head().FailedAt = record.Head().Phase
	return next
}

// Revert returns a copy of the record of a failed resize. restore then releases the held pods.
func Revert(resize *api.Resize, now time.Time, timeout time.Duration, reason api.Reason, message string) *api.Resize {
	next := Enter(resize, api.Reverting, now, timeout)
	next.FailedAt, next.Reason, next.Message = resize.Phase, reason, message
	return next
}

// ConcludeResize returns a copy of the record of a finished resize, without the fields that only an active one needs. Reason and message
// stay.
func ConcludeResize(resize *api.Resize, phase api.Phase, now time.Time) *api.Resize {
	next := Conclude(resize, phase, now, resize.Reason, resize.Message)
	for i := range next.Members {
		member := &next.Members[i]
		member.Deadline, member.ProgressAt, member.Stalled, member.StalledSince = nil, nil, "", nil
	}
	return next
}

// Store returns a patch that writes the record to the StatefulSet. It is empty if the set already has the same record. The metrics get what
// ends with this write.
func Store(set *appsv1.StatefulSet, record Record) *plan.Patch {
	return plan.PatchOf(plan.StatefulSets, set).Annotate(record.Annotation(), record.Encode()).Measure(Measure(set, record)...)
}

// Overdue reports whether the deadline of the present phase is over.
func Overdue(record Record, now time.Time) bool {
	return Past(record.Head().Deadline, now)
}

// Past reports whether the deadline is over. A nil deadline never is.
func Past(deadline *metav1.Time, now time.Time) bool {
	return deadline != nil && now.After(deadline.Time)
}

// Moment returns the time as it is stored: in whole seconds and UTC.
func Moment(t time.Time) *metav1.Time {
	m := metav1.NewTime(t.UTC().Truncate(time.Second))
	return &m
}
