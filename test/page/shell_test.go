package page

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestCommands(t *testing.T) {
	words := func(line int, words ...string) Command { return Command{Line: line, Words: words} }
	for name, row := range map[string]struct {
		script string
		want   []Command
	}{
		"a command with a comment": {"kubectl get sts   # all of them", []Command{words(1, "kubectl", "get", "sts")}},
		"a # in a word":            {"echo a#b", []Command{words(1, "echo", "a#b")}},
		"quotes are removed":       {`sh -c 'echo "a" > b' "c $d" e\ f`, []Command{words(1, "sh", "-c", `echo "a" > b`, "c $d", "e f")}},
		"an empty word":            {`echo "" b`, []Command{words(1, "echo", "", "b")}},
		"a continued line":         {"kubectl get \\\n  sts\ntrue", []Command{words(1, "kubectl", "get", "sts"), words(3, "true")}},
		"a list and a pipe": {"a && b | c || d; e &", []Command{words(1, "a"), words(1, "b"), words(1, "c"), words(1, "d"),
			words(1, "e")}},
		"a variable": {"A=1 B='x y' make c", []Command{{Line: 1, Assignments: map[string]string{"A": "1", "B": "x y"},
			Words: []string{"make", "c"}}}},
		"an assignment alone":      {"f=backup", []Command{{Line: 1, Assignments: map[string]string{"f": "backup"}}}},
		"an exported variable":     {"export A=1 B", []Command{{Line: 1, Assignments: map[string]string{"A": "1"}}}},
		"an argument with a =":     {"make a B=1", []Command{words(1, "make", "a", "B=1")}},
		"a substitution in quotes": {`a "x$(b "c")"`, []Command{words(1, "b", "c"), words(1, "a", `x$(b "c")`)}},
		"a loop": {"for i in 0 1; do\n  echo $i\ndone | sort > f", []Command{words(2, "echo", "$i"),
			{Line: 3, Words: []string{"sort"}, Writes: []string{"f"}}}},
		"until":      {"until a | b; do sleep 2; done", []Command{words(1, "a"), words(1, "b"), words(1, "sleep", "2")}},
		"a subshell": {"(a; b) > c", []Command{words(1, "a"), words(1, "b"), {Line: 1, Writes: []string{"c"}}}},
		"a case":     {"case $a in b) c;; esac", []Command{words(1, "c")}},
		"a here-document": {"cat > f <<EOF | b\n$x 'y\nEOF\nc", []Command{
			{Line: 1, Words: []string{"cat"}, Input: "$x 'y\n", Writes: []string{"f"}}, words(1, "b"), words(4, "c")}},
		"errors go to the output": {"a 2>&1 >/dev/null", []Command{{Line: 1, Words: []string{"a"}, Writes: []string{"/dev/null"}}}},
		"a test":                  {`[ "$A" = down ] || exit 0`, []Command{words(1, "[", "$A", "=", "down", "]"), words(1, "exit", "0")}},
	} {
		got, err := Commands(row.script)
		if diff := cmp.Diff(row.want, got, cmpopts.EquateEmpty()); diff != "" || err != nil {
			t.Errorf("%s: error %v; -want +got\n%s", name, err, diff)
		}
	}
}

func TestScriptsThatAreNotBash(t *testing.T) {
	for script, want := range map[string]string{
		"echo 'a":      "script:1:6",
		`echo "a`:      "script:1:6",
		"a\nb $(c":     "script:2:3",
		"cat <<EOF\nx": "here-document",
		"a >":          "script:1:3",
		"done":         "script:1:1",
	} {
		if got, err := Commands(script); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, error %v, want %q", script, got, err, want)
		}
	}
}

func TestScript(t *testing.T) {
	for name, row := range map[string]struct{ language, text, want string }{
		"all of a block of sh":    {"sh", "a\nb", "a\nb"},
		"the input of a terminal": {"", "$ a \\\n  b\nout\n$ c", "a \\\n  b\n\nc"},
		"nothing of other blocks": {"go", "$ a", ""},
	} {
		if got := (Block{Language: row.language, Text: row.text}).Script(); got != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
}

func TestSpans(t *testing.T) {
	const text = "Run `make a`, then\n`kubectl\n  get`.\n" + fence + "sh\n`no`\n" + fence + "\n"
	want := []Span{{1, "make a"}, {2, "kubectl get"}}
	if diff := cmp.Diff(want, Spans(text)); diff != "" {
		t.Error(diff)
	}
}
