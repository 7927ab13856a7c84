// Package weaktests has functions with one weakness each, and two without any, which begin with TestSound.
package weaktests

import (
	"slices"
	"strings"
	"testing"
)

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

func TestReturnsInRow(t *testing.T) {
	for name, want := range map[string]int{"a plan": 1} {
		t.Run(name, func(t *testing.T) {
			if decide() == nil {
				return
			}
			if len(decide().Actions) != want {
				t.Error("no plan")
			}
		})
	}
}

func TestAssertsInLoopOverVariable(t *testing.T) {
	p, err := decide(), error(nil)
	for _, a := range p.Writes {
		if err != nil || a == "delete" {
			t.Errorf("%s", a)
		}
	}
}

func TestAssertsInLoopOverCall(t *testing.T) {
	for _, s := range slices.Sorted(states("web")) {
		t.Run(s, func(t *testing.T) {
			if s == "lost" {
				t.Error(s)
			}
		})
	}
}

func TestAssertsInLoopInRow(t *testing.T) {
	for _, name := range []string{"web"} {
		t.Run(name, func(t *testing.T) {
			for s := range states(name) {
				t.Error(s)
			}
		})
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

func TestSoundRows(t *testing.T) {
	for _, row := range rows() {
		t.Run(row.name, func(t *testing.T) {
			if len(decide().Actions) != row.want {
				t.Error("no plan")
			}
		})
	}
	for _, want := range strings.Fields("stopped ready") {
		if len(states(want)) == 0 {
			t.Error(want)
		}
	}
}
