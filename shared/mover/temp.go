package mover

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// tempPrefix begins the names of files that are not complete yet. A killed run leaves some behind; the next run deletes
// them, as it does everything that the source does not have. A source may well have such names itself.
const tempPrefix = ".drydock-copy-"

// makeTemp calls create with temporary names until one is free, in the target and, for good, in the source's directory d.
func (c *copier) makeTemp(d *dir, create func(name string) error) (string, error) {
	for {
		name := tempPrefix + strconv.FormatUint(c.temps.Add(1), 36)
		if d.find(name) != nil {
			continue
		}
		err := againErr(func() error { return create(name) })
		if err == unix.EEXIST {
			continue
		}
		return name, err
	}
}

// install gives a complete file its name, in one step.
func (c *copier) install(at int, tmp string, d *dir, e *entry) error {
	err := againErr(func() error { return unix.Renameat(at, tmp, at, e.name) })
	if err != nil {
		c.discard(at, tmp)
		return &fault{target, "renaming to", d.join(e.name), err}
	}
	return nil
}

// discard removes a file that will not be completed. If that fails too, the next run does it.
func (c *copier) discard(at int, tmp string) { _ = unix.Unlinkat(at, tmp, 0) }
