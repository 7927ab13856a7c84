package page

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Command is a simple command of a script.
type Command struct {
	Line        int               // of the script, from 1
	Assignments map[string]string // before the command
	Words       []string          // without quotes; an expansion such as $(…) stays as it is written
	Input       string            // the here-document
	Reads       []string          // files behind <
	Writes      []string          // files behind > and >>
}

// Commands returns the simple commands of a script of bash in the order of their ends: those of $(…) come before the command around it.
func Commands(script string) ([]Command, error) {
	file, err := syntax.NewParser().Parse(strings.NewReader(script), "script")
	if err != nil {
		return nil, err // it has the line and the column
	}
	var commands []Command
	var open []syntax.Node
	syntax.Walk(file, func(node syntax.Node) bool {
		if node != nil {
			open = append(open, node)
			return true
		}
		if statement, ok := open[len(open)-1].(*syntax.Stmt); ok {
			commands = append(commands, commandOf(script, statement)...)
		}
		open = open[:len(open)-1]
		return true
	})
	return commands, nil
}

// commandOf returns the statement's own command, or nothing if it only contains others.
func commandOf(script string, statement *syntax.Stmt) []Command {
	c := Command{Line: int(statement.Pos().Line())}
	var assigns []*syntax.Assign
	switch command := statement.Cmd.(type) {
	case *syntax.CallExpr:
		assigns = command.Assigns
		for _, word := range command.Args {
			c.Words = append(c.Words, textOf(script, word))
		}
	case *syntax.DeclClause: // export
		assigns = command.Args
	}
	for _, a := range assigns {
		if a.Naked || a.Name == nil { // only a name or a flag
			continue
		}
		if c.Assignments == nil {
			c.Assignments = map[string]string{}
		}
		c.Assignments[a.Name.Value] = textOf(script, a.Value)
	}
	for _, r := range statement.Redirs {
		switch r.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			c.Input = inputOf(script, r.Hdoc)
		case syntax.RdrIn:
			c.Reads = append(c.Reads, textOf(script, r.Word))
		case syntax.RdrOut, syntax.AppOut:
			c.Writes = append(c.Writes, textOf(script, r.Word))
		}
	}
	if c.Words == nil && c.Assignments == nil && c.Reads == nil && c.Writes == nil && c.Input == "" {
		return nil
	}
	return []Command{c}
}

// inputOf returns the text of a here-document as it is written.
func inputOf(script string, document *syntax.Word) string {
	var b strings.Builder
	for _, part := range document.Parts {
		if lit, ok := part.(*syntax.Lit); ok {
			b.WriteString(lit.Value) // its end is behind the closing word
		} else {
			b.WriteString(source(script, part))
		}
	}
	return b.String()
}

// textOf returns the word without its quotes.
func textOf(script string, word *syntax.Word) string {
	if word == nil {
		return ""
	}
	var b strings.Builder
	for _, part := range word.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			b.WriteString(unescape(p.Value, ""))
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			for _, inner := range p.Parts {
				if lit, ok := inner.(*syntax.Lit); ok {
					b.WriteString(unescape(lit.Value, "$`\"\\\n"))
				} else {
					b.WriteString(source(script, inner))
				}
			}
		default:
			b.WriteString(source(script, part))
		}
	}
	return b.String()
}

// unescape removes backslashes before the special characters, or before any character if there are none. A line that ends with a
// backslash continues.
func unescape(text, special string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) && (special == "" || strings.IndexByte(special, text[i+1]) >= 0) {
			if i++; text[i] == '\n' {
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// source returns the node as it is written.
func source(script string, node syntax.Node) string {
	return script[node.Pos().Offset():node.End().Offset()]
}
