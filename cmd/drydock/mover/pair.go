//go:build linux

package mover

import "golang.org/x/sys/unix"

// pair is a directory that is open on both sides.
type pair struct {
	dir      *dir
	src, dst int
}

func (c *copier) openPair(d *dir) (pair, error) {
	src, err := c.src.open(d)
	if err != nil {
		return pair{}, &fault{source, "opening the directory", d.path(), err}
	}
	dst, err := c.dst.open(d)
	if err != nil {
		unix.Close(src)
		return pair{}, &fault{target, "opening the directory", d.path(), err}
	}
	return pair{d, src, dst}, nil
}

func (p pair) close() {
	unix.Close(p.src)
	unix.Close(p.dst)
}

// fault returns an error with an entry of the pair.
func (p pair) fault(s side, op string, e *entry, err error) error {
	return &fault{s, op, p.dir.join(e.name), err}
}
