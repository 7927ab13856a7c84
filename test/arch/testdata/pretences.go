// Package pretences has tests that the check of test/arch refuses, and one that it accepts.
package pretences

import "testing"

func TestReturns(t *testing.T) {
	if decide() == nil {
		return
	}
	t.Error("not reached")
}

func TestOnlyInLoop(t *testing.T) {
	for _, a := range decide().Actions {
		if a == "delete" {
			t.Errorf("%s", a)
		}
	}
}

func TestEndsWithMessage(t *testing.T) {
	if decide() == nil {
		t.Fatal("no plan")
	}
	t.Logf("%s", decide())
}

func TestHonest(t *testing.T) {
	for _, a := range decide().Actions {
		if func() bool { return a == "delete" }() {
			t.Errorf("%s", a)
		}
	}
	if len(decide().Actions) != 1 {
		t.Error("no plan")
	}
}
