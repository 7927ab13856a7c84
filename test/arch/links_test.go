package arch

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"drydock.dev/test/kit"
)

// TestLinksLeadSomewhere checks every relative link of the Markdown pages: the file exists, and it has the heading.
func TestLinksLeadSomewhere(t *testing.T) {
	root := kit.Root(t)
	pages := kit.Files(t, "*.md")
	read := func(name string) (string, bool) {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		return string(text), err == nil
	}
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(root, filepath.FromSlash(name)))
		return err == nil
	}
	for _, page := range pages {
		text, _ := read(page)
		for _, problem := range brokenLinks(page, text, read, exists) {
			t.Error(problem)
		}
	}
	if len(pages) < 20 {
		t.Errorf("only %d pages were found", len(pages))
	}
}

var (
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#{1,6} (.+)$`)
	codeText = regexp.MustCompile("(?s)```.*?```")
)

// brokenLinks returns a sentence for each link of the page that leads nowhere.
func brokenLinks(page, text string, read func(string) (string, bool), exists func(string) bool) []string {
	var broken []string
	for _, match := range link.FindAllStringSubmatch(codeText.ReplaceAllString(text, ""), -1) {
		target := match[1]
		if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
			continue
		}
		file, anchor, _ := strings.Cut(target, "#")
		name := page
		if file != "" {
			name = path.Join(path.Dir(page), file)
		}
		if !exists(name) {
			broken = append(broken, fmt.Sprintf("%s links to %s: there is no file %s", page, target, name))
			continue
		}
		if anchor == "" || !strings.HasSuffix(name, ".md") {
			continue
		}
		if content, _ := read(name); !hasHeading(content, anchor) {
			broken = append(broken, fmt.Sprintf("%s links to %s: %s has no such heading", page, target, name))
		}
	}
	return broken
}

// hasHeading reports whether the page has a heading with the anchor that GitHub gives it.
func hasHeading(text, anchor string) bool {
	for _, match := range heading.FindAllStringSubmatch(codeText.ReplaceAllString(text, ""), -1) {
		if anchorOf(match[1]) == anchor {
			return true
		}
	}
	return false
}

var dropped = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

func anchorOf(title string) string {
	return strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), ""), " ", "-")
}

func TestBrokenLinksAreFound(t *testing.T) {
	files := map[string]string{"docs/a.md": "# Title: a `b`\n## Next step\n", "docs/code.go": "package code\n"}
	read := func(name string) (string, bool) { text, ok := files[name]; return text, ok }
	exists := func(name string) bool { _, ok := files[name]; return ok }
	for text, want := range map[string]int{
		"[x](a.md)":                      0,
		"[x](a.md#next-step)":            0,
		"[x](a.md#title-a-b)":            0,
		"[x](code.go#L1)":                0,
		"[x](../docs/a.md)":              0,
		"[x](https://example.com/a.md)":  0,
		"```\n[x](nowhere.md)\n```":      0,
		"[x](b.md)":                      1,
		"[x](a.md#step)":                 1,
		"[x](#here)":                     1,
		"[x](b.md) [y](a.md#gone)":       2,
		"## Here\n[x](#here) [y](#here)": 0,
	} {
		files["docs/page.md"] = text
		if broken := brokenLinks("docs/page.md", text, read, exists); len(broken) != want {
			t.Errorf("%q: %q, want %d", text, broken, want)
		}
	}
}
