package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"drydock.dev/test/kit"
)

// TestIndexListsEveryDecision: docs/decisions/README.md links to each page of its folder once in its lists.
func TestIndexListsEveryDecision(t *testing.T) {
	entries, err := os.ReadDir(filepath.Join(kit.Root(t), "docs", "decisions"))
	if err != nil {
		t.Fatal(err)
	}
	var pages []string
	for _, entry := range entries {
		if name := entry.Name(); filepath.Ext(name) == ".md" && name != "README.md" {
			pages = append(pages, name)
		}
	}
	for _, page := range unlisted(string(readFile(t, "docs", "decisions", "README.md")), pages) {
		t.Errorf("docs/decisions/README.md does not list %s once. Add a line with its title and its main point", page)
	}
	if len(pages) < 20 {
		t.Errorf("only %d decisions were found", len(pages))
	}
}

// unlisted returns the pages that are not the link of exactly one item of the index. An item may break inside its title.
func unlisted(index string, pages []string) []string {
	items := map[string]int{}
	for _, item := range strings.Split("\n"+index, "\n- [")[1:] {
		if _, link, ok := strings.Cut(item, "]("); ok {
			target, _, _ := strings.Cut(link, ")")
			items[target]++
		}
	}
	var missing []string
	for _, page := range pages {
		if items[page] != 1 {
			missing = append(missing, page)
		}
	}
	return missing
}

func TestUnlistedDecisionsAreFound(t *testing.T) {
	for index, want := range map[string]int{
		"Read [it](a.md) first.\n\n- [A](a.md). Text.\n- [B is\n  long](b.md). Text\n": 0,
		"Read [it](a.md) first.\n\n- [B](b.md). Text.\n":                               1,
		"- [A](a.md). Text, like [B](b.md).\n":                                         1,
		"- [A](a.md).\n- [A](a.md).\n- [B](b.md).\n":                                   1,
		"": 2,
	} {
		if missing := unlisted(index, []string{"a.md", "b.md"}); len(missing) != want {
			t.Errorf("%q: %v, want %d", index, missing, want)
		}
	}
}

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
