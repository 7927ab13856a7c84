//go:build linux

package units

import (
	"os"
	"testing"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write creates a file.
func write(t testing.TB, path string, contents string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(contents), 0o644))
}
