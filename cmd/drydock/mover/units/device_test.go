//go:build linux

package units

import (
	"bytes"
	"testing"
)

func TestDifferingRun(t *testing.T) {
	a := bytes.Repeat([]byte{1}, 4*CompareBlock+10)
	for name, c := range map[string]struct {
		at           []int
		same, differ int
	}{
		"equal":          {nil, len(a), 0},
		"the first byte": {[]int{0}, 0, CompareBlock},
		"two neighbours": {[]int{CompareBlock, 2*CompareBlock + 5}, CompareBlock, 2 * CompareBlock},
		"with a gap":     {[]int{0, 2 * CompareBlock}, 0, CompareBlock},
		"the short end":  {[]int{len(a) - 1}, 4 * CompareBlock, 10},
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
