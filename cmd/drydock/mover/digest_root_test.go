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
	const want = "62ec0c241e272aaf391ec349fe30f65ac4d7d7bac8ba804159dc5789d614363b"
	for workers := range 3 {
		if got, err := Digest(context.Background(), dir, workers); err != nil || got != want {
			t.Errorf("%s, %v", got, err)
		}
	}
}
