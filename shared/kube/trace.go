package kube

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/sts"
	"drydock.dev/shared/telemetry"
)

// follow goes on in the trace of the operation that runs on the set, or that has ended but is the one of which the event
// tells. The event may come from elsewhere, as the end of a Job does; which operation it is about is known only here,
// where the set was read.
func follow(ctx context.Context, set *appsv1.StatefulSet) {
	resize, resizeErr := (&sts.Observed{Set: set}).Status() // not a status that came along with a copied manifest
	nap, napErr := sts.SleepOf(set)
	for _, status := range []*api.Status{resize, nap} {
		if resizeErr != nil || napErr != nil || status == nil {
			continue
		}
		if hop := telemetry.From(ctx); status.Active() || status.Held() || hop.Tells(status.Operation) {
			hop.Join(status.Operation, status.Trace)
			return
		}
	}
}

// followJournals does the same for an operation whose set is gone, or tells of none.
func followJournals(ctx context.Context, o *sts.Observed) {
	if status, err := o.Status(); err != nil || status.Active() || status.Held() {
		return
	}
	for _, revision := range o.Journals {
		if journal, err := api.LoadJournal(revision); err == nil {
			telemetry.From(ctx).Join(journal.Status.Operation, journal.Status.Trace)
			return
		}
	}
}
