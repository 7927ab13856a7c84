package mover

import (
	"sync"
)

// shown is how many problems of a kind are named; the others are counted.
const shown = 5

// problems collects the faults that do not end the run at once. Its zero value is ready; it may be used concurrently.
type problems struct {
	mu    sync.Mutex
	count [kinds]int
	first [kinds][]string
}

// tolerate returns nil for an error that is collected, and any other error as it is.
func (p *problems) tolerate(err error) error {
	if err == nil {
		return nil
	}
	k := kindOf(err)
	if !k.collected() {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count[k]++
	if len(p.first[k]) < shown {
		p.first[k] = append(p.first[k], err.Error())
	}
	return nil
}

// err is nil if nothing was collected. A changed source comes first, since everything else may follow from it.
func (p *problems) err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range []kind{kindChanged, kindDenied, kindDiffers} {
		if p.count[k] > 0 {
			return newError(k, p.count[k], p.first[k])
		}
	}
	return nil
}
