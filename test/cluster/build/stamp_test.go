package build

import (
	"os"
	"path/filepath"
	"testing"
)

func TestStampDependsOnInputsOfProgram(t *testing.T) {
	write := func(t *testing.T, dir, name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tests := map[string]struct {
		change func(t *testing.T, dir string, p *Program)
		same   bool
	}{
		"nothing changed":            {func(*testing.T, string, *Program) {}, true},
		"a test was added":           {func(t *testing.T, dir string, _ *Program) { write(t, dir, "a/main_test.go", "package main") }, true},
		"another package changed":    {func(t *testing.T, dir string, _ *Program) { write(t, dir, "b/main.go", "package b") }, true},
		"a source changed":           {func(t *testing.T, dir string, _ *Program) { write(t, dir, "a/main.go", "package main // 2") }, false},
		"a source was added":         {func(t *testing.T, dir string, _ *Program) { write(t, dir, "a/more.go", "package main") }, false},
		"a module's version changed": {func(t *testing.T, dir string, _ *Program) { write(t, dir, "go.mod", "module a // 2") }, false},
		"the linker's flags differ":  {func(_ *testing.T, _ string, p *Program) { p.Flags = "-X a=b" }, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "go.mod", "module a")
			write(t, dir, "a/main.go", "package main")
			program := Program{Name: "a", Module: dir, Folder: "a"}
			before, err := program.stamp()
			if err != nil {
				t.Fatal(err)
			}
			test.change(t, dir, &program)
			after, err := program.stamp()
			if err != nil {
				t.Fatal(err)
			}
			if (before == after) != test.same {
				t.Errorf("stamps %s and %s: want the same = %v", before, after, test.same)
			}
		})
	}
}

func TestStampOfSeveralProgramsDependsOnNamesAndVersions(t *testing.T) {
	dir := t.TempDir()
	stamp := func(text string, packages ...string) string {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		stamp, err := Program{Name: "all", Module: dir, Packages: packages}.stamp()
		if err != nil {
			t.Fatal(err)
		}
		return stamp
	}
	first := stamp("module a", "b.c/d", "b.c/e")
	if stamp("module a", "b.c/d", "b.c/e") != first || stamp("module a", "b.c/d") == first ||
		stamp("module a // 2", "b.c/d", "b.c/e") == first {
		t.Error("the stamp does not depend on names and versions")
	}
}

func TestSeveralProgramsAreBuiltIntoOneFolder(t *testing.T) {
	module := t.TempDir()
	if err := os.WriteFile(filepath.Join(module, "go.mod"), []byte("module a\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	quiet := Builder{Bin: t.TempDir(), Step: func(_ string, do func() error) error { return do() }, Say: func(string) {}}
	older := filepath.Join(quiet.Bin, "all-0123456789ab")
	if err := os.MkdirAll(filepath.Join(older, "test2json"), 0o755); err != nil {
		t.Fatal(err)
	}
	// These two programs belong to the standard library, so every module can build them.
	path, err := quiet.Ensure(t.Context(), Program{Name: "all", Module: module, Packages: []string{"cmd/test2json", "cmd/buildid"}})
	if err != nil {
		t.Fatal(err)
	}
	if !exists(filepath.Join(path, "test2json")) || !exists(filepath.Join(path, "buildid")) {
		t.Errorf("no programs in %s", path)
	}
	if exists(older) {
		t.Error("the older build still exists")
	}
	if stamp := StampOf(path); filepath.Base(path) != "all-"+stamp || len(stamp) != 12 {
		t.Errorf("the stamp of %s is %s", path, stamp)
	}
}

func TestOlderBuildsOfOtherProgramsAreKept(t *testing.T) {
	bin := t.TempDir()
	for _, name := range []string{"kube-0123456789ab", "kube-proxy-0123456789ab", "dns-0123456789ab"} {
		if err := os.WriteFile(filepath.Join(bin, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := removeOlder(bin, "kube"); err != nil {
		t.Fatal(err)
	}
	if exists(filepath.Join(bin, "kube-0123456789ab")) || !exists(filepath.Join(bin, "kube-proxy-0123456789ab")) ||
		!exists(filepath.Join(bin, "dns-0123456789ab")) {
		t.Error("want only the older build of kube removed")
	}
}

func TestMissingSourcesAreAnError(t *testing.T) {
	if _, err := (Program{Title: "nothing", Module: t.TempDir()}).stamp(); err == nil {
		t.Error("want an error")
	}
}
