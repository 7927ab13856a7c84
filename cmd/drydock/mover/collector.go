//go:build linux

package mover

import (
	"os"
	"runtime/debug"
	"sync"
)

// gcPercent lets the heap grow by half between two collections. Most of it is the tree, which has no pointers to follow, so
// a collection is cheap.
const gcPercent = 50

// tuneCollector sets the percentage for this process, unless the environment sets one.
var tuneCollector = sync.OnceFunc(func() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
})
