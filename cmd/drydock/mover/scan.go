//go:build linux

package mover

import (
	"context"
	"sort"
	"sync"

	"golang.org/x/sys/unix"
)

// tree is what a scan saw.
type tree struct {
	top    *dir
	dirs   []*dir           // parents before their children
	groups map[inode]*group // two or more names of the tree share the inode
	nested []string         // directories that are subvolumes
	sparse map[*entry]int64 // data of big files that have holes
}

// scanner walks one tree. Everything but the fixed fields is guarded by mu.
type scanner struct {
	root     *root
	meter    *meter
	problems *problems
	trusted  bool // this process is shown trusted.* attributes

	mu   sync.Mutex
	tree *tree
}

// scan reads the whole tree without following links or leaving its mount.
func scan(ctx context.Context, r *root, workers int, m *meter, p *problems) (*tree, error) {
	top := &dir{self: &entry{meta: r.self}}
	s := &scanner{root: r, meter: m, problems: p, trusted: seesTrusted(), tree: &tree{top: top, groups: map[inode]*group{}, sparse: map[*entry]int64{}}}
	err := runPool(ctx, workers, func(p *pool) { p.add(s.visit(p, top)) })
	if err != nil {
		return nil, err
	}
	s.tree.list(top)
	s.tree.settleGroups()
	sort.Strings(s.tree.nested)
	return s.tree, nil
}

// visit reads a directory and adds the visits of its subdirectories.
func (s *scanner) visit(p *pool, d *dir) task {
	return func(ctx context.Context) error {
		err := s.read(ctx, d)
		for i := range d.entries {
			if sub := d.entries[i].sub; sub != nil {
				p.add(s.visit(p, sub))
			}
		}
		return s.problems.tolerate(err)
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
	d.entries = make([]entry, 0, len(names)) // never grows, so that pointers into it stay good
	for i, n := range names {
		if i%1024 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		skip, err := s.skipLostFound(d, fd, n.name)
		if err := s.problems.tolerate(err); err != nil {
			return err
		}
		if skip {
			continue
		}
		if err := s.problems.tolerate(s.look(d, fd, n.name)); err != nil {
			return err
		}
	}
	return nil
}

// open opens a directory of the mount. To open is what mounts an NFS child export.
func (s *scanner) open(d *dir) (int, error) {
	fd, err := s.root.open(d)
	if err != nil {
		return -1, err
	}
	st, err := sight(fd, "")
	if err == nil && s.root.isElsewhere(&st) {
		err = errMountHere
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// look adds a name to the entries of a directory.
func (s *scanner) look(d *dir, fd int, name string) error {
	st, err := sight(fd, name)
	if err == nil && s.root.isElsewhere(&st) {
		err = errMountHere
	}
	if err == nil {
		err = st.uncopyable()
	}
	if err != nil {
		return &fault{s.root.side, "looking at", d.join(name), err}
	}
	d.entries = append(d.entries, entry{name: name, meta: metaOf(&st.Stat_t)})
	s.note(d, len(d.entries)-1, &st.Stat_t)
	return nil
}

// note counts an entry and remembers what is more than its stat.
func (s *scanner) note(d *dir, i int, st *unix.Stat_t) {
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
		s.problems.warn("the source has whiteouts of an overlay, so directories may be marked opaque by trusted.* attributes; " +
			"they are not copied, since only a process with CAP_SYS_ADMIN is shown them")
	}
	if data := dataBytes(st); e.meta.isRegular() && e.meta.size >= patchLeast && data < e.meta.size {
		s.mu.Lock()
		s.tree.sparse[e] = data
		s.mu.Unlock()
	}
	s.meter.filesTotal.Add(1)
	if e.meta.nlink == 1 || !s.isAnotherName(d, i) {
		s.meter.bytesTotal.Add(dataBytes(st))
	}
}

// isAnotherName puts an entry in its group and says whether the group was known.
func (s *scanner) isAnotherName(d *dir, i int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := d.entries[i].meta.inode()
	g := s.tree.groups[id]
	if g == nil {
		g = &group{}
		s.tree.groups[id] = g
	}
	g.members = append(g.members, member{d, i})
	return len(g.members) > 1
}

// data estimates how much of a regular file is not hole. It is exact enough for big files only.
func (t *tree) data(e *entry) int64 {
	if data, known := t.sparse[e]; known {
		return data
	}
	return e.meta.size
}

// list puts the directories in an order in which parents come first.
func (t *tree) list(top *dir) {
	t.dirs = append(t.dirs, top)
	for i := 0; i < len(t.dirs); i++ {
		for k := range t.dirs[i].entries {
			if sub := t.dirs[i].entries[k].sub; sub != nil {
				t.dirs = append(t.dirs, sub)
			}
		}
	}
}
