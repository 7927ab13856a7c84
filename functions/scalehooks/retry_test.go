package scalehooks

import (
	"strings"
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
)

// TestRetryWithInvalidHookSaysSo: a scaling has failed, and the user edits the hook and retries. The new hook is invalid, so no
// scaling begins. The condition Healthy must say that, and not ask for the retry that the user has made.
func TestRetryWithInvalidHookSaysSo(t *testing.T) {
	in := observed(web(2, withRecord(api.Failed, failedAt(api.PreScaling))), pilot(withInvalidHooks, withRetry))
	said := ""
	for range 10 {
		p := Decide(in)
		if p.Kind != plan.KindDo {
			break
		}
		for _, a := range p.Actions {
			in = in.afterAction(a)
		}
	}
	for _, c := range in.Scalers[0].Status.Conditions {
		if c.Type == "Healthy" || c.Type == "Failed" {
			said += c.Type + " " + c.Reason + ": " + c.Message + "\n"
		}
	}
	if !strings.Contains(said, string(api.HookInvalid)) {
		t.Errorf("the retry cannot begin (HookInvalid), and the Scaler says only:\n%s", said)
	}
}
