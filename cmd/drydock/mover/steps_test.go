//go:build linux

package mover

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"drydock.dev/shared/moverreport"
)

// backup gives up a copy whose mover reports no progress for a while. On slow storage a large tree of directories takes
// longer than that.
func TestDirectoriesCountAsProgress(t *testing.T) {
	src := t.TempDir()
	for i := range 20 {
		if err := os.MkdirAll(filepath.Join(src, fmt.Sprint(i), "inner"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var steps int64
	_, err := Copy(context.Background(), Options{Source: src, Target: t.TempDir(), ProgressInterval: time.Millisecond,
		Progress: func(p moverreport.Progress) { steps = max(steps, p.Steps) }})
	if err != nil {
		t.Fatal(err)
	}
	if want := int64(2 * 41); steps < want { // each directory, and the root, is made and finished
		t.Errorf("%d steps are reported, want at least %d", steps, want)
	}
}
