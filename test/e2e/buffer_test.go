//go:build cluster

package e2e

import (
	"bytes"
	"sync"
)

// lockedBuffer collects the output of a process while the test reads it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) tail(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.b.Bytes()
	return string(text[max(0, len(text)-n):])
}
