package reference

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"

	"drydock.dev/shared/api"
)

// Section is a group of constants in a Go file, with the comment of the group as its title.
type Section struct {
	Title     string
	Constants []Constant
}

// Constant is a string constant with its comment, without the name at the comment's beginning.
type Constant struct {
	Name, Value, Doc string
}

// Constants returns the groups of string constants of a Go file. Values may be sums of strings and of constants of the file.
func Constants(path string, source any) ([]Section, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("reading the constants: %w", err)
	}
	known := map[string]string{"api.Prefix": api.Prefix}
	if strings.HasPrefix(path, "shared/api/") {
		known["Prefix"] = api.Prefix
	}
	var sections []Section
	for _, declaration := range file.Decls {
		group, ok := declaration.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		section := Section{Title: sentence(group.Doc.Text())}
		for _, spec := range group.Specs {
			c, ok := constant(spec.(*ast.ValueSpec), known) // a group of constants has nothing else
			if !ok {
				continue
			}
			if !group.Lparen.IsValid() {
				c.Doc, section.Title = text(c.Name, group.Doc, nil), ""
			}
			known[c.Name] = c.Value
			section.Constants = append(section.Constants, c)
		}
		if len(section.Constants) > 0 {
			sections = append(sections, section)
		}
	}
	return sections, nil
}

// constant returns the constant of a specification of one name and one string value.
func constant(spec *ast.ValueSpec, known map[string]string) (Constant, bool) {
	if len(spec.Names) != 1 || len(spec.Values) != 1 {
		return Constant{}, false
	}
	value, ok := evaluate(spec.Values[0], known)
	name := spec.Names[0].Name
	return Constant{Name: name, Value: value, Doc: text(name, spec.Doc, spec.Comment)}, ok
}

// evaluate returns the value of a string literal, of a known constant, or of a sum of these.
func evaluate(e ast.Expr, known map[string]string) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		value, err := strconv.Unquote(e.Value)
		return value, err == nil && e.Kind == token.STRING
	case *ast.Ident:
		value, ok := known[e.Name]
		return value, ok
	case *ast.SelectorExpr:
		of, ok := e.X.(*ast.Ident)
		if !ok {
			return "", false
		}
		value, ok := known[of.Name+"."+e.Sel.Name]
		return value, ok
	case *ast.BinaryExpr:
		left, first := evaluate(e.X, known)
		right, second := evaluate(e.Y, known)
		return left + right, e.Op == token.ADD && first && second
	}
	return "", false
}

// text returns the comment before or behind a constant as a sentence, without the constant's name at its beginning.
func text(name string, before, behind *ast.CommentGroup) string {
	words := before.Text()
	if strings.TrimSpace(words) == "" {
		words = behind.Text()
	}
	words = strings.TrimSpace(words)
	for suffix, kind := range map[string]string{"Annotation": "annotation", "Label": "label", "Finalizer": "finalizer"} {
		if rest, found := strings.CutPrefix(words, name+" on "); found && strings.HasSuffix(name, suffix) {
			return sentence("this " + kind + " on " + rest)
		}
	}
	return sentence(strings.TrimLeft(strings.TrimPrefix(words, name), ": "))
}

// sentence returns the text on one line, with a capital at its beginning and a full stop at its end.
func sentence(words string) string {
	words = strings.Join(strings.Fields(words), " ")
	if words == "" {
		return ""
	}
	if !strings.HasSuffix(words, ".") {
		words += "."
	}
	return strings.ToUpper(words[:1]) + words[1:]
}
