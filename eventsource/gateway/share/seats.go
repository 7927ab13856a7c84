package share

import "sync"

// Seats bounds how many requests wait at once, in all and for one key, so that visitors of one site leave room for others.
type Seats struct {
	mu    sync.Mutex
	most  int
	taken int
	by    map[string]int
}

// NewSeats makes so many seats. One key gets at most half of them.
func NewSeats(most int) *Seats { return &Seats{most: most, by: map[string]int{}} }

// Take reports whether there was a seat. Leave gives it back.
func (s *Seats) Take(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken >= s.most || s.by[key] >= max(1, s.most/2) {
		return false
	}
	s.taken++
	s.by[key]++
	return true
}

// Leave gives a seat back that Take gave.
func (s *Seats) Leave(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	if s.by[key]--; s.by[key] == 0 {
		delete(s.by, key)
	}
}

// Taken returns how many seats are taken.
func (s *Seats) Taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken
}
