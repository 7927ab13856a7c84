package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"drydock.dev/test/kit"
)

// effectful are the files of a function that may have effects. All other files only decide.
var effectful = []string{"function.go", "observe.go", "sweep.go", "prober.go", "prometheus.go", "kubelet.go"}

// clocks are the functions of package time that a decision must not use. Its time is part of the observed input.
var clocks = []string{"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "NewTimer", "NewTicker", "Tick"}

// effectfulGateway are the files of the wake gateway that have effects, because it serves waiting requests.
var effectfulGateway = []string{"wait.go", "stream.go"}

// impurities returns the imports and calls of a Go file that have effects or read the clock. If source is nil, it reads the file.
func impurities(path string, source any) ([]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, source, 0)
	if err != nil {
		return nil, err
	}
	var found []string
	clock := "time"
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		if imported == "time" && spec.Name != nil {
			clock = spec.Name.Name
		}
		if !isPure(imported) && !(imported == "net/http" && spec.Name == nil && usesOnlyStatuses(file)) {
			found = append(found, fmt.Sprintf("%s imports %s", path, imported))
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && fmt.Sprint(s.X) == clock && slices.Contains(clocks, s.Sel.Name) {
			found = append(found, fmt.Sprintf("%s uses time.%s", path, s.Sel.Name))
		}
		return true
	})
	return found, nil
}

// readers are the files whose decisions still read a reason of Drydock, with the number of places. A reason is for people: another word for
// it must not change a decision. A field of the record says what a decision needs, such as the step of a sleep. The numbers only shrink.
var readers = map[string]int{
	"functions/backup/copying.go":      1, // of the kubelet
	"functions/backup/target.go":       1, // of the mover
	"functions/detectresize/expand.go": 1,
	"functions/growvolumes/decide.go":  2,
	"functions/pauseowner/decide.go":   1,
	"functions/scale/function.go":      3,
	"functions/scale/status.go":        1, // a status for people
	"shared/kube/warnings.go":          1, // of Kubernetes
	"shared/operation/operation.go":    2, // whether people still see the operation
	"shared/operation/wording.go":      1, // a message for people
	"shared/progress/reasons.go":       1, // words for people
	"shared/resize/preflight.go":       3,
	"shared/resize/record.go":          2,
}

// TestDecisionsReadNoReason: see readers.
func TestDecisionsReadNoReason(t *testing.T) {
	found := map[string]int{}
	for _, path := range kit.Files(t) {
		if !within(path, "functions") && !within(path, "shared") || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(kit.Root(t), filepath.FromSlash(path)), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		if n := readReasons(file); n > 0 {
			found[path] = n
		}
	}
	for path, n := range found {
		if n > readers[path] {
			t.Errorf("%s compares a reason in %d places, not %d. Store what the decision needs in a field of the record", path, n, readers[path])
		}
	}
	for path, n := range readers {
		if found[path] < n {
			t.Errorf("%s compares a reason in %d places. Correct the number %d in readers", path, found[path], n)
		}
	}
}

// readReasons returns how often the file compares a field Reason with a constant of package api, or looks for it in a list.
func readReasons(file *ast.File) (n int) {
	isReason := func(e ast.Expr) bool {
		s, ok := e.(*ast.SelectorExpr)
		return ok && s.Sel.Name == "Reason"
	}
	isOurs := func(e ast.Expr) bool {
		s, ok := e.(*ast.SelectorExpr)
		return ok && fmt.Sprint(s.X) == "api"
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch e := node.(type) {
		case *ast.BinaryExpr:
			if (e.Op == token.EQL || e.Op == token.NEQ) && (isReason(e.X) && isOurs(e.Y) || isOurs(e.X) && isReason(e.Y)) {
				n++
			}
		case *ast.SwitchStmt:
			if e.Tag != nil && isReason(e.Tag) {
				n++
			}
		case *ast.CallExpr:
			if fmt.Sprint(e.Fun) == "&{slices Contains}" && len(e.Args) == 2 && isReason(e.Args[1]) {
				n++
			}
		}
		return true
	})
	return n
}

func TestReadReasonsAreFound(t *testing.T) {
	for body, want := range map[string]int{
		`var x = sleep.Reason == api.OwnerAway`:                    1,
		`var x = api.OwnerAway != m.Sleep.Reason`:                  1,
		`var x = slices.Contains(reasons, sleep.Reason)`:           1,
		`func f() { switch sleep.Reason { case api.OwnerAway: } }`: 1,
		`var x = sleep.Step == api.StartedForOwner`:                0,
		`var x = event.Reason == "Killing"`:                        0,
		`var x = sleep.Reason == message.Reason`:                   0,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\n"+body, 0)
		if err != nil {
			t.Fatal(err)
		}
		if n := readReasons(file); n != want {
			t.Errorf("%s: %d reasons, not %d", body, n, want)
		}
	}
}

