//go:build linux

package mover

import (
	"context"
	"sort"
	"sync"

	"golang.org/x/sys/unix"
)

// scanner walks one tree. mu guards only the tree.
type scanner struct {
	root     *root
	meter    *meter
	problems *problems
	trusted  bool // this process can list trusted.* attributes

	mu   sync.Mutex
	tree *tree
}

// scan reads the whole tree. It follows no links and does not leave the mount.
func scan(ctx context.Context, r *root, workers int, m *meter, p *problems) (*tree, error) {
	top := &dir{self: &entry{meta: r.self}}
	s := &scanner{root: r, meter: m, problems: p, trusted: seesTrusted()}
	s.tree = &tree{top: top, groups: map[inode]*group{}, sparse: map[*entry]int64{}}
	err := runPool(ctx, workers, func(p *pool) { p.add(s.visit(p, top)) })
	if err != nil {
		return nil, err
	}
	s.tree.orderDirs(top)
	s.tree.sortGroups()
	sort.Strings(s.tree.nested)
	return s.tree, nil
}

// visit reads a directory and adds tasks for its subdirectories.
func (s *scanner) visit(p *pool, d *dir) task {
	return func(ctx context.Context) error {
		err := s.read(ctx, d)
		for i := range d.entries {
			if sub := d.entries[i].sub; sub != nil {
				p.add(s.visit(p, sub))
			}
		}
		return s.problems.collect(err)
	}
}

func (s *scanner) read(ctx context.Context, d *dir) error {
	fd, err := s.open(d)
	if err != nil {
		return &fault{s.root.side, "opening the directory", d.path(), err}
	}
	defer unix.Close(fd)
	d.flags = s.root.flagsOf(fd)
	names, err := readdir(fd)
	if err != nil {
		return &fault{s.root.side, "reading the directory", d.path(), err}
	}
	d.entries = make([]entry, 0, len(names)) // never grows, so pointers into it stay valid
	for i, n := range names {
		if i%1024 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		skip, err := s.skipLostFound(d, fd, n.name)
		if err := s.problems.collect(err); err != nil {
			return err
		}
		if skip {
			continue
		}
		if err := s.problems.collect(s.addEntry(d, fd, n.name)); err != nil {
			return err
		}
	}
	return nil
}

// open opens a directory of the mount. Opening a directory mounts an NFS child export.
func (s *scanner) open(d *dir) (int, error) {
	fd, err := s.root.open(d)
	if err != nil {
		return -1, err
	}
	st, err := statEntry(fd, "")
	if err == nil && s.root.isElsewhere(&st) {
		err = errMountHere
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// addEntry adds a name to the entries of a directory.
func (s *scanner) addEntry(d *dir, fd int, name string) error {
	st, err := statEntry(fd, name)
	if err == nil && s.root.isElsewhere(&st) {
		err = errMountHere
	}
	if err == nil {
		err = st.uncopyableReason()
	}
	if err != nil {
		return &fault{s.root.side, "looking at", d.join(name), err}
	}
	d.entries = append(d.entries, entry{name: name, meta: metaOf(&st.Stat_t)})
	s.countEntry(d, len(d.entries)-1, &st.Stat_t)
	return nil
}

// countEntry counts an entry and stores properties that its stat does not contain.
func (s *scanner) countEntry(d *dir, i int, st *unix.Stat_t) {
	e := &d.entries[i]
	if e.meta.isDir() {
		e.sub = &dir{parent: d, self: e}
		if e.meta.dev != d.self.meta.dev {
			s.mu.Lock()
			s.tree.nested = append(s.tree.nested, d.join(e.name))
			s.mu.Unlock()
		}
		return
	}
	if st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0 && !s.trusted {
		s.problems.warn("the source has whiteouts of an overlay, so trusted.* attributes may mark directories as opaque. " +
			"They are not copied, because only a process with CAP_SYS_ADMIN can list them")
	}
	if data := dataBytes(st); e.meta.isRegular() && e.meta.size >= bigFileMin && data < e.meta.size {
		s.mu.Lock()
		s.tree.sparse[e] = data
		s.mu.Unlock()
	}
	s.meter.filesTotal.Add(1)
	if e.meta.nlink == 1 || !s.isAnotherName(d, i) {
		s.meter.bytesTotal.Add(dataBytes(st))
	}
}

// isAnotherName adds an entry to its group and reports whether the group already had a name.
func (s *scanner) isAnotherName(d *dir, i int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := d.entries[i].meta.inode()
	g := s.tree.groups[id]
	if g == nil {
		g = &group{}
		s.tree.groups[id] = g
	}
	g.names = append(g.names, linkName{d, i})
	return len(g.names) > 1
}
