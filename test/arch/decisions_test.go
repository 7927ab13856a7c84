package arch

import (
	"os"
	"path/filepath"
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
