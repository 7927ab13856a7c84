//go:build linux

package mover

import (
	"cmp"
	"context"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"

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
	s.tree = &tree{top: top, groups: map[inode]*group{}, sparse: map[inode]int64{}, newest: r.self.ctime()}
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
	return func(ctx context.Context) error { return s.problems.collect(s.read(ctx, p, d)) }
}

// pieceNames is the number of names of a large directory that one worker reads at once.
const pieceNames = 32 * blockEntries

// read reads a directory. Other workers read pieces of a large one.
func (s *scanner) read(ctx context.Context, p *pool, d *dir) error {
	fd, err := s.open(d)
	if err != nil {
		return newFault(s.root.side, "opening the directory", d.path(), err)
	}
	d.flags = s.root.flagsOf(fd)
	names, err := readdir(fd)
	if err != nil {
		unix.Close(fd)
		return newFault(s.root.side, "reading the directory", d.path(), err)
	}
	pieces := max(1, (names.len()+pieceNames-1)/pieceNames)
	w := &wide{dir: d, fd: fd, names: names, pieces: make([][]block, pieces)}
	w.pending.Store(int32(pieces))
	w.users.Store(int32(pieces))
	for i := pieces - 1; i > 0; i-- {
		p.add(func(ctx context.Context) error { return s.problems.collect(s.readPiece(ctx, p, w, i)) })
	}
	return s.readPiece(ctx, p, w, 0)
}

// wide is a directory that is being read in pieces.
type wide struct {
	dir     *dir
	fd      int // shared by the pieces: a directory of millions of names has thousands of them
	names   nameList
	pieces  [][]block
	pending atomic.Int32 // pieces that are not complete
	users   atomic.Int32 // pieces that may still use the descriptor
}

// release ends the use of the descriptor by a piece.
func (w *wide) release() {
	if w.users.Add(-1) == 0 {
		unix.Close(w.fd)
	}
}

// readPiece reads a piece of a directory. The last piece to end completes the directory.
func (s *scanner) readPiece(ctx context.Context, p *pool, w *wide, piece int) error {
	defer w.release()
	var packed packer
	lo := piece * pieceNames
	for i := lo; i < min(lo+pieceNames, w.names.len()); i++ {
		if i%1024 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		skip, err := s.skipLostFound(w.dir, w.fd, w.names, i)
		if err := s.problems.collect(err); err != nil {
			return err
		}
		if skip {
			continue
		}
		if err := s.problems.collect(s.addEntry(&packed, w.dir, w.fd, w.names, i)); err != nil {
			return err
		}
	}
	packed.finish()
	w.pieces[piece] = packed.blocks
	s.note(&packed)
	s.meter.filesTotal.Add(packed.files)
	s.meter.bytesTotal.Add(packed.bytes)
	if w.pending.Add(-1) == 0 {
		w.dir.blocks = slices.Concat(w.pieces...)
		for sub := range w.dir.subs() {
			p.add(s.visit(p, sub))
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
	if err == nil { // for the root, which is an entry of no directory
		err = s.uncopyableReason(&st)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// uncopyableReason returns why an entry cannot be copied, or nil.
func (s *scanner) uncopyableReason(st *fileStat) error {
	return cmp.Or(st.uncopyableReason(), s.root.unknown.checkOwner(&st.Stat_t))
}

// addEntry adds a name to the entries of a directory.
func (s *scanner) addEntry(p *packer, d *dir, fd int, names nameList, i int) error {
	var x unix.Statx_t
	err := statTerminated(fd, names.pointer(i), &x)
	st := fileStatOf(&x)
	if err == nil && s.root.isElsewhere(&st) {
		err = errMountHere
	}
	if err == nil {
		err = s.uncopyableReason(&st)
	}
	name := names.at(i).name
	if err != nil {
		return newFault(s.root.side, "looking at", d.join(name), err)
	}
	m := metaOf(&st.Stat_t)
	p.newest = latest(p.newest, m.ctime())
	if m.isDir() {
		p.add(name, &m, s.newDir(d, name, m))
		return nil
	}
	s.countFile(p, d, name, &m, &st.Stat_t)
	p.add(name, &m, nil)
	return nil
}

// note adds a piece of a directory to the properties of the tree.
func (s *scanner) note(p *packer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tree.newest = latest(s.tree.newest, p.newest)
	s.tree.hasBig = s.tree.hasBig || p.hasBig
}

func (s *scanner) newDir(parent *dir, name string, m meta) *dir {
	sub := &dir{parent: parent, depth: parent.depth + 1, self: &entry{name: strings.Clone(name), meta: m}}
	sub.self.sub = sub
	if m.dev != parent.self.meta.dev {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tree.nested = append(s.tree.nested, sub.path())
	}
	return sub
}

// countFile counts an entry and stores properties that its stat does not contain.
func (s *scanner) countFile(p *packer, d *dir, name string, m *meta, st *unix.Stat_t) {
	if m.kind() == unix.S_IFCHR && st.Rdev == 0 && !s.trusted {
		s.problems.warn("the source has whiteouts of an overlay, so trusted.* attributes may mark directories as opaque. " +
			"They are not copied, because only a process with CAP_SYS_ADMIN can list them")
	}
	data := dataBytes(st)
	p.hasBig = p.hasBig || m.isRegular() && m.size >= bigFileMin
	if m.isRegular() && m.size >= bigFileMin && data < m.size {
		s.mu.Lock()
		s.tree.sparse[m.inode()] = data
		s.mu.Unlock()
	}
	p.files++
	if m.nlink == 1 || !s.isAnotherName(d, name, m) {
		p.bytes += data
	}
}

// isAnotherName adds an entry to its group and reports whether the group already had a name.
func (s *scanner) isAnotherName(d *dir, name string, m *meta) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.tree.groups[m.inode()]
	if g == nil {
		g = &group{}
		s.tree.groups[m.inode()] = g
	}
	g.names = append(g.names, linkName{d, strings.Clone(name)})
	return len(g.names) > 1
}
