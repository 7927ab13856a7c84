package share

import "sync"

// Limiter limits how many requests wait at once, in total and for one key, so that the visitors of one site leave room for others.
type Limiter struct {
	mu    sync.Mutex
	limit int
	total int
	byKey map[string]int
}

// NewLimiter returns a limiter for so many requests. One key gets at most half of them.
func NewLimiter(limit int) *Limiter { return &Limiter{limit: limit, byKey: map[string]int{}} }

// TryAcquire reports whether a request with the key may wait. If it may, call Release afterwards.
func (l *Limiter) TryAcquire(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.total >= l.limit || l.byKey[key] >= max(1, l.limit/2) {
		return false
	}
	l.total++
	l.byKey[key]++
	return true
}

// Release ends a wait that TryAcquire permitted.
func (l *Limiter) Release(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total--
	if l.byKey[key]--; l.byKey[key] == 0 {
		delete(l.byKey, key)
	}
}

// InUse returns the number of waiting requests.
func (l *Limiter) InUse() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}
