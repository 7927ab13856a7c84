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
	"TestRollbackFitsTheQuotaOfItsResize": "to mend with the quota of rollbacks",
}

// failing are the methods of testing.T that report a failure.
var failing = []string{"Error", "Errorf", "Fatal", "Fatalf", "Fail", "FailNow"}

// weaknesses returns, by test, why it can pass without a check: it skips, it returns before its assertions, all its assertions are in
// loops over a result of the code under test, or it ends by logging a plan. A function literal with a parameter t, such as that of t.Run,
// is judged like a test. Helpers may not skip, either. The given helpers return situations, not results.
func weaknesses(fset *token.FileSet, file *ast.File, helpers map[string]bool) map[string][]string {
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
		results, loops := resultsIn(file, f.Body, helpers), 0
		for _, body := range bodies(f.Body) {
			for _, r := range bareReturns(body) {
				report(r, "returns before its assertions. Call t.Fatal if the test cannot go on. Otherwise use else, or break and assert after it")
			}
			if inLoops, outside := results.assertions(body, false); inLoops > 0 && outside == 0 {
				if loops++; loops == 1 {
					report(body, "asserts only in loops over a result, so an empty result passes. Assert what the result has, or how much")
				}
			}
		}
		if last := f.Body.List; len(last) > 0 && isCallOf(last[len(last)-1], "Log", "Logf") && printsDecision(last[len(last)-1]) {
			report(last[len(last)-1], "ends by logging a plan. Assert what the plan does")
		}
	}
	return found
}

// bodies returns the body of the test, and those of its function literals with a parameter of type *testing.T.
func bodies(test *ast.BlockStmt) []*ast.BlockStmt {
	all := []*ast.BlockStmt{test}
	ast.Inspect(test, func(n ast.Node) bool {
		if f, ok := n.(*ast.FuncLit); ok && len(f.Type.Params.List) > 0 && f.Type.Results == nil {
			if star, ok := f.Type.Params.List[0].Type.(*ast.StarExpr); ok {
				if of, ok := star.X.(*ast.SelectorExpr); ok && of.Sel.Name == "T" {
					all = append(all, f.Body)
				}
			}
		}
		return true
	})
	return all
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

// results tells the results of the code under test in a test.
type results struct {
	variables map[string]bool // that have a result
	helpers   map[string]bool // functions, methods and packages of the tests: what they return is a situation
	libraries map[string]bool // functions and packages: what they return has a result if an argument has one
}

// builtins are the functions of the language that appear in loops.
var builtins = []string{"append", "len", "make", "max", "min", "new", "byte", "int", "int32", "int64", "rune", "string", "uint64"}

// resultsIn returns the results in the body of a test.
func resultsIn(file *ast.File, body *ast.BlockStmt, helpers map[string]bool) results {
	r := results{map[string]bool{}, map[string]bool{"t": true}, map[string]bool{}}
	maps.Copy(r.helpers, helpers)
	for _, name := range builtins {
		r.libraries[name] = true
	}
	for _, i := range file.Imports {
		path := strings.TrimSuffix(strings.Trim(i.Path.Value, `"`), "/v2")
		if strings.HasPrefix(path, module+"/test/") {
			r.helpers[filepath.Base(path)] = true
		} else if !strings.HasPrefix(path, module) {
			r.libraries[filepath.Base(path)] = true
		}
	}
	ast.Inspect(body, func(n ast.Node) bool {
		a, ok := n.(*ast.AssignStmt)
		if !ok || a.Tok != token.DEFINE {
			return true
		}
		for i, left := range a.Lhs {
			if id, ok := left.(*ast.Ident); ok {
				r.variables[id.Name] = r.has(a.Rhs[min(i, len(a.Rhs)-1)])
			}
		}
		return true
	})
	return r
}

// has reports whether the expression is a result of the code under test, or a part of one. A call with t may fail by itself, so it is none.
func (r results) has(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return r.variables[x.Name]
	case *ast.SelectorExpr:
		return x.Sel.Name == "Actions" || r.has(x.X)
	case *ast.IndexExpr:
		return r.has(x.X)
	case *ast.SliceExpr:
		return r.has(x.X)
	case *ast.StarExpr:
		return r.has(x.X)
	case *ast.CallExpr:
		if mayFail(x) {
			return false
		}
		called := x.Fun
		if method, ok := called.(*ast.SelectorExpr); ok {
			if r.helpers[method.Sel.Name] {
				return false
			}
			called = method.X
		}
		id, ok := called.(*ast.Ident)
		switch {
		case ok && r.helpers[id.Name]:
			return false
		case !ok || r.libraries[id.Name]: // such as []byte(x) and slices.Sorted(x)
			return slices.ContainsFunc(x.Args, r.has)
		}
		return true
	}
	return false
}

// assertions counts the calls that may fail the test: those in loops over results, and all others.
func (r results) assertions(n ast.Node, inLoop bool) (inLoops, outside int) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.RangeStmt:
			if r.has(n.X) {
				a, b := r.assertions(n.Body, true)
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

// helpersOf returns the names of the functions and methods in files of tests, by folder.
func helpersOf(files map[string]*ast.File) map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for name, file := range files {
		folder := filepath.Dir(name)
		if all[folder] == nil {
			all[folder] = map[string]bool{}
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				all[folder][f.Name.Name] = true
			}
		}
	}
	return all
}

// TestTestsFailIfTheyTestNothing: no test of the project has a weakness.
func TestTestsFailIfTheyTestNothing(t *testing.T) {
	root, fset := kit.Root(t), token.NewFileSet()
	left, files := maps.Clone(accepted), map[string]*ast.File{}
	for _, name := range kit.Files(t, "*_test.go", "test/*.go", ":(exclude,glob)**/testdata/**") {
		file, err := parser.ParseFile(fset, filepath.Join(root, filepath.FromSlash(name)), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = file
	}
	helpers := helpersOf(files)
	for name, file := range files {
		for test, problems := range weaknesses(fset, file, helpers[filepath.Dir(name)]) {
			if _, ok := accepted[test]; ok {
				delete(left, test)
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

// TestWeakTestsAreFound: the check finds the weakness of each function in testdata, and none in the others.
func TestWeakTestsAreFound(t *testing.T) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "testdata/weaktests.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	got := weaknesses(fset, file, map[string]bool{"rows": true})
	for name, want := range map[string]string{"TestReturns": "returns before its assertions",
		"TestReturnsInRow": "returns before its assertions", "TestAssertsInLoop": "asserts only in loops",
		"TestAssertsInLoopOverVariable": "asserts only in loops",
		"TestAssertsInLoopOverCall":     "asserts only in loops", "TestAssertsInLoopInRow": "asserts only in loops",
		"TestLogsPlan": "ends by logging a plan", "TestSkips": "skips", "helperSkips": "skips"} {
		if len(got[name]) != 1 || !strings.Contains(got[name][0], want) {
			t.Errorf("%s: got %q, want %q", name, got[name], want)
		}
	}
	for _, name := range []string{"TestSound", "TestSoundRows"} {
		if len(got[name]) > 0 {
			t.Errorf("a sound test is refused: %q", got[name])
		}
	}
}
