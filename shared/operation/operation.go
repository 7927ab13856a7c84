// Package operation has the records of a StatefulSet's operations, the phases of each kind of operation, and the steps between them.
// phases.go has the table of all phases, members.go the table for the members of a resize. Everything here is pure.
package operation

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
)

// Record is the record of an operation of any kind.
type Record interface {
	Head() *api.Header
	Active() bool
	// Annotation is the key under which the record is stored on the StatefulSet.
	Annotation() string
	Encode() string
}

// Records has the record of the latest operation of each kind on a StatefulSet. It leaves out records from a copied manifest. An unreadable
// record is nil and has an error: nothing may act on it.
type Records struct {
	Resize  *api.Resize
	Sleep   *api.Sleep
	Cleanup *api.Cleanup
	Scale   *api.Scale

	ResizeErr, SleepErr, CleanupErr, ScaleErr error

	request string // what the set requests: see api.RequestOf
	growTo  string // drydock.dev/grow-to on the set
	sleeps  bool   // whether the set may be asked to sleep: by its own annotations, or with its group
	stopped bool   // whether the set requests no replicas
}

// Of returns the set's records.
func Of(set *appsv1.StatefulSet) Records {
	r := Records{growTo: set.Annotations[api.GrowToAnnotation], sleeps: set.Labels[api.GroupLabel] != ""}
	r.request, _ = api.RequestOf(set)
	_, timeout := set.Annotations[api.IdleTimeoutAnnotation]
	paused := set.Annotations[api.PausedAnnotation]
	r.sleeps = r.sleeps || timeout || paused != "" && paused != "false"
	r.stopped = statefulset.Replicas(set) == 0
	r.Resize, r.ResizeErr = api.LoadResize(set)
	r.Sleep, r.SleepErr = api.LoadSleep(set)
	r.Cleanup, r.CleanupErr = api.LoadCleanup(set)
	r.Scale, r.ScaleErr = api.LoadScale(set)
	return r
}

// All returns the records that exist.
func (r Records) All() []Record {
	var all []Record
	if r.Resize != nil {
		all = append(all, r.Resize)
	}
	if r.Sleep != nil {
		all = append(all, r.Sleep)
	}
	if r.Cleanup != nil {
		all = append(all, r.Cleanup)
	}
	if r.Scale != nil {
		all = append(all, r.Scale)
	}
	return all
}

// Find returns the record of the operation with the id, or nil.
func (r Records) Find(id string) Record {
	for _, record := range r.All() {
		if record.Head().Operation == id {
			return record
		}
	}
	return nil
}

// Others returns the records of the sleep, cleanup and scaling that are active or did not succeed.
func (r Records) Others() []Record {
	return slices.DeleteFunc(r.All(), func(record Record) bool {
		_, isResize := record.(*api.Resize)
		return isResize || record.Head().Phase == api.Succeeded
	})
}

// Settled reports whether the operation has ended and needs no attention any more: it succeeded, a user aborted it, its request is
// withdrawn, or the cause of the refusal or failure is gone.
func (r Records) Settled(record Record) bool {
	h := record.Head()
	return h.Phase == api.Succeeded || h.Phase.Terminal() && (h.Reason == api.Aborted || h.Reason == api.CauseGone) ||
		r.Withdrawn(record)
}

// Withdrawn reports whether a user has withdrawn the request of a resize or a sleep, or replaced that of a resize, since it failed or was
// refused. A growth by usage is withdrawn if its floors have changed. A request that cannot be read replaces nothing: it gets no record, so
// nothing else would show the failure.
func (r Records) Withdrawn(record Record) bool {
	h := record.Head()
	if h.Phase != api.Failed && h.Phase != api.Refused {
		return false
	}
	if sleep, ok := record.(*api.Sleep); ok { // a set that has not become ready since then is still in trouble
		return !r.sleeps && (r.stopped || !sleep.StartsLate)
	}
	if h.GrowTo != "" {
		return h.GrowTo != r.growTo
	}
	if h.Kind != api.KindResize || h.Request == r.request {
		return false
	}
	_, err := api.ParseRequest(r.request)
	return r.request == "" || err == nil
}

