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
	dirs   []*dir            // parents before their children
	groups map[uint64]*group // by inode: two or more names of the tree share it
	mounts []string          // directories that were not entered
	// foreign are single files on which a file of another file system is mounted. They are copied like others, but have
	// other inode numbers. Hardly ever any.
	foreign map[*entry]bool
}

// scanner walks one tree. Everything but the fixed fields is guarded by mu.
type scanner struct {
	root     *root
	meter    *meter
	problems *problems

	mu   sync.Mutex
	tree *tree
}

// scan reads the whole tree without following links or leaving its file system.
func scan(ctx context.Context, r *root, workers int, m *meter, p *problems) (*tree, error) {
	top := &dir{self: &entry{meta: r.self}}
	s := &scanner{root: r, meter: m, problems: p, tree: &tree{top: top, groups: map[uint64]*group{}, foreign: map[*entry]bool{}}}
	err := runPool(ctx, workers, func(p *pool) { p.add(s.visit(p, top)) })
	if err != nil {
		return nil, err
	}
	s.tree.list(top)
	s.tree.settleGroups()
	sort.Strings(s.tree.mounts)
	return s.tree, nil
}

// visit reads a directory and adds the visits of its subdirectories.
func (s *scanner) visit(p *pool, d *dir) task {
	return func(context.Context) error {
		err := s.read(d)
		for i := range d.entries {
			if sub := d.entries[i].sub; sub != nil && !sub.mount {
				p.add(s.visit(p, sub))
			}
		}
		return s.problems.tolerate(err)
	}
}

func (s *scanner) read(d *dir) error {
	fd, err := s.root.open(d)
	if err != nil {
		return &fault{s.root.side, "opening the directory", d.path(), err}
	}
	defer unix.Close(fd)
	names, err := readdir(fd)
	if err != nil {
		return &fault{s.root.side, "reading the directory", d.path(), err}
	}
	d.entries = make([]entry, 0, len(names)) // never grows, so that pointers into it stay good
	for _, n := range names {
		if d.isLostFound(n.name) {
			continue
		}
		st, err := lstatat(fd, n.name)
		if err != nil {
			if err := s.problems.tolerate(&fault{s.root.side, "looking at", d.join(n.name), err}); err != nil {
				return err
			}
			continue
		}
		d.entries = append(d.entries, entry{name: n.name, meta: metaOf(&st)})
		s.note(d, len(d.entries)-1, &st)
	}
	return nil
}

// note counts an entry and remembers what is more than its stat.
func (s *scanner) note(d *dir, i int, st *unix.Stat_t) {
	e := &d.entries[i]
	elsewhere := st.Dev != s.root.dev
	if e.meta.isDir() {
		e.sub = &dir{parent: d, self: e, mount: elsewhere}
		if elsewhere {
			s.mu.Lock()
			s.tree.mounts = append(s.tree.mounts, d.join(e.name))
			s.mu.Unlock()
		}
		return
	}
	s.meter.filesTotal.Add(1)
	if elsewhere {
		s.mu.Lock()
		s.tree.foreign[e] = true
		s.mu.Unlock()
	}
	if elsewhere || e.meta.nlink == 1 || !s.isAnotherName(d, i) {
		s.meter.bytesTotal.Add(dataBytes(st))
	}
}

// isAnotherName puts an entry in its group and says whether the group was known.
func (s *scanner) isAnotherName(d *dir, i int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ino := d.entries[i].meta.ino
	g := s.tree.groups[ino]
	if g == nil {
		g = &group{}
		s.tree.groups[ino] = g
	}
	g.members = append(g.members, member{d, i})
	return len(g.members) > 1
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
