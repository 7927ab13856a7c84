package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"drydock.dev/test/kit"
)

// accepted lists tests that the check does not judge yet. A test that no longer needs its entry fails the check.
var accepted = map[string]string{
	"TestSizeWithdrawnByAbortIsNoSuccess":      "to mend with the withdrawal of sizes",
	"TestGrownVolumeDoesNotCountAsWithdrawn":   "to mend with the withdrawal of sizes",
	"TestAbortKeepsPendingGrowth":              "to mend with the withdrawal of sizes",
	"TestRetryWithSmallerRequestRestartsNoPod": "to mend with the withdrawal of sizes",
	"TestGrowthAfterWithdrawalWithOldResizer":  "to mend with the withdrawal of sizes",
	"TestWithdrawalThatWaitsSaysWhy":           "to mend with the withdrawal of sizes",
}

// failing are the methods of testing.T that report a failure.
var failing = []string{"Error", "Errorf", "Fatal", "Fatalf", "Fail", "FailNow"}

// weaknesses returns, by test, why it can pass without a check: it skips, it returns before its assertions, all its assertions are in
// loops over the actions of a plan, or it ends by logging a plan. Helpers may not skip, either.
func weaknesses(fset *token.FileSet, file *ast.File) map[string][]string {
	found := map[string][]string{}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		report := func(n ast.Node, words string) {
			found[f.Name.Name] = append(found[f.Name.Name], fmt.Sprintf("%s: %s %s", fset.Position(n.Pos()), f.Name.Name, words))
		}
		for _, s := range skips(f.Body) {
			report(s, "skips. Fail, and say what is missing. A build tag excludes tests that need more than Go")
		}
		if f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") || f.Name.Name == "TestMain" {
			continue
		}
		for _, r := range bareReturns(f.Body) {
			report(r, "returns before its assertions. Call t.Fatal if the test cannot go on, or leave a loop with break and assert after it")
		}
		if inLoops, outside := assertions(f.Body, false); inLoops > 0 && outside == 0 {
			report(f, "asserts only in loops over the actions of a plan, so an empty plan passes. Assert what the plan does")
		}
		if last := f.Body.List; len(last) > 0 && isCallOf(last[len(last)-1], "Log", "Logf") && printsDecision(last[len(last)-1]) {
			report(last[len(last)-1], "ends by logging a plan. Assert what the plan does")
		}
	}
	return found
}

// skips returns the calls that skip a test.
func skips(body *ast.BlockStmt) []ast.Node {
	var found []ast.Node
	ast.Inspect(body, func(n ast.Node) bool {
		if s, ok := n.(ast.Stmt); ok && (isCallOf(s, "Skip", "Skipf", "SkipNow")) {
			found = append(found, s)
		}
		return true
	})
	return found
}

// bareReturns returns the return statements of the test that can end it before its assertions. Two kinds are allowed: a return directly
// after a reported failure, and a return in a loop of a test whose last statement reports a failure.
func bareReturns(body *ast.BlockStmt) []ast.Node {
	var found []ast.Node
	endsInFailure := len(body.List) > 0 && isCallOf(body.List[len(body.List)-1], failing...)
	var walk func(n ast.Node, inLoop bool)
	walk = func(n ast.Node, inLoop bool) {
		ast.Inspect(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncLit:
				return false
			case *ast.ForStmt:
				if !inLoop {
					walk(n.Body, true)
					return false
				}
			case *ast.RangeStmt:
				if !inLoop {
					walk(n.Body, true)
					return false
				}
			case *ast.BlockStmt:
				for i, s := range n.List {
					reported := i > 0 && isCallOf(n.List[i-1], failing...)
					if _, ok := s.(*ast.ReturnStmt); ok && !reported && !(inLoop && endsInFailure) {
						found = append(found, s)
					}
				}
			}
			return true
		})
	}
	walk(body, false)
	return found
}

// assertions counts the calls that may fail the test: those in loops over actions, and all others.
func assertions(n ast.Node, inLoop bool) (inLoops, outside int) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.RangeStmt:
			if over, ok := n.X.(*ast.SelectorExpr); ok && over.Sel.Name == "Actions" {
				a, b := assertions(n.Body, true)
				inLoops, outside = inLoops+a, outside+b
				return false
			}
		case *ast.CallExpr:
			if !mayFail(n) {
				return true
			}
			if inLoop {
				inLoops++
			} else {
				outside++
			}
		}
		return true
	})
	return inLoops, outside
}

// mayFail reports whether the call reports a failure, or passes t to a helper.
func mayFail(call *ast.CallExpr) bool {
	if s, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains(failing, s.Sel.Name) {
		return true
	}
	return slices.ContainsFunc(call.Args, func(a ast.Expr) bool {
		id, ok := a.(*ast.Ident)
		return ok && id.Name == "t"
	})
}

// printsDecision reports whether the statement prints a plan, or the record that it stores.
func printsDecision(s ast.Stmt) bool {
	found := false
	ast.Inspect(s, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && slices.Contains([]string{"p", "plan", "Decide", "decide", "Stored", "StoredSleep"}, id.Name) {
			found = true
		}
		return !found
	})
	return found
}

// isCallOf reports whether the statement calls one of the methods on t, b or tb.
func isCallOf(s ast.Stmt, names ...string) bool {
	e, ok := s.(*ast.ExprStmt)
	if !ok {
		return false
	}
	call, ok := e.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	on, ok := method.X.(*ast.Ident)
	return ok && slices.Contains([]string{"t", "b", "tb"}, on.Name) && slices.Contains(names, method.Sel.Name)
}

// TestTestsFailIfTheyTestNothing: no test of the project has a weakness.
func TestTestsFailIfTheyTestNothing(t *testing.T) {
	root, fset := kit.Root(t), token.NewFileSet()
	left := maps.Clone(accepted)
	files := kit.Files(t, "*_test.go", "test/*.go", ":(exclude,glob)**/testdata/**")
	for _, name := range files {
		file, err := parser.ParseFile(fset, filepath.Join(root, filepath.FromSlash(name)), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for name, problems := range weaknesses(fset, file) {
			if _, ok := accepted[name]; ok {
				delete(left, name)
				continue
			}
			for _, p := range problems {
				t.Error(strings.TrimPrefix(p, root+"/"))
			}
		}
	}
	if len(files) < 400 {
		t.Errorf("only %d files were found", len(files))
	}
	if len(left) > 0 {
		t.Errorf("these tests need no entry in accepted any more. Remove them: %v", left)
	}
}

// TestWeakTestsAreFound: the check finds the weakness of each function in testdata, and none in TestSound.
func TestWeakTestsAreFound(t *testing.T) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "testdata/weaktests.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	got := weaknesses(fset, file)
	for name, want := range map[string]string{"TestReturns": "returns before its assertions", "TestAssertsInLoop": "asserts only in loops",
		"TestLogsPlan": "ends by logging a plan", "TestSkips": "skips", "helperSkips": "skips"} {
		if len(got[name]) != 1 || !strings.Contains(got[name][0], want) {
			t.Errorf("%s: got %q, want %q", name, got[name], want)
		}
	}
	if len(got["TestSound"]) > 0 {
		t.Errorf("a sound test is refused: %q", got["TestSound"])
	}
}
