//go:build linux

package mover

import "bytes"

// compareUnit is the number of bytes that are compared and written at once: devices rarely write less.
const compareUnit = 4096

// differingRun returns how many bytes are equal at the beginning, and how many differ after them, in whole units.
func differingRun(a, b []byte) (same, differ int) {
	for same < len(a) && equalUnit(a, b, same) {
		same += compareUnit
	}
	same = min(same, len(a))
	end := same
	for end < len(a) && !equalUnit(a, b, end) {
		end += compareUnit
	}
	return same, min(end, len(a)) - same
}

func equalUnit(a, b []byte, at int) bool {
	end := min(at+compareUnit, len(a))
	return bytes.Equal(a[at:end], b[at:end])
}
