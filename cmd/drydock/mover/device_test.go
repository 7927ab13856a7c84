//go:build linux

package mover

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
)

// The digest is a published format: this value must never change.
func TestDeviceDigestIsStable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	write(t, path, strings.Repeat("drydock", 1_000_000))
	const want = "81a79fc30d760c0688f07c322a895847f97b3c7b58884374c74a36a6c3ccf75b"
	for workers := range 3 {
		if got, err := deviceDigest(context.Background(), path, 0, workers, true); err != nil || got != want {
			t.Errorf("%s, %v", got, err)
		}
	}
}

func TestDifferingRun(t *testing.T) {
	a := bytes.Repeat([]byte{1}, 4*compareBlock+10)
	for name, c := range map[string]struct {
		at           []int
		same, differ int
	}{
		"equal":          {nil, len(a), 0},
		"the first byte": {[]int{0}, 0, compareBlock},
		"two neighbours": {[]int{compareBlock, 2*compareBlock + 5}, compareBlock, 2 * compareBlock},
		"with a gap":     {[]int{0, 2 * compareBlock}, 0, compareBlock},
		"the short end":  {[]int{len(a) - 1}, 4 * compareBlock, 10},
	} {
		b := bytes.Clone(a)
		for _, i := range c.at {
			b[i]++
		}
		if same, differ := differingRun(a, b); same != c.same || differ != c.differ {
			t.Errorf("%s: %d %d", name, same, differ)
		}
	}
}
