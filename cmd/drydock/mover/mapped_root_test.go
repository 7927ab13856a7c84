//go:build linux && root

package mover

import (
	"testing"
	"time"

	"drydock.dev/test/seed"
)

// tuned returns the command for an ext4 with a default mount option.
func tuned(option string) []string {
	return []string{"sh", "-c", "mkfs.ext4 -q -F \"$1\" && tune2fs -o " + option + " \"$1\"", "sh"}
}

// A write through a dirty mapping is seen with every mode of ext4 and with lazy times.
func TestWritesToMappingAreSeenInEveryMode(t *testing.T) {
	for name, mkfs := range map[string][]string{
		"data=journal":   tuned("journal_data"),
		"data=writeback": tuned("journal_data_writeback"),
		"nodelalloc":     tuned("nodelalloc"),
		"inline data":    {"mkfs.ext4", "-q", "-F", "-O", "inline_data"},
		"lazytime":       {"mkfs.ext4", "-q", "-F"},
		"xfs, lazytime":  {"mkfs.xfs", "-q", "-f"},
		"no journal":     {"mkfs.ext4", "-q", "-F", "-O", "^has_journal"},
	} {
		t.Run(name, func(t *testing.T) {
			src, dst := newVolume(t, 400, mkfs...), newVolume(t, 400)
			if name == "lazytime" || name == "xfs, lazytime" {
				runCommand(t, "mount", "-o", "remount,lazytime", src.dir)
			}
			w := newLive(t, seed.Random(t), src.dir)
			for i := range 5 {
				waitSettled()
				runFirstPass(t, firstPass(src.dir, dst.dir))
				w.mapped[0][17+i]++
				time.Sleep(time.Duration(i) * 20 * time.Millisecond)
				w.mapped[1][17+i]++
			}
			if r := copyTree(t, finalPass(src.dir, dst.dir)); r.TrustedFiles == 0 || r.Files < 1 {
				t.Errorf("%+v", r)
			}
			requireEqualTrees(t, src.dir, dst.dir)
		})
	}
}