// Resizing reports whether a resize or rollback is active on the set. An unreadable record counts as active.
func (r Records) Resizing() bool { return r.ResizeErr != nil || r.Resize.Active() }

// Sleeping reports whether the set is asleep, going to sleep or waking. An unreadable record counts as asleep.
func (r Records) Sleeping() bool { return r.SleepErr != nil || r.Sleep.Active() }

// CleaningUp reports whether a cleanup is active on the set. An unreadable record counts as active.
func (r Records) CleaningUp() bool { return r.CleanupErr != nil || r.Cleanup.Active() }

// Scaling reports whether a scaling is active on the set. An unreadable record counts as active.
func (r Records) Scaling() bool { return r.ScaleErr != nil || r.Scale.Active() }

// AwaitsCleanup reports whether a scaling waits for the cleanup of the members that it removed.
func (r Records) AwaitsCleanup() bool {
	return r.ScaleErr == nil && r.Scale.Active() && r.Scale.Phase == api.PostScaling && r.Scale.CleansUp
}

// Busy reports whether an operation of another kind is active on the set, so that none of this kind may begin. An unreadable record counts
// as active. A set with a Scaler goes to sleep by a scaling, so its sleep does not block the scaling, unless the owner's operator stops it.
func (r Records) Busy(kind api.Kind) bool {
	switch kind {
	case api.KindResize, api.KindRollback:
		return r.Sleeping() || r.CleaningUp() || r.Scaling()
	case api.KindSleep:
		return r.Resizing() || r.CleaningUp() || r.Scaling()
	case api.KindCleanup:
		return r.Resizing() || r.Sleeping() || r.Scaling() && !r.AwaitsCleanup()
	case api.KindScale:
		return r.Resizing() || r.operatorHolds() || r.CleaningUp()
	}
	return r.Resizing() || r.Sleeping() || r.CleaningUp() || r.Scaling()
}

// operatorHolds reports whether the owner's operator stops the set for its sleep, and starts it. Otherwise scale does, also by the
// scalings of a Scaler.
func (r Records) operatorHolds() bool {
	return r.SleepErr != nil || r.Sleep.Active() && r.Sleep.OwnerStops && r.Sleep.Step != api.StartedForOwner
}

// CleanupAwaitingRetry returns the failed or refused cleanup that a retry on the set means, or nil if the retry means a resize or a sleep.
// A cleanup has priority, because only one function may remove the annotation.
func (r Records) CleanupAwaitingRetry(set *appsv1.StatefulSet) *api.Cleanup {
	if r.CleanupErr != nil || !CleanupRests(r.Cleanup) || !statefulset.CleanupAsked(set) || r.ResizeErr != nil {
		return nil
	}
	return r.Cleanup
}

// ResizeRetried reports whether the retry annotation requests a retry of a resize. Without an operator it also means a sleep.
func (r Records) ResizeRetried(set *appsv1.StatefulSet) bool {
	if statefulset.Controller(set) != nil {
		return r.Resize != nil && (rests(r.Resize.Phase) || r.Resize.IsRollback() && !r.Resize.Active()) && isRetryOf(set, &r.Resize.Header)
	}
	return hasRetry(set) && r.CleanupAwaitingRetry(set) == nil
}

// SleepRetried reports whether the retry annotation requests a retry of a sleep.
func (r Records) SleepRetried(set *appsv1.StatefulSet) bool {
	if statefulset.Controller(set) != nil {
		return r.SleepRests() && isRetryOf(set, &r.Sleep.Header)
	}
	return r.ResizeRetried(set) && !api.WantsSizes(set)
}

// CleanupRetried reports whether the retry annotation requests a retry of the cleanup, which has failed or was refused.
func CleanupRetried(set *appsv1.StatefulSet, cleanup *api.Cleanup) bool {
	return CleanupRests(cleanup) && isRetryOf(set, &cleanup.Header)
}

// isRetryOf reports whether the retry annotation may mean the operation. An operator may copy annotations of its resource to its set again
// and again, so there a retry is the id of the operation that it repeats. The new attempt has another id, so the copy does nothing.
func isRetryOf(set *appsv1.StatefulSet, record *api.Header) bool {
	return hasRetry(set) && (statefulset.Controller(set) == nil || set.Annotations[api.RetryAnnotation] == record.Operation)
}

