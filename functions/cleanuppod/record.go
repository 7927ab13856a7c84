package cleanuppod

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/events"
	"drydock.dev/shared/members"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// accounts stores which ordinals are accounted for.
type accounts struct{ Input }

func (in Input) accounts() accounts { return accounts{in} }

// newRecord returns a record without an operation. It takes over the attempt and the accounted span of the previous record.
func (a accounts) newRecord(record *api.Cleanup, phase api.Phase, reason api.Reason, message string) *api.Cleanup {
	next := &api.Cleanup{Header: api.Header{Version: api.RecordVersion, Kind: api.KindCleanup,
		Set: api.SetRef{Name: a.Set.Name, UID: a.Set.UID}, Started: *operation.Moment(a.Now)}}
	if record != nil {
		next.Attempt, next.Span = record.Attempt, record.Span
	}
	next.Operation = api.OperationID(a.Set.UID, string(api.KindCleanup), next.Attempt)
	next.Phase, next.Reason, next.Message = phase, reason, message
	next.Request, next.Order = cleanup.Digest(a.Set), members.OrderNumber(a.Set)
	return next
}

// startCleanup stores a new cleanup before any other write.
func (a accounts) startCleanup(record *api.Cleanup, left []cleanup.Ordinal) plan.Plan {
	next := a.newRecord(record, api.Cleaning, api.CleanupStarted, "cleaning up "+ordinalsOf(left))
	next.Attempt++
	next.Operation = api.OperationID(a.Set.UID, string(api.KindCleanup), next.Attempt)
	next.Trace = a.Trace
	return plan.Do(api.CleanupStarted, a.store(next).Actions()...)
}

