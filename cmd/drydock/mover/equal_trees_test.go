//go:build linux && !root

package mover

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// requireEqualTrees compares names, modes, sizes, times, links and contents of two trees. Tests that run as root compare
// with rsync instead.
func requireEqualTrees(t testing.TB, src, dst string) {
	t.Helper()
	if diff := cmp.Diff(describeTree(t, src), describeTree(t, dst)); diff != "" {
		t.Fatalf("the target differs (- source, + target):\n%s", diff)
	}
}

// describeTree returns a line for each entry below a directory, by its path.
func describeTree(t testing.TB, root string) map[string]string {
	t.Helper()
	entries := map[string]string{}
	must(t, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		line := fmt.Sprint(info.Mode(), info.ModTime())
		switch {
		case info.Mode().IsRegular():
			contents, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %q", contents)
		case info.Mode()&fs.ModeSymlink != 0:
			link, err := os.Readlink(path)
			if err != nil {
				return err
			}
			line += " -> " + link
		}
		relative, err := filepath.Rel(root, path)
		entries[relative] = line
		return err
	}))
	return entries
}
