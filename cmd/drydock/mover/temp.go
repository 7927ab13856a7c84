//go:build linux

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

// makeEntry calls create with a temporary name or, in a fresh directory, the entry's own: there is nothing that it could
// replace. What a killed run leaves there is known by its time, which is set last.
func (c *copier) makeEntry(d *dir, e *entry, create func(name string) error) (string, error) {
	if d.fresh {
		if err := againErr(func() error { return create(e.name) }); err != unix.EEXIST {
			return e.name, err
		}
	}
	return c.makeTemp(d, create)
}

// install gives a complete file its name, in one step, unless it has it.
func (c *copier) install(at int, tmp string, d *dir, e *entry) error {
	if tmp == e.name {
		return nil
	}
	err := againErr(func() error { return unix.Renameat(at, tmp, at, e.name) })
	if err != nil {
		c.discard(at, tmp)
		return &fault{target, "renaming to", d.join(e.name), err}
	}
	return nil
}

// discard removes a file that will not be completed. If that fails too, the next run does it.
func (c *copier) discard(at int, tmp string) { _ = unix.Unlinkat(at, tmp, 0) }
