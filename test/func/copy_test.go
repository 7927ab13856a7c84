package functest

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	module = "drydock.dev"
	// renamed is the name that func v0.44 expects of every function's module.
	renamed = "function"
)

// scratch returns a folder with a copy of this repository, with its module renamed.
func scratch(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		t.Fatalf("listing the files of the repository: %v", err)
	}
	dir := filepath.Join(t.TempDir(), "drydock")
	files := strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
	for _, name := range files {
		if err := copyFile(filepath.Join(root, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	replaceIn(t, filepath.Join(dir, "go.mod"), "module "+module+"\n", "module "+renamed+"\n")
	return dir
}

// replaceIn replaces the only occurrence of a text in a file.
func replaceIn(t *testing.T, path, old, replacement string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), old); n != 1 {
		t.Fatalf("%s has %q %d times, want once", path, old, n)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), old, replacement, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// copyFile copies a file that git lists, with renamed imports. It ignores a file that is deleted and not committed yet.
func copyFile(from, to string) error {
	info, err := os.Lstat(from)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file, and func's host builder refuses links that leave the project", from)
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if strings.HasSuffix(from, ".go") {
		if text, err = renameImports(from, text); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, text, info.Mode().Perm())
}

// renameImports changes only import paths, because annotation keys begin with the module's name too.
func renameImports(name string, text []byte) ([]byte, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	for _, spec := range slices.Backward(file.Imports) { // from the end, so that earlier positions stay valid
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		rest, found := strings.CutPrefix(path, module)
		if !found || rest != "" && rest[0] != '/' {
			continue
		}
		at := set.Position(spec.Path.Pos()).Offset
		text = slices.Replace(text, at, at+len(spec.Path.Value), []byte(strconv.Quote(renamed+rest))...)
	}
	return text, nil
}

func TestRenameImportsKeepsAnnotationKeys(t *testing.T) {
	const source = "package x\n\nimport (\n\t\"drydock.dev\"\n\ta \"drydock.dev/shared/api\"\n\t\"drydock.development/x\"\n)\n\n" +
		"const key = \"drydock.dev/resize\"\n"
	got, err := renameImports("x.go", []byte(source))
	const want = "package x\n\nimport (\n\t\"function\"\n\ta \"function/shared/api\"\n\t\"drydock.development/x\"\n)\n\n" +
		"const key = \"drydock.dev/resize\"\n"
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
}
