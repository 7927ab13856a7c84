package arch

import (
	"path"
	"strings"
	"testing"
)

// TestHiddenFoldersAreNotEmbedded: deploy/apply writes its overlays to hidden folders beside the manifests. The pattern * matches these
// too, and then a compilation at that moment fails, or has a file that belongs to no release.
func TestHiddenFoldersAreNotEmbedded(t *testing.T) {
	checked := 0
	for _, p := range packages(t) {
		for _, pattern := range p.EmbedPatterns {
			checked++
			first, _, _ := strings.Cut(pattern, "/")
			if hidden, err := path.Match(first, ".hidden"); err != nil || hidden {
				t.Errorf("%s embeds %s, which includes hidden folders (%v). Begin the pattern with [a-z]", p.ImportPath, pattern, err)
			}
		}
	}
	if checked == 0 {
		t.Error("go list found no pattern")
	}
}
