package cleanuppod

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// fresh is a document that tells of no operation yet.
func (in Input) fresh(doc *api.Cleanup, phase api.Phase, reason api.Reason, message string) *api.Cleanup {
	next := &api.Cleanup{Header: api.Header{Version: api.RecordVersion, Kind: api.KindCleanup,
		Set: api.SetRef{Name: in.Set.Name, UID: in.Set.UID}, Started: *operation.Moment(in.Now)}}
	if doc != nil {
		next.Attempt, next.Span = doc.Attempt, doc.Span
	}
	next.Operation = api.OperationID(in.Set.UID, string(api.KindCleanup), next.Attempt)
	next.Phase, next.Reason, next.Message = phase, reason, message
	next.Request, next.Replicas = cleanup.Digest(in.Set), statefulset.Replicas(in.Set)
	return next
}

// begin writes down that there is a cleanup, before anything is done.
func (in Input) begin(doc *api.Cleanup, left []cleanup.Ordinal) plan.Plan {
	next := in.fresh(doc, api.Cleaning, api.CleanupStarted, "cleaning up "+ordinalsOf(left))
	next.Attempt++
	next.Operation = api.OperationID(in.Set.UID, string(api.KindCleanup), next.Attempt)
	next.Trace = in.Trace
	return plan.Do(api.CleanupStarted, in.store(next).Actions()...)
}

// ordinalsOf names the first few in a sentence.
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

// store patches the set's document. A retry that somebody has asked for by annotation is taken.
func (in Input) store(next *api.Cleanup) *plan.Patch {
	patch := operation.Store(in.Set, next)
	if doc, err := api.LoadCleanup(in.Set); err == nil && in.retried(doc) {
		patch.Unannotate(api.RetryAnnotation)
	}
	return patch
}

// settle brings the document of a set of which nothing is to be cleaned up to what there is: which ordinals are accounted for,
// and which claims are left alone.
func (in Input) settle(doc *api.Cleanup, ordinals []cleanup.Ordinal) plan.Plan {
	left := in.left(doc, ordinals)
	next := in.fresh(doc, api.Succeeded, api.CleanupReady, "what a scale-down leaves behind will be cleaned up")
	next.Operation = api.OperationID(in.Set.UID, string(api.CleanupReady), next.Attempt) // it is none, and not the one before
	if doc != nil && doc.Request == next.Request && doc.Phase != api.Refused && (doc.Phase != api.Failed || len(left) > 0) {
		next = doc.Clone()
	}
	return in.keep(doc, next, ordinals, left)
}

// keep stores the document of a cleanup that is over, if it tells anything new.
func (in Input) keep(doc, next *api.Cleanup, ordinals, left []cleanup.Ordinal) plan.Plan {
	next.Replicas, next.Generation = statefulset.Replicas(in.Set), in.Set.Status.ObservedGeneration
	if in.Set.DeletionTimestamp == nil {
		next.Span = in.accounted(next.Span, ordinals)
	}
	reports := in.reports(ordinals)
	next.Ordinals = append(failedOf(doc, left), reports...)
	actions := in.store(next).Actions()
	if in.Doubt != "" {
		actions = append(actions, in.note(next, api.Rejected, true, "the API server would not let a cleanup pod be made now: %s", in.Doubt))
	}
	return plan.Do(next.Reason, append(actions, in.tell(doc, reports)...)...)
}

// tell makes Events of the reports that the document does not have yet.
func (in Input) tell(doc *api.Cleanup, reports []api.OrdinalStatus) []plan.Action {
	var notes []plan.Action
	for _, r := range reports {
		if entry := entryOf(doc, r.Ordinal); entry == nil || *entry != r {
			notes = append(notes, plan.Record(in.Set.Namespace, in.Set.Name, plan.Note{Warning: true, Reason: r.Reason, Message: r.Message, UID: in.Set.UID}))
		}
	}
	return notes
}

// accounted are the ordinals of which a pod is, or was, seen. One that is being replaced was.
func (in Input) accounted(before *api.Span, ordinals []cleanup.Ordinal) *api.Span {
	now, wanted := cleanup.Accounted(in.Set, ordinals), statefulset.Span(in.Set)
	if before != nil && before.Start == now.Start {
		now.End = max(now.End, min(before.End, wanted.End))
	}
	return &now
}

// reports are about claims that look as if a scale-down had left them, and that no replica of the set is known to have used.
func (in Input) reports(ordinals []cleanup.Ordinal) []api.OrdinalStatus {
	var reports []api.OrdinalStatus
	for _, o := range ordinals {
		claim := o.Unknown(in.Set)
		if o.Wanted || claim == "" || len(reports) == mostReports {
			continue
		}
		reason, message := api.NeverUsed, fmt.Sprintf("claim %[1]s is left alone: no replica of this StatefulSet is known to have used it; if one has: "+
			"kubectl annotate -n %[2]s pvc %[1]s %[3]s=%[4]s, then kubectl drydock emit object.changed -n %[2]s sts/%[5]s --concerns cleanup-pod",
			claim, in.Set.Namespace, api.ReplicaOfAnnotation, in.Set.UID, in.Set.Name)
		if in.unbound(claim) {
			reason, message = api.ClaimUnbound, fmt.Sprintf("claim %s is left alone: it is bound to no volume, so no replica has used it; delete it if it is not needed", claim)
		}
		reports = append(reports, api.OrdinalStatus{Ordinal: o.Number, Reason: reason, Message: message})
	}
	return reports
}

