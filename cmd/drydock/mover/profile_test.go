//go:build linux

package mover

import (
	"os"
	"runtime/pprof"
)

// startProfile writes a CPU profile to a file until the returned function is called.
func startProfile(path string) (stop func()) {
	if path == "" {
		return func() {}
	}
	f, err := os.Create(path)
	if err != nil {
		panic(err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		panic(err)
	}
	return func() {
		pprof.StopCPUProfile()
		_ = f.Close()
	}
}
