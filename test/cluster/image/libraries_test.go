package image

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The test unpacks the programs with their libraries, and asks the loader for the files that it would load.
func TestImageHasEachLibraryOfItsPrograms(t *testing.T) {
	sources := map[string]string{"bin/ls": "/bin/ls", "bin/cp": "/bin/cp"}
	made, err := Image{Name: "dev.local/sample:1", Entries: base()}.WithPrograms(sources, "/")
	if err != nil {
		t.Fatal(err)
	}
	root, loader := t.TempDir(), ""
	for _, entry := range made.Entries {
		target := filepath.Join(root, entry.Path)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			t.Fatal(err)
		}
		if entry.Folder {
			continue
		}
		if strings.HasPrefix(filepath.Base(target), "ld-linux") {
			loader = target
		}
		if err := os.WriteFile(target, entry.Content, os.FileMode(entry.Mode)); err != nil {
			t.Fatal(err)
		}
	}
	for _, program := range []string{"ls", "cp"} {
		libraries, binary := filepath.Join(root, "lib"), filepath.Join(root, "bin", program)
		loads, err := exec.Command(loader, "--inhibit-cache", "--library-path", libraries, "--list", binary).Output()
		if err != nil {
			t.Fatalf("%s --list %s: %v", loader, program, err)
		}
		for line := range strings.Lines(string(loads)) {
			if name, file, found := strings.Cut(strings.TrimSpace(line), " => "); found && !strings.HasPrefix(file, root) {
				t.Errorf("%s loads %s from %s", program, name, file)
			}
		}
		if !strings.Contains(string(loads), "libc.so.6 => "+root) {
			t.Errorf("%s loads:\n%s", program, loads)
		}
	}
}

func TestFirstRootHasPrecedence(t *testing.T) {
	first := t.TempDir()
	folder := filepath.Join(first, "usr", "lib", "any-linux-gnu")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile("/bin/cp") // has the same ELF header as a library
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "libc.so.6"), content, 0o644); err != nil {
		t.Fatal(err)
	}
	made, err := Image{}.WithPrograms(map[string]string{"bin/ls": "/bin/ls"}, first, "/")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range made.Entries {
		if entry.Path == "lib/libc.so.6" && string(entry.Content) == string(content) {
			return
		}
	}
	t.Error("libc.so.6 does not come from the first root")
}

func TestMissingLibraryIsNamed(t *testing.T) {
	_, err := Image{}.WithPrograms(map[string]string{"bin/ls": "/bin/ls"}, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "libraries of bin/ls") || !strings.Contains(err.Error(), ".so.") {
		t.Errorf("got %v", err)
	}
}
