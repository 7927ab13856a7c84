//go:build cluster

package api

import (
	"context"
	"strings"
	"testing"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/owners"
	"drydock.dev/test/kit"
)

// operatorHelps plays an operator without which no pod of its set becomes ready, like Galera's, which must recover the
// cluster. It does nothing while it is paused.
func operatorHelps(w *kit.World, row owners.Row, kind string) {
	paused := row.Paused(w.Custom(row, kind, "main"))
	w.Node.Set(func(n *kit.Node) { n.HoldPods = paused })
}

// TestPodsThatNeedTheirOperatorBecomeReady: the owner is resumed when the replicas are back, before they are ready.
func TestPodsThatNeedTheirOperatorBecomeReady(t *testing.T) {
	t.Parallel()
	w, row := ownedSleeper(t)
	before := content(w.Custom(row, redis, "main"))
	drive := w.Drive(nil)
	w.UntilSleep(drive, "web", api.Asleep)
	operatorHelps(w, row, redis)
	sendSetEvent(t, w, drive, events.Wake, "web")
	w.Eventually("the set wakes", func() string {
		operatorHelps(w, row, redis)
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		if sleep := w.Sleep("web"); sleep.Phase != api.Succeeded {
			return string(sleep.Phase) + ": " + sleep.Message
		}
		return ""
	})
	expectAwake(t, w, drive, "web", 3)
	expectResumed(t, w, drive, row, redis, before)
}

// TestPodsThatNeedTheirOperatorBecomeReadyAfterResize: the same is true at the end of a resize by copy.
func TestPodsThatNeedTheirOperatorBecomeReadyAfterResize(t *testing.T) {
	t.Parallel()
	w, row := ownedWorld(t)
	before := content(w.Custom(row, "Prometheus", "main"))
	drive := w.Drive(nil)
	w.Eventually("the resize succeeds", func() string {
		paused := row.Paused(w.Custom(row, "Prometheus", "main"))
		w.Node.Set(func(n *kit.Node) { n.HoldPods = paused })
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		if status := w.Status("web"); status == nil || status.Phase != api.Succeeded {
			return "it has not"
		}
		return ""
	})
	expectResumed(t, w, drive, row, "Prometheus", before)
}

// TestSetWakesWithoutItsOperator: the operator has stopped the set and never starts it. Drydock starts it and reports
// that.
func TestSetWakesWithoutItsOperator(t *testing.T) {
	t.Parallel()
	w, row := kit.NewWorld(t), rowOf(t, "postgres-operator.crunchydata.com", "PostgresCluster")
	w.GrantPause(row.Operator)
	w.Settings.ReadyTimeout = 20 * time.Second // a busy machine starts three pods in it
	w.DefineKind(row, "PostgresCluster")
	owner := w.CreateCustom(row, "PostgresCluster", "main", map[string]any{}, nil)
	before := content(w.Custom(row, "PostgresCluster", "main"))
	idleSet(w, "web", 3, nil)
	w.SetController("web", owner)
	drive := w.Drive(nil)
	awaitAsleep(t, w, drive, func() { operatorOf(w, row, "PostgresCluster", 3) })
	sendSetEvent(t, w, drive, events.Wake, "web")
	sleep := w.UntilSleep(drive, "web", api.Succeeded)
	if !mentions(sleep.Message, "operator", " 3 ", "20s") {
		t.Errorf("%s: %s", sleep.Reason, sleep.Message)
	}
	if told := strings.Join(w.Events("web"), ", "); !strings.Contains(told, "Warning "+string(api.OwnerAway)) {
		t.Errorf("events %s", told)
	}
	expectAwake(t, w, drive, "web", 3)
	expectResumed(t, w, drive, row, "PostgresCluster", before)
}
