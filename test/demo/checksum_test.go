//go:build busybox

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestChecksumDetectsEveryChange runs the script with busybox, as the pods do. The demo relies on it to prove that the data is the same.
func TestChecksumDetectsEveryChange(t *testing.T) {
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal("there is no busybox; make test-demo installs it")
	}
	for name, change := range map[string]func(root string) error{
		"a byte":          func(r string) error { return writeFile(r, "plain", "hallo") },
		"a mode":          func(r string) error { return os.Chmod(filepath.Join(r, "plain"), 0o640) },
		"a folder's mode": func(r string) error { return os.Chmod(filepath.Join(r, "folder"), 0o700) },
		"a time":          func(r string) error { return os.Chtimes(filepath.Join(r, "plain"), early, early.Add(time.Microsecond)) },
		"a name":          func(r string) error { return os.Rename(filepath.Join(r, "plain"), filepath.Join(r, "plane")) },
		"a target":        func(r string) error { return relink(r, os.Symlink, "folder", "symbolic") },
		"a hard link that is a copy": func(r string) error {
			if err := os.Remove(filepath.Join(r, "hard")); err != nil {
				return err
			}
			return writeFile(r, "hard", "hello")
		},
		"another file": func(r string) error { return writeFile(r, "folder/new", "") },
	} {
		root := makeTree(t)
		before := checksumOf(t, busybox, root)
		if again := checksumOf(t, busybox, root); again != before {
			t.Fatalf("the checksum of an unchanged tree changes: %s, %s", before, again)
		}
		if err := change(root); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if checksumOf(t, busybox, root) == before {
			t.Errorf("%s: the checksum is the same", name)
		}
	}
	if one, other := checksumOf(t, busybox, makeTree(t)), checksumOf(t, busybox, makeTree(t)); one != other {
		t.Errorf("two equal trees have the checksums %s and %s", one, other)
	}
}

var early = time.Date(2001, 2, 3, 4, 5, 6, 7000, time.UTC)

func makeTree(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, err := range []error{
		os.Mkdir(filepath.Join(root, "folder"), 0o755),
		writeFile(root, "plain", "hello"),
		os.Link(filepath.Join(root, "plain"), filepath.Join(root, "hard")),
		os.Symlink("nowhere", filepath.Join(root, "symbolic")),
		setLinkTime(filepath.Join(root, "symbolic")),
		os.Chtimes(filepath.Join(root, "folder"), early, early),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// writeFile writes a file with a fixed modification time.
func writeFile(root, name, text string) error {
	path := filepath.Join(root, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Chtimes(path, early, early)
}

func relink(root string, link func(target, name string) error, target, name string) error {
	path := filepath.Join(root, name)
	if err := os.Remove(path); err != nil {
		return err
	}
	if err := link(target, path); err != nil {
		return err
	}
	return setLinkTime(path)
}

// setLinkTime sets the time of a symbolic link itself.
func setLinkTime(path string) error {
	return exec.Command("touch", "-h", "-d", early.Format(time.RFC3339Nano), path).Run()
}

func checksumOf(t *testing.T, busybox, root string) string {
	t.Helper()
	// Use busybox's applets only, because the system's tools may accept other options.
	bin := filepath.Join(t.TempDir(), "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(busybox, "--install", "-s", bin).CombinedOutput(); err != nil {
		t.Fatalf("busybox cannot install its applets: %v: %s", err, out)
	}
	command := exec.Command(filepath.Join(bin, "sh"), "-c", checksumScript, "script", root)
	command.Env = []string{"PATH=" + bin}
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("running checksum.sh: %v: %s", err, out)
	}
	sum, _, err := readChecksum(string(out))
	if err != nil {
		t.Fatal(err)
	}
	return sum
}
