//go:build linux

package mover

import (
	"bytes"
	"testing"
)

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
