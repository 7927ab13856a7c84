package api

import (
	"strings"
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// What movers warn of stays in the status, and is told in Events, once for each claim although there are two passes.
func TestMoverWarningsReachStatusAndEvents(t *testing.T) {
	w, drive := copiedWorld(t, kit.WorldSet("web", 2, "64Mi", "data"))
	w.Node.Set(func(n *kit.Node) { n.Warning = `"2 subvolumes are plain directories in the target"` })
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	status := w.Finish(drive, "web")
	expectPhase(t, status, api.Succeeded)
	for i := range status.Claims {
		if got := status.Claims[i].Warnings; len(got) != 1 || !strings.Contains(got[0], "subvolumes") {
			t.Errorf("claim %s has the warnings %q", status.Claims[i].Name, got)
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

// A mover that finds its target in use ends the operation while the set runs, and its Job makes no second try.
func TestMoversAreToldToLeaveForeignTargetsAlone(t *testing.T) {
	w, drive := copiedWorld(t, kit.WorldSet("web", 1, "64Mi", "data"))
	holdWarm(w, true)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	untilWarming(t, w, drive, 1)
	for _, pod := range movers(t, w) {
		if !has(pod, "--own-target") {
			t.Errorf("mover %s is called with %q", pod.Name, pod.Spec.Containers[0].Args)
		}
	}
	w.Node.Set(func(n *kit.Node) {
		n.FailCode, n.FailReason = 7, `{"result":"failed","reason":"TargetNotEmpty","message":"the target's root holds 1 entry"}`
		n.FailMovers = true
	})
	holdWarm(w, false)
	status := w.Finish(drive, "web")
	if status.Phase != api.Failed || status.Reason != api.CopyFailed || !strings.Contains(status.Message, "TargetNotEmpty") || status.Stopped != nil {
		t.Errorf("%s %s: %s", status.Phase, status.Reason, status.Message)
	}
}
