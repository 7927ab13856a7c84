//go:build cluster

package api

import (
	"strings"
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/test/kit"
)

// TestMoverWarningsReachRecordAndEvents: the record keeps the warnings of movers. There is one Event for each claim,
// although there are two passes.
func TestMoverWarningsReachRecordAndEvents(t *testing.T) {
	w, drive := readyWorld(t, kit.WorldSet("web", 2, "64Mi", "data"))
	w.Node.Set(func(n *kit.Node) { n.Warning = "2 subvolumes are plain directories in the target" })
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	status := w.Finish(drive, "web")
	expectPhase(t, status, api.Succeeded)
	for _, move := range status.Moves() {
		if got := move.Warnings; len(got) != 1 || !strings.Contains(got[0], "subvolumes") {
			t.Errorf("claim %s has the warnings %q", move.Claim, got)
		}
	}
	warned := 0
	for _, event := range w.Events("web") {
		if strings.Contains(event, string(api.CopyWarning)) {
			warned++
		}
	}
	if warned != 2 {
		t.Errorf("%d Events in %q", warned, w.Events("web"))
	}
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
}

// TestMoverThatFindsForeignDataEndsResize: a mover with data in its target ends the operation while the set runs, and
// its Job makes no second try.
func TestMoverThatFindsForeignDataEndsResize(t *testing.T) {
	w, drive := readyWorld(t, kit.WorldSet("web", 1, "64Mi", "data"))
	holdFirstPass(w, true)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	untilFirstPasses(t, w, drive, 1)
	w.Node.Set(func(n *kit.Node) {
		n.FailMovers = true
		n.Failure = moverreport.MemberReport{Code: moverreport.CodeTargetNotEmpty, Reason: moverreport.ReasonTargetNotEmpty,
			Message: "the target's root holds 1 entry"}
	})
	holdFirstPass(w, false)
	status := w.Finish(drive, "web")
	if status.Phase != api.Failed || status.Reason != api.CopyFailed || !strings.Contains(status.Message, "TargetNotEmpty") ||
		wasStopped(status) {
		t.Errorf("%s %s: %s", status.Phase, status.Reason, status.Message)
	}
}
