package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"drydock.dev/test/kit"
)

// question is a line of the questions in docs/architecture.md, and answer is a row of their answers: number, file, name.
var (
	question = regexp.MustCompile(`(?m)^(\d+)\. (.+\?)$`)
	answer   = regexp.MustCompile("(?m)^\\| (\\d+) \\| `([^`]+)` \\| `([^`]+)` \\|$")
)

// TestArchitectureAnswersItsQuestions checks that every answer in docs/architecture.md names a file and a name that the file declares.
func TestArchitectureAnswersItsQuestions(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(kit.Root(t), "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	questions, answers := question.FindAllStringSubmatch(string(page), -1), answer.FindAllStringSubmatch(string(page), -1)
	if len(questions) != 10 || len(answers) != 10 {
		t.Fatalf("docs/architecture.md has %d questions and %d answers, want 10", len(questions), len(answers))
	}
	for i, a := range answers {
		if questions[i][1] != a[1] {
			t.Errorf("answer %s stands at question %s", a[1], questions[i][1])
		}
		question, file, name := questions[i][2], a[2], a[3]
		text, err := os.ReadFile(filepath.Join(kit.Root(t), filepath.FromSlash(file)))
		if err != nil {
			t.Errorf("%s %v", question, err)
			continue
		}
		if !declares(t, file, string(text), name) {
			t.Errorf("%s %s does not declare %s", question, file, name)
		}
	}
}

// declares reports whether a Go file has a declaration of the name at its top level, or a method of it; whether another file contains the
// name as a word.
func declares(t *testing.T, file, text, name string) bool {
	t.Helper()
	if !strings.HasSuffix(file, ".go") {
		return regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b`).MatchString(text)
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, declaration := range parsed.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			if d.Name.Name == name {
				return true
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if s, ok := spec.(*ast.TypeSpec); ok && s.Name.Name == name {
					return true
				}
			}
		}
	}
	return false
}

func TestAnswersAreChecked(t *testing.T) {
	const text = "package x\nfunc Decide() {}\ntype Input struct{}\nfunc (Input) open() {}\nvar Value = 1\n"
	for name, want := range map[string]bool{"Decide": true, "Input": true, "open": true, "Value": false, "Dec": false} {
		if declares(t, "x.go", text, name) != want {
			t.Errorf("declares(%s) is %t", name, !want)
		}
	}
	if !declares(t, "x.yaml", "rows:\n- name: rabbitmq\n", "rabbitmq") || declares(t, "x.yaml", "- name: rabbitmq2", "rabbitmq") {
		t.Error("a name in a YAML file is not found as a word")
	}
}
