package sift

import (
	"context"
	"maps"
	"slices"
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
	if list.LacksOffer() {
		found.addOneThatWaits(due)
	}
	listed := map[string]bool{}
	for _, t := range list.All() {
		listed[t.Operation] = true
		waiting := found.waitingTurns[t.Operation]
		over := found.isOver(operationKey{t.Namespace, t.Operation})
		if f.covers(t.Namespace) && !found.incomplete[t.Namespace] && (over || waiting != nil && (t.Taken() || due[t.Operation])) {
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

// addOneThatWaits adds a resize that waits and may not have its turn yet. It asks again, and so stores who may have a turn.
func (f *findings) addOneThatWaits(due map[string]bool) {
	for _, operation := range slices.Sorted(maps.Keys(f.waitingTurns)) {
		if !due[operation] {
			f.add(*f.waitingTurns[operation])
			return
		}
	}
}

func noticeOfTurn(t turns.Turn) notice {
	return notice{ref: events.Ref{Namespace: t.Namespace, Name: t.Set, UID: t.UID}, cause: "turn/" + t.Operation,
		functions: []api.Function{api.PauseOwner}}
}
