package swarm

import (
	"strings"
	"testing"
)

// TestStoriesReachTheFunctions: the played Jobs, storage, operators and users let the functions finish what a story asks for.
func TestStoriesReachTheFunctions(t *testing.T) {
	all := stories(t)
	for name, states := range map[string][]string{
		"resize-by-copy": {"backup Resize Moving Preparing", "restore Resize Succeeded ResizeCompleted", "restore Rollback Moving Quiescing",
			"restore Rollback Succeeded ResizeCompleted"},
	} {
		r := play(t, loadPolicies(t), all[name])
		for _, state := range states {
			if r.covered[state] == 0 {
				t.Errorf("%s does not reach %q:\n%s", name, state, strings.Join(r.tale, "\n"))
			}
		}
	}
}