// RetryNamesNothing reports whether an operator makes the set and the retry annotation is no id of an operation, so it has no effect.
func RetryNamesNothing(set *appsv1.StatefulSet) bool {
	return hasRetry(set) && statefulset.Controller(set) != nil && !api.IsOperationID(set.Annotations[api.RetryAnnotation])
}

func hasRetry(set *appsv1.StatefulSet) bool {
	_, asked := set.Annotations[api.RetryAnnotation]
	return asked
}

// SleepRests reports whether the latest sleep has failed or was refused. It then waits for a retry, or for its time.
func (r Records) SleepRests() bool {
	return r.Sleep != nil && rests(r.Sleep.Phase)
}

// CleanupRests reports whether the cleanup has failed or was refused. It then waits for a retry.
func CleanupRests(cleanup *api.Cleanup) bool {
	return cleanup != nil && rests(cleanup.Phase)
}

// rests reports whether an operation in the phase waits for a retry.
func rests(p api.Phase) bool { return p == api.Failed || p == api.Refused }

// Clone returns a copy of the record. Changing it does not change the record.
func Clone(record Record) Record {
	switch r := record.(type) {
	case *api.Resize:
		return r.Clone()
	case *api.Sleep:
		return r.Clone()
	case *api.Scale:
		return r.Clone()
	}
	return record.(*api.Cleanup).Clone()
}

// NoLongerStops reports whether an active operation will not stop the set, or one of its members, again.
func NoLongerStops(set *appsv1.StatefulSet, record Record) bool {
	switch {
	case set == nil || record == nil || !record.Active():
		return false
	case record.Head().Phase == api.Waking:
		return statefulset.Replicas(set) > 0
	}
	resize, ok := record.(*api.Resize)
	return ok && (resize.Phase == api.Finishing || resize.Phase == api.Moving && allReleased(resize))
}

// allReleased reports whether every member was moved or is starting on its new volumes. Its pods may need their owner to become ready.
func allReleased(resize *api.Resize) bool {
	return len(resize.Members) > 0 && !slices.ContainsFunc(resize.Members, func(m api.Member) bool {
		return m.Phase != api.MemberStarting && m.Phase != api.MemberMoved
	})
}

// MemberState is a row of the table of a member's phases.
type MemberState struct {
	Phase api.MemberPhase
	// By are the functions that work on the member in this phase. A final phase has none.
	By []api.Function
	// Next are the phases that may follow while the operation moves members.
	Next []api.MemberPhase
}

// MemberStates is the table of all phases of a member, for tests and readers. docs/status.md has the same rows, with their meaning. Nothing
// is copied in a rollback, or if claims grow while their member is stopped. Then a member skips the phases of the copy, and returns to
// Waiting instead of Copying.
var MemberStates = []MemberState{
	{api.MemberPending, []api.Function{api.Backup}, []api.MemberPhase{api.MemberCopying, api.MemberWaiting}},
	{api.MemberCopying, []api.Function{api.Backup}, []api.MemberPhase{api.MemberWaiting}},
	{api.MemberWaiting, []api.Function{api.Restore, api.Backup}, []api.MemberPhase{api.MemberStopping, api.MemberCopying, api.MemberPending}},
	{api.MemberStopping, []api.Function{api.Restore}, []api.MemberPhase{api.MemberFinalPass, api.MemberGrowing, api.MemberSwapping,
		api.MemberCopying, api.MemberWaiting}},
	{api.MemberFinalPass, []api.Function{api.Backup, api.Restore}, []api.MemberPhase{api.MemberSwapping, api.MemberCopying}},
	{api.MemberGrowing, []api.Function{api.Restore}, []api.MemberPhase{api.MemberStarting, api.MemberWaiting}},
	{api.MemberSwapping, []api.Function{api.Restore}, []api.MemberPhase{api.MemberStarting, api.MemberCopying, api.MemberWaiting}},
	{api.MemberStarting, []api.Function{api.Restore}, []api.MemberPhase{api.MemberMoved, api.MemberSwapping}},
	{Phase: api.MemberMoved},
	{Phase: api.MemberKept},
}
