package idletimeout

import (
	"reflect"
	"testing"

	"drydock.dev/shared/api"
)

// TestEachListAlwaysDecides: the last line of a list applies to every situation, no line before it does, and each line has its own name.
// The golden files of the other tests show which line decides in which situation.
func TestEachListAlwaysDecides(t *testing.T) {
	always := reflect.ValueOf(always).Pointer()
	for name, list := range map[string][]namedCheck{"member": memberChecks, "start": startChecks, "sleep": sleepChecks, "stop": stopChecks,
		"waking": wakingChecks, "operator": operatorChecks, "zero": zeroChecks, "ready": readyChecks} {
		names := map[string]bool{}
		for i, c := range list {
			if last := i == len(list)-1; (reflect.ValueOf(c.applies).Pointer() == always) != last {
				t.Errorf("%s: line %d of %d, %q, applies always: %t", name, i+1, len(list), c.when, !last)
			}
			if names[c.when] {
				t.Errorf("%s: two lines are named %q", name, c.when)
			}
			names[c.when] = true
		}
	}
}

// TestFirstCheckDecides: a later check that applies, too, does not decide.
func TestFirstCheckDecides(t *testing.T) {
	never := func(situation) bool { return false }
	list := []namedCheck{{"never", never, noop(api.SetGone)}, {"first", always, noop(api.NotIdle)}, {"later", always, noop(api.InProgress)}}
	if p := first(list, situation{}); p.Reason != api.NotIdle {
		t.Errorf("decided %s", p.Reason)
	}
}
