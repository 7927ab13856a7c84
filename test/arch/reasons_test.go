package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"drydock.dev/test/kit"
)

// TestDocsNameEveryReasonOfAResize: docs/resize.md explains each reason of an Event or a record of a resize. The reasons come from the
// golden files of the functions' tests.
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
			t.Fatalf("%s: no golden files, %v", function, err)
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
		t.Errorf("only %d reasons were found. The format of the golden files has changed: adapt this test", len(reasons))
	}
}
