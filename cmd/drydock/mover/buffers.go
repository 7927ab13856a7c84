//go:build linux

package mover

import "sync"

// bufferSize is how many bytes a worker reads at a time. It fits into a CPU's cache.
const bufferSize = 128 << 10

// bufferPool is a typed sync.Pool.
type bufferPool[T any] struct{ pool sync.Pool }

func (p *bufferPool[T]) Get() *T {
	if b, ok := p.pool.Get().(*T); ok {
		return b
	}
	return new(T)
}

func (p *bufferPool[T]) Put(b *T) { p.pool.Put(b) }

var buffers bufferPool[[bufferSize]byte]
