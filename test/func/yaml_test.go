package functest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	fn "knative.dev/func/pkg/functions"
)

// TestFuncTakesTheProject: func's own loader and validation, and no setting that it does not know.
func TestFuncTakesTheProject(t *testing.T) {
	dir := t.TempDir() // func leaves a folder where it reads
	if err := copyFile(filepath.Join(root, fn.FunctionFile), filepath.Join(dir, fn.FunctionFile)); err != nil {
		t.Fatal(err)
	}
	f, err := fn.NewFunction(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Validate(); err != nil {
		t.Error(err)
	}
	if !f.Initialized() || f.Runtime != "go" || f.Invoke != "cloudevent" || f.Build.Builder != "host" {
		t.Errorf("initialized %v, runtime %q, invoke %q, builder %q", f.Initialized(), f.Runtime, f.Invoke, f.Build.Builder)
	}
	if got := fn.LastSpecVersion(); f.SpecVersion != got {
		t.Errorf("func.yaml is of specVersion %s, func writes %s", f.SpecVersion, got)
	}
}

// TestFuncKeepsEverySetting: the loader leaves out what it does not know without a word, so what it writes has to have
// as many settings as what it has read.
func TestFuncKeepsEverySetting(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, fn.FunctionFile))
	if err != nil {
		t.Fatal(err)
	}
	if lost := lostBy(t, string(text)); len(lost) > 0 {
		t.Errorf("func drops %q", lost)
	}
	if lost := lostBy(t, string(text)+"  nonsense: 1\n"); len(lost) != 1 {
		t.Errorf("func drops %q of a func.yaml with one unknown setting", lost)
	}
}

// lostBy are the lines of a func.yaml that are not there any more when func has read and written it. func puts them in
// another order.
func lostBy(t *testing.T, text string) []string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, fn.FunctionFile)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := fn.NewFunction(dir)
	if err != nil {
		t.Fatal(err)
	}
	f.Registry = "example.com" // a change, without which func writes nothing
	if err := f.Write(); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	kept := map[string]int{}
	for line := range strings.Lines(string(written)) {
		kept[strings.TrimSpace(line)]++
	}
	var lost []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if kept[line]--; kept[line] < 0 {
			lost = append(lost, line)
		}
	}
	return lost
}

// TestWhatGitIgnoresStaysOutOfTheImage: func puts the whole folder into it, but for what .funcignore names. (v0.44 does
// not read that file yet.)
func TestWhatGitIgnoresStaysOutOfTheImage(t *testing.T) {
	ignored, err := os.ReadFile(filepath.Join(root, ".funcignore"))
	if err != nil {
		t.Fatal(err)
	}
	git, err := os.ReadFile(filepath.Join(root, ".gitignore"))
	if err != nil {
		t.Fatal(err)
	}
	folders := 0
	for line := range strings.Lines(string(git)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "/") || line == "/.func/" { // func's own folder is never in it
			continue
		}
		folders++
		if want := strings.TrimSuffix(line, "/") + "\n"; !strings.Contains("\n"+string(ignored), "\n"+want) {
			t.Errorf(".gitignore has %s, .funcignore has no line %s", line, want)
		}
	}
	if folders == 0 {
		t.Error(".gitignore names no folder")
	}
}
