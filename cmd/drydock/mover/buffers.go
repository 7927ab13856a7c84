//go:build linux

package mover

import "sync"

// bufferSize is how many bytes a worker reads at a time. It fits into a CPU's cache.
const bufferSize = 128 << 10

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}
