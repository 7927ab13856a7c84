package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"slices"
	"strings"
)

// guard is the condition of an if, or of a case in a switch without a tag.
type guard struct {
	number   int // from 1
	path     string
	function string
	text     string // the condition, on one line
	line     int
	from, to int // byte offsets in the file
	repeated int // number of earlier guards in the function with the same text
}

// name identifies the guard independently of its line number.
func (g guard) name() string {
	name := g.path + " " + g.function + ": " + g.text
	if g.repeated > 0 {
		name += fmt.Sprintf(" (%d)", g.repeated+1)
	}
	return name
}

// guardsOf returns the guards of a file, numbered from the given number.
func guardsOf(path string, source []byte, number int) ([]guard, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, source, 0)
	if err != nil {
		return nil, err
	}
	var found []guard
	for _, declared := range file.Decls {
		function, ok := declared.(*ast.FuncDecl)
		if !ok {
			continue
		}
		for _, condition := range conditions(function) {
			at := files.Position(condition.Pos())
			g := guard{number: number + len(found), path: path, function: function.Name.Name, line: at.Line, from: at.Offset,
				to: files.Position(condition.End()).Offset}
			g.text = strings.Join(strings.Fields(string(source[g.from:g.to])), " ")
			for _, other := range found {
				if other.function == g.function && other.text == g.text {
					g.repeated++
				}
			}
			found = append(found, g)
		}
	}
	return found, nil
}

func conditions(function *ast.FuncDecl) []ast.Expr {
	var found []ast.Expr
	ast.Inspect(function, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			found = append(found, n.Cond)
		case *ast.SwitchStmt:
			for _, c := range n.Body.List {
				if clause, ok := c.(*ast.CaseClause); ok && n.Tag == nil && len(clause.List) == 1 {
					found = append(found, clause.List[0])
				}
			}
		}
		return true
	})
	return found
}

// withSwitches returns the source with a call of mutantGuard around each guard.
func withSwitches(source []byte, guards []guard) []byte {
	inside := map[int]string{}
	for _, g := range guards {
		inside[g.from] += fmt.Sprintf("mutantGuard(%d, ", g.number)
		inside[g.to] += ")"
	}
	var out bytes.Buffer
	last := 0
	for _, at := range slices.Sorted(maps.Keys(inside)) {
		out.Write(source[last:at])
		out.WriteString(inside[at])
		last = at
	}
	out.Write(source[last:])
	return out.Bytes()
}

// switchSource is a file that is added to each package with guards. DRYDOCK_MUTANT is the number of the disabled guard, which is never
// true. DRYDOCK_MUTANT_LOG is the file that receives the numbers of guards that become true.
const switchSource = `package %s

import (
	"os"
	"strconv"
	"sync/atomic"
)

var (
	mutantAway, _ = strconv.Atoi(os.Getenv("DRYDOCK_MUTANT"))
	mutantLog     = os.Getenv("DRYDOCK_MUTANT_LOG")
	mutantSeen    [%d]atomic.Bool
)

func mutantGuard(number int, is bool) bool {
	if is && mutantLog != "" && !mutantSeen[number].Swap(true) {
		if log, err := os.OpenFile(mutantLog, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
			_, _ = log.WriteString(strconv.Itoa(number) + "\n")
			_ = log.Close()
		}
	}
	return is && number != mutantAway
}
`

func readGuards(paths []string) ([]guard, error) {
	var all []guard
	for _, path := range paths {
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		guards, err := guardsOf(path, source, len(all)+1)
		if err != nil {
			return nil, err
		}
		all = append(all, guards...)
	}
	return all, nil
}