// TestOnlyBoundedParsesQuantities: resource.ParseQuantity takes minutes for some texts, and a call does not show who wrote the text.
func TestOnlyBoundedParsesQuantities(t *testing.T) {
	found := 0
	for _, path := range kit.Files(t) {
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			continue
		}
		calls := bytes.Count(readFile(t, filepath.FromSlash(path)), []byte("resource.ParseQuantity("))
		if within(path, "shared/bounded") {
			found += calls
		} else if calls > 0 {
			t.Errorf("%s calls resource.ParseQuantity. Call bounded.Quantity instead", path)
		}
	}
	if found == 0 {
		t.Error("shared/bounded does not call resource.ParseQuantity, so this test looks for the wrong call")
	}
}

// usesOnlyStatuses reports whether the file uses only the status constants and StatusText of package net/http, which are data.
func usesOnlyStatuses(file *ast.File) bool {
	only := true
	ast.Inspect(file, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		only = only && !(ok && fmt.Sprint(s.X) == "http" && !strings.HasPrefix(s.Sel.Name, "Status"))
		return true
	})
	return only
}

// isPure reports whether a decision may import the package.
func isPure(imported string) bool {
	if isOwn(imported) {
		return slices.ContainsFunc(data, func(of string) bool { return within(relative(imported), of) })
	}
	for _, prefix := range append([]string{clientGo, "unsafe", "sync", "syscall", "io"}, effects...) {
		if within(imported, prefix) {
			return false
		}
	}
	return true
}

func TestDecisionsArePure(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		t.Fatal(err)
	}
	root := strings.TrimSpace(string(out))
	var files []string
	for _, pattern := range []string{"functions/*/*.go", "eventsource/sift/*.go", "eventsource/gateway/*.go"} {
		some, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, some...)
	}
	checked := map[string]bool{}
	for _, path := range files {
		if base := filepath.Base(path); strings.HasSuffix(base, "_test.go") || slices.Contains(effectful, base) ||
			slices.Contains(effectfulGateway, base) {
			continue
		}
		checked[filepath.Base(filepath.Dir(path))] = true
		found, err := impurities(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, problem := range found {
			t.Error(problem)
		}
	}
	for _, function := range []string{"detectresize", "pauseowner", "backup", "restore", "deadletter", "idletimeout", "cleanuppod",
		"scale", "growvolumes", "gateway", "sift"} {
		if !checked[function] {
			t.Errorf("no file of %s was checked", function)
		}
	}
}

func TestImpuritiesAreFound(t *testing.T) {
	for name, row := range map[string]struct {
		imports, body string
		want          int
	}{
		"all imports are pure":           {`"fmt"; "time"; "drydock.dev/shared/plan"; corev1 "k8s.io/api/core/v1"`, `var x = time.Second`, 0},
		"a context":                      {`"context"`, ``, 1},
		"a client":                       {`"drydock.dev/shared/kube"`, ``, 1},
		"the executor":                   {`"drydock.dev/shared/apply"`, ``, 1},
		"Kubernetes' client":             {`"k8s.io/client-go/rest"`, ``, 1},
		"the environment":                {`"os"`, ``, 1},
		"a status of HTTP":               {`"net/http"`, `var x = http.StatusOK`, 0},
		"a client of HTTP":               {`"net/http"`, `var x = http.StatusText(http.StatusOK) + http.DefaultClient`, 1},
		"a logger, with an import name":  {`l "log/slog"`, ``, 1},
		"random numbers":                 {`"math/rand/v2"`, ``, 1},
		"another function":               {`"drydock.dev/functions/restore"`, ``, 1},
		"the clock":                      {`"time"`, `var x = time.Now()`, 1},
		"the clock, as a value":          {`"time"`, `var x = time.Now`, 1},
		"the clock, with an import name": {`t "time"`, `var x = t.Since`, 1},
		"a field named Now":              {`"fmt"`, `var x = in.Now`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := impurities("x.go", "package x\nimport ("+row.imports+")\n"+row.body)
			if err != nil || len(found) != row.want {
				t.Errorf("%q, %v; want %d", found, err, row.want)
			}
		})
	}
}
