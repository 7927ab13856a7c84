package functest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	fn "knative.dev/func/pkg/functions"
)

// TestFuncAcceptsFuncYAML uses func's own loader and validation.
func TestFuncAcceptsFuncYAML(t *testing.T) {
	dir := t.TempDir() // func creates a folder beside the file that it reads
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
		t.Errorf("func.yaml has specVersion %s, and func writes %s", f.SpecVersion, got)
	}
}

// TestFuncKnowsEverySetting: the loader silently drops unknown settings. So func.yaml is read, written again and compared.
func TestFuncKnowsEverySetting(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, fn.FunctionFile))
	if err != nil {
		t.Fatal(err)
	}
	if dropped := droppedBy(t, string(text)); len(dropped) > 0 {
		t.Errorf("func drops %q", dropped)
	}
	if dropped := droppedBy(t, string(text)+"  nonsense: 1\n"); len(dropped) != 1 {
		t.Errorf("func drops %q of a func.yaml with one unknown setting, want only that one", dropped)
	}
}

// droppedBy returns the lines of a func.yaml that are missing after func has read and written it. func may change their order.
func droppedBy(t *testing.T, text string) []string {
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
	f.Registry = "example.com" // func writes only after a change
	if err := f.Write(); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	remaining := map[string]int{}
	for line := range strings.Lines(string(written)) {
		remaining[strings.TrimSpace(line)]++
	}
	var dropped []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if remaining[line]--; remaining[line] < 0 {
			dropped = append(dropped, line)
		}
	}
	return dropped
}

// TestFoldersThatGitIgnoresStayOutOfTheImage: func puts the whole folder into the image, except the paths in .funcignore. (v0.44 does not
// read this file yet.)
func TestFoldersThatGitIgnoresStayOutOfTheImage(t *testing.T) {
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
		if !strings.HasPrefix(line, "/") || line == "/.func/" { // func never puts its own folder into the image
			continue
		}
		folders++
		if want := strings.TrimSuffix(line, "/") + "\n"; !strings.Contains("\n"+string(ignored), "\n"+want) {
			t.Errorf(".gitignore has %s, and .funcignore has no line %s", line, want)
		}
	}
	if folders == 0 {
		t.Error(".gitignore names no folder")
	}
}
