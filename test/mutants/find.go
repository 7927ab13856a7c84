package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// mutant is a change of the code: an expression always has the value.
type mutant struct {
	number   int // from 1
	file     string
	line     int
	function string
	text     string // the expression, on one line
	value    bool
	from, to int // byte offsets in the file
}

func (m mutant) String() string {
	return fmt.Sprintf("%s:%d in %s, always %t: %s", m.file, m.line, m.function, m.value, m.text)
}

// mutantsOf returns the mutants of a file, numbered from the given number. The condition of an if or of a case becomes false. An operand of
// && becomes true, and an operand of || false, so that the other operands decide.
func mutantsOf(file string, source []byte, number int) ([]mutant, error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file, source, 0)
	if err != nil {
		return nil, err
	}
	var found []mutant
	for _, declared := range parsed.Decls {
		function, ok := declared.(*ast.FuncDecl)
		if !ok || function.Body == nil {
			continue
		}
		add := func(e ast.Expr, value bool) {
			at := files.Position(e.Pos())
			m := mutant{number: number + len(found), file: file, line: at.Line, function: function.Name.Name, value: value,
				from: at.Offset, to: files.Position(e.End()).Offset}
			m.text = strings.Join(strings.Fields(string(source[m.from:m.to])), " ")
			found = append(found, m)
		}
		ast.Inspect(function.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.IfStmt:
				add(n.Cond, false)
			case *ast.SwitchStmt:
				for _, c := range n.Body.List {
					if n.Tag == nil {
						for _, condition := range c.(*ast.CaseClause).List {
							add(condition, false)
						}
					}
				}
			case *ast.BinaryExpr:
				for _, operand := range []ast.Expr{n.X, n.Y} {
					if inner, ok := operand.(*ast.BinaryExpr); (n.Op == token.LAND || n.Op == token.LOR) && (!ok || inner.Op != n.Op) {
						add(operand, n.Op == token.LAND)
					}
				}
			}
			return true
		})
	}
	return found, nil
}

// withSwitches returns the source with a call around the expression of each mutant.
func withSwitches(source []byte, mutants []mutant) []byte {
	type insertion struct {
		at, order int
		text      string
	}
	var all []insertion
	for _, m := range mutants {
		length := m.to - m.from // at one place, the longest expression opens first
		all = append(all, insertion{m.from, -length, fmt.Sprintf("mutant%t(%d, ", m.value, m.number)}, insertion{m.to, -len(source), ")"})
	}
	slices.SortStableFunc(all, func(a, b insertion) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.order, b.order)) })
	var out bytes.Buffer
	last := 0
	for _, i := range all {
		out.Write(source[last:i.at])
		out.WriteString(i.text)
		last = i.at
	}
	out.Write(source[last:])
	return out.Bytes()
}

// switchSource is a file that is added to the package. DRYDOCK_MUTANT is the number of the mutant. DRYDOCK_MUTANT_LOG is the file that
// receives the numbers of the mutants that would change a value.
const switchSource = `package %s

import (
	"os"
	"strconv"
	"sync/atomic"
)

var (
	mutantNow, _ = strconv.Atoi(os.Getenv("DRYDOCK_MUTANT"))
	mutantLog    = os.Getenv("DRYDOCK_MUTANT_LOG")
	mutantSeen   [%d]atomic.Bool
)

func mutanttrue(number int, is bool) bool { return mutantValue(number, is, true) }

func mutantfalse(number int, is bool) bool { return mutantValue(number, is, false) }

func mutantValue(number int, is, always bool) bool {
	if is != always && mutantLog != "" && !mutantSeen[number].Swap(true) {
		if log, err := os.OpenFile(mutantLog, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
			_, _ = log.WriteString(strconv.Itoa(number) + "\n")
			_ = log.Close()
		}
	}
	if number == mutantNow {
		return always
	}
	return is
}
`