// ordinalsOf names the first ten ordinals in words.
func ordinalsOf(left []cleanup.Ordinal) string {
	const most = 10
	var names []string
	for _, o := range left[:min(most, len(left))] {
		names = append(names, fmt.Sprint(o.Number))
	}
	text := "ordinal " + names[0]
	if len(left) > 1 {
		text = "ordinals " + strings.Join(names, ", ")
	}
	if more := len(left) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// store returns a patch with the record. It removes the retry annotation if the annotation caused this attempt.
func (a accounts) store(next *api.Cleanup) *plan.Patch {
	patch := operation.Store(a.Set, next)
	if record, err := api.LoadCleanup(a.Set); err == nil && a.isRetried(record) {
		patch.Unannotate(api.RetryAnnotation)
	}
	return patch
}

// refreshRecord updates the record of a set without work for a cleanup: the accounted ordinals, and the claims that are kept.
func (a accounts) refreshRecord(record *api.Cleanup, ordinals []cleanup.Ordinal) plan.Plan {
	left := a.leftBehind(record, ordinals)
	next := a.newRecord(record, api.Succeeded, api.CleanupReady, "the claims of removed replicas will be cleaned up")
	next.Operation = api.OperationID(a.Set.UID, string(api.CleanupReady), next.Attempt) // differs from every real cleanup
	if record != nil && record.Request == next.Request && record.Phase != api.Refused && (record.Phase != api.Failed || len(left) > 0) {
		next = record.Clone()
	}
	return a.storeFinished(record, next, ordinals, left)
}

// storeFinished stores the record of a finished cleanup if it changed.
func (a accounts) storeFinished(record, next *api.Cleanup, ordinals, left []cleanup.Ordinal) plan.Plan {
	if len(left) == 0 {
		next.Order = members.OrderNumber(a.Set)
	}
	if a.Set.DeletionTimestamp == nil {
		next.Span = a.accountedSpan(next.Span, ordinals)
	}
	reports := a.reports(ordinals)
	next.Ordinals = append(failedEntries(record, left), reports...)
	actions := a.store(next).Actions()
	if a.Doubt != "" {
		actions = append(actions, a.note(next, api.Rejected, true, "the API server would reject a cleanup pod at present: %s", a.Doubt))
	}
	return plan.Do(next.Reason, append(actions, a.newReportEvents(record, reports)...)...)
}

// newReportEvents returns Events for the reports that the record does not have yet.
func (a accounts) newReportEvents(record *api.Cleanup, reports []api.OrdinalStatus) []plan.Action {
	var notes []plan.Action
	for _, r := range reports {
		if entry := entryOf(record, r.Ordinal); entry == nil || *entry != r {
			notes = append(notes, plan.Event(a.Set.Namespace, a.Set.Name,
				plan.Note{Warning: true, Reason: r.Reason, Message: r.Message, UID: a.Set.UID}))
		}
	}
	return notes
}

// accountedSpan returns the ordinals whose pods were seen. A pod that is being replaced counts as seen.
func (a accounts) accountedSpan(before *api.Span, ordinals []cleanup.Ordinal) *api.Span {
	now, wanted := cleanup.Accounted(a.Set, ordinals), statefulset.Span(a.Set)
	if before != nil && before.Start == now.Start {
		now.End = max(now.End, min(before.End, wanted.End))
	}
	return &now
}

// reports returns an entry for each claim that has the name of a removed replica's claim, but is not known to have been used by
// one. Such claims are kept.
func (a accounts) reports(ordinals []cleanup.Ordinal) []api.OrdinalStatus {
	var reports []api.OrdinalStatus
	for _, o := range ordinals {
		claim := o.Unknown(a.Set)
		if o.Wanted || !members.Removes(a.Set, o.Number) || claim == "" || len(reports) == maxReports {
			continue
		}
		reason, message := api.NeverUsed, fmt.Sprintf(
			"claim %[1]s is kept, because no member of this StatefulSet is known to have used it. If one did, run "+
				"kubectl annotate -n %[2]s pvc %[1]s %[3]s=%[4]s, then kubectl drydock cleanup -n %[2]s sts/%[5]s --from %[6]d",
			claim, a.Set.Namespace, api.ReplicaOfAnnotation, a.Set.UID, a.Set.Name, o.Number)
		if a.unbound(claim) {
			reason, message = api.ClaimUnbound, fmt.Sprintf(
				"claim %s is kept. It is not bound to a volume, so no member used it. Delete it if it is not needed", claim)
		}
		reports = append(reports, api.OrdinalStatus{Ordinal: o.Number, Reason: reason, Message: message})
	}
	return reports
}

// unbound reports whether the claim exists and is not bound to a volume.
func (a accounts) unbound(claim string) bool {
	return slices.ContainsFunc(a.Claims, func(c *corev1.PersistentVolumeClaim) bool {
		return c.Name == claim && c.Status.Phase != corev1.ClaimBound
	})
}

// maxReports limits the size of the record, because all annotations of an object together may have 256 KiB.
const maxReports = 20

// conclude ends the cleanup. If the set is being deleted, it removes our finalizer.
func (a accounts) conclude(record *api.Cleanup, ordinals, left []cleanup.Ordinal) plan.Plan {
	if failed := failedEntries(record, left); len(failed) > 0 {
		next := operation.Fail(record, api.Failed, a.Now, failed[0].Reason, failed[0].Message)
		return a.storeFinished(record, next, ordinals, left).Then(events.OperationFailed, record.Operation).For(api.KindCleanup)
	}
	next := operation.Conclude(record, api.Succeeded, a.Now, api.CleanupCompleted, "nothing is left behind")
	if a.Set.DeletionTimestamp != nil {
		next.Ordinals = a.reports(ordinals)
		actions := append(removeFinalizer(a.store(next)).Actions(), a.newReportEvents(record, next.Ordinals)...)
		return plan.Do(api.CleanupCompleted, append(actions,
			a.note(next, api.CleanupCompleted, false, "the finalizer of the StatefulSet is removed, because all its ordinals are cleaned up"))...).
			Then(events.CleanupCompleted, record.Operation)
	}
	p := a.storeFinished(record, next, ordinals, left)
	p.Actions = append(p.Actions, a.note(next, api.CleanupCompleted, false, "%s", next.Message))
	return p.Then(events.CleanupCompleted, record.Operation)
}

// note returns a Kubernetes Event for the cleanup.
func (a accounts) note(record *api.Cleanup, reason api.Reason, warning bool, message string, args ...any) plan.Action {
	return plan.Event(a.Set.Namespace, a.Set.Name, plan.Note{Warning: warning, Reason: reason,
		Message: fmt.Sprintf(message, args...), UID: a.Set.UID, Operation: record.Operation})
}

// entryOf returns the record's entry for the ordinal, or nil.
func entryOf(record *api.Cleanup, ordinal int) *api.OrdinalStatus {
	if record == nil {
		return nil
	}
	i := slices.IndexFunc(record.Ordinals, func(o api.OrdinalStatus) bool { return o.Ordinal == ordinal })
	if i < 0 {
		return nil
	}
	return &record.Ordinals[i]
}

// withEntry returns the record with the entry in place of the ordinal's previous entry.
func withEntry(record *api.Cleanup, entry api.OrdinalStatus) *api.Cleanup {
	next := withoutEntry(record, entry.Ordinal)
	next.Ordinals = append(next.Ordinals, entry)
	slices.SortStableFunc(next.Ordinals, func(a, b api.OrdinalStatus) int { return b.Ordinal - a.Ordinal })
	return next
}

// withoutEntry returns the record without an entry for the ordinal.
func withoutEntry(record *api.Cleanup, ordinal int) *api.Cleanup {
	next := record.Clone()
	next.Ordinals = slices.DeleteFunc(next.Ordinals, func(o api.OrdinalStatus) bool { return o.Ordinal == ordinal })
	return next
}

// failedEntries returns the entries of left ordinals whose cleanup was given up.
func failedEntries(record *api.Cleanup, left []cleanup.Ordinal) []api.OrdinalStatus {
	var failed []api.OrdinalStatus
	for _, o := range left {
		if entry := entryOf(record, o.Number); entry != nil && entry.GivenUp {
			failed = append(failed, *entry)
		}
	}
	return failed
}
