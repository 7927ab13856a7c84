//go:build linux

package mover

import "bytes"

// compareBlock is the number of bytes that are compared and written at once: devices rarely write less.
const compareBlock = 4096

// differingRun returns how many bytes are equal at the beginning, and how many differ after them, in whole blocks.
func differingRun(a, b []byte) (same, differ int) {
	for same < len(a) && equalBlock(a, b, same) {
		same += compareBlock
	}
	same = min(same, len(a))
	end := same
	for end < len(a) && !equalBlock(a, b, end) {
		end += compareBlock
	}
	return same, min(end, len(a)) - same
}

func equalBlock(a, b []byte, at int) bool {
	end := min(at+compareBlock, len(a))
	return bytes.Equal(a[at:end], b[at:end])
}
