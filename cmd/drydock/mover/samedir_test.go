//go:build linux && root

package mover

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"drydock.dev/cmd/drydock/mover/target"
	"drydock.dev/cmd/drydock/mover/tree"
)

// Two claims may lead to the same folder of a network file system, mounted with different options. The device and inode
// numbers differ then (here because of an overlay), and every entry of the target looks like the source's. That is not a
// copy: the folder would be deleted with the old volume.
func TestSameDirectoryByTwoMountsIsRefused(t *testing.T) {
	v := newVolume(t, 32)
	base := publicTempDir(t)
	for _, dir := range []string{"empty", "source"} {
		must(t, os.Mkdir(filepath.Join(base, dir), 0o755))
	}
	data := filepath.Join(v.dir, "data")
	must(t, os.Mkdir(data, 0o755))
	must(t, os.WriteFile(filepath.Join(data, "PG_VERSION"), []byte("18\n"), 0o600))
	src := filepath.Join(base, "source")
	runCommand(t, "mount", "-t", "overlay", "overlay", "-o", "lowerdir="+data+":"+filepath.Join(base, "empty"), src)
	t.Cleanup(func() { runCommand(t, "umount", src) })
	for _, pass := range []tree.Pass{tree.PassWhole, tree.PassFinal, tree.PassFirst} {
		_, err := Copy(context.Background(), Options{Source: src, Target: data, Pass: pass, Token: operation, OwnOnly: true})
		if err == nil {
			t.Errorf("pass %d: the directory counts as a copy of itself", pass)
		}
		if _, left := os.Lstat(filepath.Join(data, target.MarkerName)); !errors.Is(left, os.ErrNotExist) {
			t.Errorf("pass %d: the marker remains in the data", pass)
		}
	}
	if text, err := os.ReadFile(filepath.Join(data, "PG_VERSION")); err != nil || string(text) != "18\n" {
		t.Errorf("the data is %q, %v", text, err)
	}
}
