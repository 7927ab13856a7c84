//go:build linux && root

package mover

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// The digest is a published format: this value must never change.
func TestDigestIsStable(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	must(t, os.Mkdir(dir+"/d", 0o750))
	write(t, dir+"/d/f", "contents")
	must(t, os.Link(dir+"/d/f", dir+"/g"))
	must(t, os.Symlink("d/f", dir+"/l"))
	must(t, unix.Setxattr(dir+"/d/f", "user.k", []byte("v"), 0))
	for _, p := range []string{"d/f", "l", "d"} {
		must(t, os.Lchown(filepath.Join(dir, p), 10, 20))
		setTime(t, filepath.Join(dir, p), 1_234_567_890_123_456_789)
	}
	must(t, os.Mkdir(dir+"/"+lostFound, 0o700))
	const want = "b3376d54fb3b4515b26db3ffd3e7a93286e185d9cf79e98f7882574eb64e5473"
	for workers := range 3 {
		if got, err := Digest(context.Background(), dir, workers); err != nil || got != want {
			t.Errorf("%s, %v", got, err)
		}
	}
}
