//go:build cluster

package sim

import (
	"slices"
	"strings"

	"drydock.dev/test/kit"
)

// monitor checks after each write of Drydock that all invariants hold.
type monitor struct {
	w          *kit.World
	saboteur   *kit.Saboteur
	invariants invariants
	// loses: the user asks for a loss of data, so it is no failure.
	loses    bool
	reported bool
}

// invariants returns the first violation in the world, or an empty string. The set may be nil.
type invariants func(w *kit.World, set setType) string

// monitorOf returns a monitor that the saboteur calls after every write.
func monitorOf(w *kit.World, saboteur *kit.Saboteur, t invariants) *monitor {
	monitor := &monitor{w: w, saboteur: saboteur, invariants: t}
	saboteur.OnWrite = monitor.look
	return monitor
}

func (w *monitor) look(write string) {
	if !w.loses {
		for _, lost := range w.w.Node.LostData() {
			w.report("I1: after %s: %s", write, lost)
		}
	}
	for _, violation := range w.w.Node.Violations() {
		w.report("after %s: %s", write, violation)
	}
	if strings.HasPrefix(write, "POST ") && strings.HasSuffix(write, "/events") {
		return
	}
	if wrong := w.invariants(w.w, w.w.Set("web")); wrong != "" {
		w.report("after %s: %s", write, wrong)
	}
}

// report fails the test with the first violation only, because the later ones follow from it.
func (w *monitor) report(format string, args ...any) {
	w.w.T.Helper()
	if !w.reported {
		w.w.T.Errorf(format, args...)
	}
	w.reported = true
}

// budget returns a violation if a member was stopped although the budget allowed no further disruption.
func (w *monitor) budget(write string, before []string) {
	for _, name := range w.w.UnavailablePods("web", 2) {
		if !slices.Contains(before, name) {
			w.report("after %s: pod %s is away, and its budget does not allow it", write, name)
		}
	}
}

// judge reports the writes without effect.
func (w *monitor) judge() {
	w.w.T.Helper()
	for _, idle := range w.saboteur.Idle() {
		w.w.T.Errorf("I7: %s changed nothing", idle)
	}
}
