package scalehooks

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/members"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// keepLedger writes the set's ledger. It carries out the order of a user with it.
func (in Input) keepLedger() plan.Plan {
	set := in.Set
	if !members.Due(set) {
		return plan.Noop(api.MembersCounted)
	}
	patch, notes := plan.PatchOf(plan.StatefulSets, set), []plan.Action(nil)
	if !members.Keeps(set) {
		return plan.Do(api.MembersCounted, patch.Unannotate(api.LedgerAnnotation).Actions()...)
	}
	warn := func(reason api.Reason, message string, args ...any) {
		notes = append(notes, plan.Event(in.Namespace, in.Name, plan.Note{Warning: true, Reason: reason, Message: fmt.Sprintf(message, args...),
			UID: set.UID}))
	}
	next := members.Next(set, in.Held)
	if written, ordered := set.Annotations[api.CleanupFromAnnotation]; ordered {
		patch.Unannotate(api.CleanupFromAnnotation)
		if ledger, err := members.Order(set, written); err != nil {
			warn(api.RequestInvalid, "annotation %s was removed and nothing is cleaned up: %v", api.CleanupFromAnnotation, err)
		} else {
			next = ledger
		}
	}
	if missing, some := members.Missing(next, set); some {
		warn(api.PodsExpected, "the claims of pods %[1]s-%[2]d to %[1]s-%[3]d are kept, because these pods are expected back. To give them up, "+
			"run: kubectl drydock cleanup -n %[4]s sts/%[1]s --from %[2]d", in.Name, missing.Start, missing.End-1, in.Namespace)
	}
	return plan.Do(api.MembersCounted, append(patch.Annotate(api.LedgerAnnotation, next.Encode()).Actions(), notes...)...)
}

// observeHolds finds out whether a record of another operation says that the set's pods were stopped for a while, or that its claims are
// incomplete. Such a record is written before any pod is stopped, and the set was read before this. An operator that Drydock has stopped
// for another set may have stopped this one, too. Which sets it has is not asked: a hold keeps claims.
func (f *Function) observeHolds(ctx context.Context, in *Input) error {
	if in.Set == nil || !members.Orders(in.Set) {
		return nil
	}
	return kube.Pages(ctx, f.client, plan.ControllerRevisions, in.Namespace, api.OperationLabel, &appsv1.ControllerRevisionList{},
		func(l *appsv1.ControllerRevisionList) {
			for i := range l.Items {
				link := api.RevisionLink(&l.Items[i])
				if link == nil {
					continue
				}
				owner, err := api.LoadPausedOwner(&l.Items[i])
				stops := link.Role == api.RoleOwner && err == nil && owner.Stopped && statefulset.Controller(in.Set) != nil
				in.Held = in.Held || stops || link.Set.Name == in.Name
			}
		})
}
