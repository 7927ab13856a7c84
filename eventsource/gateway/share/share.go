// Package share lets requests for the same thing take turns, so that one of them looks and the others use what it saw. It
// bounds what strangers can make a server remember, and how many of them wait at once.
package share

import (
	"context"
	"sync"
	"time"
)

// Views holds what was seen last, by key.
type Views[V any] struct {
	mu   sync.Mutex
	most int
	keys map[string]*view[V]
}

type view[V any] struct {
	turn  chan struct{} // holds one token; who has it may look
	users int           // requests that have the turn or wait for it
	seen  V
	err   error
	until time.Time
}

// NewViews makes views that remember at most so many keys, beside those in use.
func NewViews[V any](most int) *Views[V] { return &Views[V]{most: most, keys: map[string]*view[V]{}} }

// Turn is the right to look at one key, until End.
type Turn[V any] struct {
	views *Views[V]
	view  *view[V]
}

// Take waits for the key's turn. It returns the context's error if that ends first.
func (v *Views[V]) Take(ctx context.Context, key string) (*Turn[V], error) {
	t := &Turn[V]{views: v, view: v.enter(key)}
	select {
	case <-t.view.turn:
		return t, nil
	case <-ctx.Done():
		t.leave()
		return nil, ctx.Err()
	}
}

func (v *Views[V]) enter(key string) *view[V] {
	v.mu.Lock()
	defer v.mu.Unlock()
	found := v.keys[key]
	if found == nil {
		v.makeRoom()
		found = &view[V]{turn: make(chan struct{}, 1)}
		found.turn <- struct{}{}
		v.keys[key] = found
	}
	found.users++
	return found
}

// makeRoom forgets every key that no request uses. What they held is read again when it is needed.
func (v *Views[V]) makeRoom() {
	if len(v.keys) < v.most {
		return
	}
	for key, old := range v.keys {
		if old.users == 0 {
			delete(v.keys, key)
		}
	}
}

func (t *Turn[V]) leave() {
	t.views.mu.Lock()
	defer t.views.mu.Unlock()
	t.view.users--
}

// End gives the turn to the next request.
func (t *Turn[V]) End() {
	t.view.turn <- struct{}{}
	t.leave()
}

// Recall returns what was seen, or the error, if it is still to be used at the time.
func (t *Turn[V]) Recall(now time.Time) (seen V, err error, ok bool) { //nolint:revive,staticcheck // ok says whether the error counts
	return t.view.seen, t.view.err, now.Before(t.view.until)
}

// Keep remembers what was seen, or the error, until the time.
func (t *Turn[V]) Keep(seen V, err error, until time.Time) {
	t.view.seen, t.view.err, t.view.until = seen, err, until
}
