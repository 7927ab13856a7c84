package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"drydock.dev/test/kit"
)

// accepted are the tests that have a reason to end early. An entry that is not needed any more must be deleted.
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

// pretences returns what lets the tests of a file pass without a check: a return without a result, an assertion that stands only in loops
// over the actions of a plan, and a message as the last statement.
func pretences(fset *token.FileSet, file *ast.File) map[string][]string {
	found := map[string][]string{}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") || f.Name.Name == "TestMain" {
			continue
		}
		report := func(n ast.Node, words string) {
			found[f.Name.Name] = append(found[f.Name.Name], fmt.Sprintf("%s: %s %s", fset.Position(n.Pos()), f.Name.Name, words))
		}
		for _, r := range bareReturns(f.Body) {
			report(r, "returns without a failure. Say with t.Fatal that its scene is not reached, or end the loop with break and assert after it")
		}
		if inLoops, outside := assertions(f.Body, false); inLoops > 0 && outside == 0 {
			report(f, "asserts only in loops over the actions of a plan, so it passes with an empty plan. Assert what the plan does")
		}
		if last := f.Body.List; len(last) > 0 && isCallOf(last[len(last)-1], "Log", "Logf") && printsDecision(last[len(last)-1]) {
			report(last[len(last)-1], "ends with a message. Assert what the message says")
		}
	}
	return found
}

// bareReturns returns the returns of the test itself that may hide a scene that was not reached. A return behind a reported failure is
// fine, and so is one in a loop if the test fails when the loop ends without it.
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

// assertions counts the assertions in loops over actions, and all other calls that may fail the test: helpers get its testing.T.
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

// mayFail reports whether the call reports a failure, or is a helper that gets the testing.T.
func mayFail(call *ast.CallExpr) bool {
	if s, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains(failing, s.Sel.Name) {
		return true
	}
	return slices.ContainsFunc(call.Args, func(a ast.Expr) bool {
		id, ok := a.(*ast.Ident)
		return ok && id.Name == "t"
	})
}

// printsDecision reports whether the statement prints what Decide returned, or the record that a plan stores.
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

// isCallOf reports whether the statement calls a method with one of the names on t.
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
	return ok && on.Name == "t" && slices.Contains(names, method.Sel.Name)
}

// TestTestsFailIfTheyTestNothing refuses tests that can pass without a check.
func TestTestsFailIfTheyTestNothing(t *testing.T) {
	root, files, fset := kit.Root(t), 0, token.NewFileSet()
	left := maps.Clone(accepted)
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files++
		for name, problems := range pretences(fset, file) {
			if _, ok := accepted[name]; ok {
				delete(left, name)
				continue
			}
			for _, p := range problems {
				t.Error(strings.TrimPrefix(p, root+"/"))
			}
		}
		return nil
	})
	if err != nil || files < 100 {
		t.Fatalf("%d files were read: %v", files, err)
	}
	if len(left) > 0 {
		t.Errorf("these tests are honest now. Remove them from accepted: %v", left)
	}
}

// TestPretencesAreRefused: the check finds each kind in a file that has them, and nothing in the tests that avoid them.
func TestPretencesAreRefused(t *testing.T) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "testdata/pretences.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	got := pretences(fset, file)
	for name, want := range map[string]string{"TestReturns": "returns without a failure", "TestOnlyInLoop": "asserts only in loops",
		"TestEndsWithMessage": "ends with a message"} {
		if len(got[name]) != 1 || !strings.Contains(got[name][0], want) {
			t.Errorf("%s: got %q, want %q", name, got[name], want)
		}
	}
	if len(got["TestHonest"]) > 0 {
		t.Errorf("an honest test is refused: %q", got["TestHonest"])
	}
}
