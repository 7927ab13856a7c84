package kube

import (
	"fmt"
	"sync/atomic"

	"drydock.dev/shared/fault"
	"drydock.dev/shared/world"
)

// mostKept is the limit for the set, claims, pods, Jobs and journals of one observation, in bytes as the API server sends them. Decoded,
// ordinary ones take twice as much, and hostile ones ten times. A thousand ordinary replicas need less. The users who create claims decide
// how much there is to read, and the function serves other tenants at the same time.
const mostKept = 16 << 20

// observation is an Observed that is being read.
type observation struct {
	*world.Observed
	kept atomic.Int64 // bytes
}

// fits counts an object of that size and reports whether it may be kept. Keep a copy, because the object is a part of its page.
func (l *observation) fits(size int) bool {
	return l.kept.Add(int64(size)) <= mostKept
}

// checkSize returns an error if the objects are too large to be kept.
func (l *observation) checkSize() error {
	if l.kept.Load() <= mostKept {
		return nil
	}
	return fault.Permanent(fmt.Errorf("the set, its claims, their pods, and the Jobs and ControllerRevisions of its operations have "+
		"more than %d MiB; remove large labels and annotations from objects with names of its claims", mostKept>>20))
}
