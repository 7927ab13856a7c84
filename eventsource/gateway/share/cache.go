// Package share lets requests for the same key share one observation. It limits how much anonymous callers make a server remember,
// and how many requests wait at once.
package share

import (
	"context"
	"sync"
	"time"
)

// Cache holds the latest observation of each key.
type Cache[V any] struct {
	mu        sync.Mutex
	maxKeys   int
	maxWeight int
	weigh     func(V) int
	weight    int // of the values in slots
	slots     map[string]*slot[V]
}

// slot holds the observation of one key.
type slot[V any] struct {
	lock   chan struct{} // holds one token; a request that has taken it owns the slot
	users  int           // requests that own the slot or wait for it
	weight int
	value  V
	err    error
	until  time.Time
}

// NewCache returns a cache for at most maxKeys keys, and for values that weigh at most maxWeight together. Keys in use are not removed,
// so the limits can be exceeded for a short time.
func NewCache[V any](maxKeys, maxWeight int, weigh func(V) int) *Cache[V] {
	return &Cache[V]{maxKeys: maxKeys, maxWeight: maxWeight, weigh: weigh, slots: map[string]*slot[V]{}}
}

// Entry is the exclusive right to read and write the observation of one key, until Release.
type Entry[V any] struct {
	cache *Cache[V]
	slot  *slot[V]
}

// Acquire waits until no other request owns the key. It returns the context's error if the context ends first.
func (c *Cache[V]) Acquire(ctx context.Context, key string) (*Entry[V], error) {
	e := &Entry[V]{cache: c, slot: c.enter(key)}
	select {
	case <-e.slot.lock:
		return e, nil
	case <-ctx.Done():
		e.leave()
		return nil, ctx.Err()
	}
}

// enter returns the slot of the key, and counts the request as a user.
func (c *Cache[V]) enter(key string) *slot[V] {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.slots[key]
	if found == nil {
		if len(c.slots) >= c.maxKeys {
			c.makeRoom()
		}
		found = &slot[V]{lock: make(chan struct{}, 1)}
		found.lock <- struct{}{}
		c.slots[key] = found
	}
	found.users++
	return found
}

// makeRoom removes every key without a user. Their observations are read again when they are needed.
func (c *Cache[V]) makeRoom() {
	for key, old := range c.slots {
		if old.users == 0 {
			delete(c.slots, key)
			c.weight -= old.weight
		}
	}
}

func (e *Entry[V]) leave() {
	e.cache.mu.Lock()
	defer e.cache.mu.Unlock()
	e.slot.users--
}

// Release passes the key to the next request.
func (e *Entry[V]) Release() {
	e.slot.lock <- struct{}{}
	e.leave()
}

// Get returns the stored value or error. ok is false if it has expired.
func (e *Entry[V]) Get(now time.Time) (value V, err error, ok bool) { // ok says whether the error counts
	return e.slot.value, e.slot.err, now.Before(e.slot.until)
}

// Put stores the value or error until the time.
func (e *Entry[V]) Put(value V, err error, until time.Time) {
	e.slot.value, e.slot.err, e.slot.until = value, err, until
	c := e.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	heavier := c.weigh(value) - e.slot.weight
	e.slot.weight += heavier
	if c.weight += heavier; c.weight > c.maxWeight {
		c.makeRoom()
	}
}
