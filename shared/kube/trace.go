package kube

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/telemetry"
	"drydock.dev/shared/world"
)

// joinTrace attaches this event to the trace of the set's active operation, or of the finished operation that the event names. Some events,
// such as the end of a Job, do not name their operation. It is known only when the set has been read.
func joinTrace(ctx context.Context, set *appsv1.StatefulSet) {
	records, current := operation.Of(set), telemetry.From(ctx)
	if records.ResizeErr != nil || records.SleepErr != nil {
		return
	}
	if resize := records.Resize; resize != nil && (records.Resizing() || current.NamesOperation(resize.Operation)) {
		current.Join(resize.Operation, resize.Trace)
		return
	}
	if sleep := records.Sleep; sleep != nil && (sleep.Active() || current.NamesOperation(sleep.Operation)) {
		current.Join(sleep.Operation, sleep.Trace)
	}
}

// joinJournalTrace does the same for an operation whose set is gone or has lost its record. It takes the trace from the journal.
func joinJournalTrace(ctx context.Context, o *world.Observed) {
	if record, err := o.Record(); err != nil || record != nil && record.Active() {
		return
	}
	for _, revision := range o.Journals {
		if journal, err := api.LoadJournal(revision); err == nil {
			telemetry.From(ctx).Join(journal.Record.Operation, journal.Record.Trace)
			return
		}
	}
}
