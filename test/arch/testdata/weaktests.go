// Package weaktests has functions with one weakness each, and TestSound without any.
package weaktests

import "testing"

func TestReturns(t *testing.T) {
	if decide() == nil {
		return
	}
	t.Error("not reached")
}

func TestAssertsInLoop(t *testing.T) {
	for _, a := range decide().Actions {
		if a == "delete" {
			t.Errorf("%s", a)
		}
	}
}

func TestLogsPlan(t *testing.T) {
	if decide() == nil {
		t.Fatal("no plan")
	}
	t.Logf("%s", decide())
}

func TestSkips(t *testing.T) {
	if decide() == nil {
		t.Skip("no plan")
	}
	t.Error("no plan")
}

func helperSkips(tb testing.TB) {
	if decide() == nil {
		tb.Skipf("no plan")
	}
}

func TestSound(t *testing.T) {
	for _, a := range decide().Actions {
		if func() bool { return a == "delete" }() {
			t.Errorf("%s", a)
		}
	}
	if len(decide().Actions) != 1 {
		t.Error("no plan")
	}
}
