package scalehooks

import (
	"testing"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/test/kit/build"
)

// TestRevertOfAFastClockPausesNoDays: a node whose clock was thirty days ahead wrote the last revert. The next one must wait
// for contestPause at most, and not for thirty days.
func TestRevertOfAFastClockPausesNoDays(t *testing.T) {
	ahead := operation.Moment(build.Now.Add(30 * 24 * time.Hour))
	if later := build.Now.Add(contestPause + time.Minute); contested(&api.Reverts{Count: quickReverts, First: *ahead, Last: *ahead}, later) {
		t.Errorf("no revert before %s", ahead)
	}
}

// TestHookRequestOfAFastClockIsRepeated: a process with a clock thirty days ahead sent the first request, which was lost.
func TestHookRequestOfAFastClockIsRepeated(t *testing.T) {
	in := withReportedStatus(observed(web(2, withRecord(api.PreScaling, withRequests(1, -30*24*time.Hour))), pilot(withEventHooks)))
	if p := Decide(in); p.Announce != events.ScaleHookRequested {
		t.Errorf("the request is not repeated before its deadline: %s", p)
	}
}
