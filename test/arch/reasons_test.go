package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"drydock.dev/test/kit"
)

// TestDocsNameEveryReasonOfAResize: the pages about a resize explain each reason of an Event or of a failed resize. The reasons come from
// the golden files of the functions' tests.
func TestDocsNameEveryReasonOfAResize(t *testing.T) {
	root := kit.Root(t)
	var docs strings.Builder
	for _, page := range []string{"resize.md", "resize-details.md", "troubleshooting.md"} {
		docs.Write(readFile(t, "docs", page))
	}
	event := regexp.MustCompile(`(?m)^- event ([A-Z]\w+)`)
	record := regexp.MustCompile(`(?m)^  status\.reason: (?:\w+ -> )?([A-Z]\w+)$`)
	fails := regexp.MustCompile(`(?m)^(?:has: \w+ |  status\.phase: (?:\w+ -> )?)(?:Reverting|Failed|Refused)\b`)
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
			for entry := range strings.SplitSeq(string(text), "\n## ") {
				given := event.FindAllStringSubmatch(entry, -1)
				if fails.MatchString(entry) {
					given = append(given, record.FindAllStringSubmatch(entry, -1)...)
				}
				for _, m := range given {
					reasons[m[1]] = true
				}
			}
		}
	}
	for reason := range reasons {
		if !strings.Contains(docs.String(), "`"+reason+"`") {
			t.Errorf("no page about a resize names the reason %s. Explain its remedy in docs/troubleshooting.md", reason)
		}
	}
	if len(reasons) < 20 {
		t.Errorf("only %d reasons were found. The format of the golden files has changed: adapt this test", len(reasons))
	}
}
