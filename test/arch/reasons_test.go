package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"drydock.dev/test/kit"
)

// TestDocsNameEveryReasonOfAResize: whatever an Event or the record of a resize gives as its reason, docs/resize.md says what it means.
// The decisions that the functions' tests have recorded show which reasons there are.
func TestDocsNameEveryReasonOfAResize(t *testing.T) {
	root := kit.Root(t)
	docs, err := os.ReadFile(filepath.Join(root, "docs", "resize.md"))
	if err != nil {
		t.Fatal(err)
	}
	given := regexp.MustCompile(`(?m)^(?:- event|record: (?:Reverting|Failed|Refused)) ([A-Z][A-Za-z]+)`)
	reasons := map[string]bool{}
	for _, function := range []string{"backup", "detectresize", "restore"} {
		files, err := filepath.Glob(filepath.Join(root, "functions", function, "testdata", "*.golden"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no recorded decisions, %v", function, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range given.FindAllStringSubmatch(string(text), -1) {
				reasons[m[1]] = true
			}
		}
	}
	for reason := range reasons {
		if !strings.Contains(string(docs), "`"+reason+"`") {
			t.Errorf("docs/resize.md does not name the reason %s", reason)
		}
	}
	if len(reasons) < 20 {
		t.Errorf("only %d reasons were found: the form of the recorded decisions has changed", len(reasons))
	}
}
