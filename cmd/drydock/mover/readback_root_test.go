//go:build linux && root

package mover

import (
	"testing"
	"time"

	"drydock.dev/test/seed"
)

// "Verify: read both sides again, the target from its device", also if the file system journals data.
func TestVerificationReadsDevice(t *testing.T) {
	for name, c := range map[string]struct {
		mkfs []string
	}{
		"ext4":            {[]string{"mkfs.ext4", "-q", "-F"}},
		"xfs":             {[]string{"mkfs.xfs", "-q", "-f"}},
		"data=journal":    {tuned("journal_data")},
		"1 KiB per block": {[]string{"mkfs.ext4", "-q", "-F", "-b", "1024"}},
	} {
		t.Run(name, func(t *testing.T) {
			src, dst := newVolume(t, 64), newVolume(t, 400, c.mkfs...)
			const size = 2<<20 + 77
			writeRandomFile(t, seed.Random(t), src.dir+"/big", size)
			writeRandomFile(t, seed.Random(t), src.dir+"/small", 100_000)
			o := Options{Source: src.dir, Target: dst.dir}
			before := int64(0)
			o.hooks.synced = func() { before = dst.bytesRead(t) }
			_, err := Copy(t.Context(), o)
			must(t, err)
			if n := dst.bytesRead(t) - before; n < size+100_000 {
				t.Errorf("the verification of %d bytes read %d bytes from the device", size+100_000, n)
			}
		})
	}
}

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
