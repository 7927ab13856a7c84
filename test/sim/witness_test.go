//go:build cluster

package sim

import (
	"slices"
	"strings"

	"drydock.dev/test/kit"
)

// witness checks after each write of Drydock that all invariants hold.
type witness struct {
	w        *kit.World
	saboteur *kit.Saboteur
	truths   truths
	// loses: the user asks for a loss of data, so it is no failure.
	loses bool
	told  bool
}

// truths returns the first violation in the world, or an empty string. The set may be nil.
type truths func(w *kit.World, set setType) string

// witnessOf returns a witness that the saboteur calls after every write.
func witnessOf(w *kit.World, saboteur *kit.Saboteur, t truths) *witness {
	witness := &witness{w: w, saboteur: saboteur, truths: t}
	saboteur.OnWrite = witness.look
	return witness
}

func (w *witness) look(write string) {
	if !w.loses {
		for _, lost := range w.w.Node.LostData() {
			w.tell("I1: after %s: %s", write, lost)
		}
	}
	for _, violation := range w.w.Node.Violations() {
		w.tell("after %s: %s", write, violation)
	}
	if strings.HasPrefix(write, "POST ") && strings.HasSuffix(write, "/events") {
		return
	}
	if wrong := w.truths(w.w, w.w.Set("web")); wrong != "" {
		w.tell("after %s: %s", write, wrong)
	}
}

// tell fails the test with the first violation only, because the later ones follow from it.
func (w *witness) tell(format string, args ...any) {
	w.w.T.Helper()
	if !w.told {
		w.w.T.Errorf(format, args...)
	}
	w.told = true
}

// budget returns a violation if a member was stopped although the budget allowed no further disruption.
func (w *witness) budget(write string, before []string) {
	for _, name := range w.w.UnavailablePods("web", 2) {
		if !slices.Contains(before, name) {
			w.tell("after %s: pod %s is away, and its budget does not allow it", write, name)
		}
	}
}

// judge reports the writes without effect.
func (w *witness) judge() {
	w.w.T.Helper()
	for _, idle := range w.saboteur.Idle() {
		w.w.T.Errorf("I7: %s changed nothing", idle)
	}
}
