//go:build linux && root

package mover

import (
	"testing"

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
