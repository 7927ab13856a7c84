//go:build linux

package mover

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// tempPrefix begins the names of incomplete files. A killed run leaves some of them behind. The next run deletes them,
// like all names that the source does not have. The source may contain such names, too.
const tempPrefix = ".drydock-copy-"

// makeTemp calls create with temporary names until a name is free in the target. It skips names that occur in the
// source's directory d.
func (o *owner) makeTemp(d *dir, create func(name string) error) (string, error) {
	for {
		name := tempPrefix + strconv.FormatUint(o.temps.Add(1), 36)
		if d.find(name) != nil {
			continue
		}
		err := ignoringEINTR(func() error { return create(name) })
		if err == unix.EEXIST {
			continue
		}
		return name, err
	}
}

// makeEntry calls create with a temporary name or, in a fresh directory, with the entry's own name: it cannot replace
// anything there. An entry that a killed run left there is recognized by its time, which is set last.
func (o *owner) makeEntry(d *dir, e *entry, create func(name string) error) (string, error) {
	if err := o.checkOwned(); err != nil {
		return "", err
	}
	if d.fresh {
		if err := ignoringEINTR(func() error { return create(e.name) }); err != unix.EEXIST {
			return e.name, err
		}
	}
	return o.makeTemp(d, create)
}

// install renames a complete file to its final name in one step, unless it already has that name.
func (o *owner) install(at int, tmp string, d *dir, name string) error {
	if tmp == name {
		return nil
	}
	if err := o.checkOwned(); err != nil {
		o.discard(at, tmp)
		return err
	}
	err := ignoringEINTR(func() error { return unix.Renameat(at, tmp, at, name) })
	if err != nil {
		o.discard(at, tmp)
		return newFault(target, "renaming to", d.join(name), err)
	}
	return nil
}

// discard removes a file that will not be completed. If this fails, the next run removes it. In a fresh directory the file has its final
// name, which may be the name of a live file if the target is no longer owned.
func (o *owner) discard(at int, tmp string) {
	if strings.HasPrefix(tmp, tempPrefix) || o.checkOwned() == nil {
		_ = unix.Unlinkat(at, tmp, 0)
	}
}
