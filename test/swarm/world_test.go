package swarm

import (
	"slices"
	"strings"
	"testing"
)

// TestStoriesReachTheFunctions: the played Jobs, storage, operators and users let the functions finish what a story asks for.
func TestStoriesReachTheFunctions(t *testing.T) {
	all := stories(t)
	for name, row := range map[string]struct{ states, tale []string }{
		"resize-by-copy": {states: []string{"backup Resize Moving Preparing", "restore Resize Succeeded ResizeCompleted",
			"restore Rollback Moving Quiescing", "restore Rollback Succeeded ResizeCompleted"}},
		"two-operators": {states: []string{"idle-timeout Sleep Asleep FellAsleep", "idle-timeout Sleep Succeeded Awake"},
			tale: []string{"the operator sets web from 3 to 0", "the operator sets db from 3 to 2", "the operator sets db from 0 to 1"}},
		"autoscalers": {states: []string{"scale-hooks Scale Succeeded ScalingCompleted"},
			tale: []string{"an autoscaler scales scalers/pilot-web from 3 to 2", "an autoscaler scales statefulsets/web from 2 to 1"}},
		"budget-delays-resize": {states: []string{"restore Resize Moving GateClosed", "restore Resize Succeeded ResizeCompleted"}},
		"count-applied-during-sleep": {states: []string{"idle-timeout Sleep Waking StartedByOthers",
			"idle-timeout Sleep Succeeded StartedByOthers"}},
	} {
		r := play(t, loadPolicies(t), all[name])
		for _, state := range row.states {
			if r.covered[state] == 0 {
				t.Errorf("%s does not reach %q:\n%s", name, state, strings.Join(r.tale, "\n"))
			}
		}
		for _, words := range row.tale {
			if !slices.ContainsFunc(r.tale, func(line string) bool { return strings.HasSuffix(line, words) }) {
				t.Errorf("%s has no line %q:\n%s", name, words, strings.Join(r.tale, "\n"))
			}
		}
	}
}