func (in Input) unbound(claim string) bool {
	return slices.ContainsFunc(in.Claims, func(c *corev1.PersistentVolumeClaim) bool {
		return c.Name == claim && c.Status.Phase != corev1.ClaimBound
	})
}

// mostReports bounds the document: an object's annotations may have 256 KiB in all.
const mostReports = 20

// conclude ends the cleanup. A set that was held for it may go.
func (in Input) conclude(doc *api.Cleanup, ordinals, left []cleanup.Ordinal) plan.Plan {
	if failed := failedOf(doc, left); len(failed) > 0 {
		next := operation.Fail(doc, api.Failed, in.Now, failed[0].Reason, failed[0].Message)
		return in.keep(doc, next, ordinals, left).Then(events.OperationFailed, doc.Operation).For(api.KindCleanup)
	}
	next := operation.Conclude(doc, api.Succeeded, in.Now, api.CleanupCompleted, "nothing is left behind")
	if in.Set.DeletionTimestamp != nil {
		next.Ordinals = in.reports(ordinals)
		actions := append(unfinalize(in.store(next)).Actions(), in.tell(doc, next.Ordinals)...)
		return plan.Do(api.CleanupCompleted, append(actions, in.note(next, api.CleanupCompleted, false, "the StatefulSet may go: its ordinals are cleaned up"))...).
			Then(events.CleanupCompleted, doc.Operation)
	}
	p := in.keep(doc, next, ordinals, left)
	p.Actions = append(p.Actions, in.note(next, api.CleanupCompleted, false, "%s", next.Message))
	return p.Then(events.CleanupCompleted, doc.Operation)
}

// refuse says once why nothing can be cleaned up.
func (in Input) refuse(doc *api.Cleanup, problem *cleanup.Problem) plan.Plan {
	if doc.Active() {
		return in.cancel(doc, problem.Reason, problem.Message)
	}
	if in.refused(doc) {
		return plan.Noop(api.AlreadyRefused)
	}
	next := in.fresh(doc, api.Refused, problem.Reason, problem.Message)
	next.Operation = api.OperationID(in.Set.UID, string(api.Refused)+next.Request, next.Attempt) // not the one before
	next.Finished = operation.Moment(in.Now)
	return plan.Do(problem.Reason, append(in.store(next).Actions(), operation.NoteOf(in.Set, next, true))...).
		Then(events.OperationFailed, next.Operation).For(api.KindCleanup)
}

// note makes a Kubernetes Event of the cleanup.
func (in Input) note(doc *api.Cleanup, reason api.Reason, warning bool, message string, args ...any) plan.Action {
	return plan.Record(in.Set.Namespace, in.Set.Name, plan.Note{Warning: warning, Reason: reason,
		Message: fmt.Sprintf(message, args...), UID: in.Set.UID, Operation: doc.Operation})
}

// entryOf is what the document tells of the ordinal; nil if nothing.
func entryOf(doc *api.Cleanup, ordinal int) *api.OrdinalStatus {
	if doc == nil {
		return nil
	}
	i := slices.IndexFunc(doc.Ordinals, func(o api.OrdinalStatus) bool { return o.Ordinal == ordinal })
	if i < 0 {
		return nil
	}
	return &doc.Ordinals[i]
}

// withEntry is the document with the entry in place of what it told of the ordinal.
func withEntry(doc *api.Cleanup, entry api.OrdinalStatus) *api.Cleanup {
	next := withoutEntry(doc, entry.Ordinal)
	next.Ordinals = append(next.Ordinals, entry)
	slices.SortStableFunc(next.Ordinals, func(a, b api.OrdinalStatus) int { return b.Ordinal - a.Ordinal })
	return next
}

func withoutEntry(doc *api.Cleanup, ordinal int) *api.Cleanup {
	next := doc.Clone()
	next.Ordinals = slices.DeleteFunc(next.Ordinals, func(o api.OrdinalStatus) bool { return o.Ordinal == ordinal })
	return next
}

// given reports whether the cleanup of the ordinal has been given up.
func given(entry *api.OrdinalStatus) bool {
	return entry != nil && entry.NextTry == nil && entry.Deadline == nil && entry.Reason != api.NeverUsed && entry.Reason != api.ClaimUnbound && entry.Reason != api.ScaleUpWaits
}

// failedOf are the entries of ordinals that are left and whose cleanup has been given up.
func failedOf(doc *api.Cleanup, left []cleanup.Ordinal) []api.OrdinalStatus {
	var failed []api.OrdinalStatus
	for _, o := range left {
		if entry := entryOf(doc, o.Number); given(entry) {
			failed = append(failed, *entry)
		}
	}
	return failed
}
