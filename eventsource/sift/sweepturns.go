package sift

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/turns"
)

// sweepTurns finds resizes that may have their turn now, and turns whose operation is over. All other resizes that wait for their turn
// stay asleep: there may be thousands.
func (f *Function) sweepTurns(ctx context.Context, now time.Time, found *findings) error {
	config, err := f.client.TurnsConfig(ctx, f.settings)
	if apierrors.IsForbidden(err) { // the Roles may be older than this Drydock; the rest of the sweep continues
		f.log.Warn("cannot read the list of turns; apply the current Roles", "error", err.Error())
		err = nil
	}
	if err != nil {
		return err
	}
	list := turns.Read(config, f.settings, now)
	due := map[string]bool{}
	for _, t := range list.Next() {
		due[t.Operation] = true
	}
	listed := map[string]bool{}
	for _, t := range list.All() {
		listed[t.Operation] = true
		waiting := found.waitingTurns[t.Operation]
		over := !found.isActive(t.Operation) && !found.inJournals[t.Operation]
		if f.covers(t.Namespace) && (over || waiting != nil && (t.Running() || due[t.Operation])) {
			found.add(noticeOfTurn(t))
		}
	}
	for operation, notice := range found.waitingTurns {
		if !listed[operation] && list.HasRoom(notice.ref.Namespace) { // without a list, every resize has its turn
			found.add(*notice)
		}
	}
	return nil
}

func noticeOfTurn(t turns.Turn) notice {
	return notice{ref: events.Ref{Namespace: t.Namespace, Name: t.Set, UID: t.UID}, cause: "turn/" + t.Operation,
		functions: []api.Function{api.PauseOwner}}
}
