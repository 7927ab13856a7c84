//go:build linux

package tree

import (
	"cmp"
	"context"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fault"
	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/cmd/drydock/mover/pool"
	"drydock.dev/cmd/drydock/mover/progress"
)

// scanner walks one tree. mu guards only the tree.
type scanner struct {
	root     *fsys.Root
	meter    *progress.Meter
	problems *fault.Problems
	trusted  bool // this process can list trusted.* attributes

	mu   sync.Mutex
	tree *Tree
}

// Scan reads the whole tree. It follows no links and does not leave the mount.
func Scan(ctx context.Context, r *fsys.Root, workers int, m *progress.Meter, p *fault.Problems) (*Tree, error) {
	top := &Dir{Self: &Entry{Meta: r.Self}}
	s := &scanner{root: r, meter: m, problems: p, trusted: fault.SeesTrusted()}
	s.tree = &Tree{Top: top, Groups: map[fsys.Inode]*Group{}, sparse: map[fsys.Inode]int64{}, Newest: r.Self.Ctime()}
	err := pool.Run(ctx, workers, func(p *pool.Pool) { p.Add(s.visit(p, top)) })
	if err != nil {
		return nil, err
	}
	s.tree.orderDirs(top)
	s.tree.sortGroups()
	sort.Strings(s.tree.Nested)
	return s.tree, nil
}

// visit reads a directory and adds tasks for its subdirectories.
func (s *scanner) visit(p *pool.Pool, d *Dir) pool.Task {
	return func(ctx context.Context) error { return s.collect(d, s.read(ctx, p, d)) }
}

// collect collects the error of a directory or of one of its names, which the tree then lacks.
func (s *scanner) collect(d *Dir, err error) error {
	if err != nil {
		d.Unread.Store(true)
	}
	return s.problems.Collect(err)
}

// PieceNames is the number of names of a large directory that one worker reads at once.
const PieceNames = 32 * BlockEntries

// read reads a directory. Other workers read pieces of a large one.
func (s *scanner) read(ctx context.Context, p *pool.Pool, d *Dir) error {
	fd, err := s.open(d)
	if err != nil {
		return fault.New(s.root.Side, "opening the directory", d.Path(), err)
	}
	d.Flags = s.root.FlagsOf(fd)
	names, err := fsys.Readdir(fd)
	if err != nil {
		unix.Close(fd)
		return fault.New(s.root.Side, "reading the directory", d.Path(), err)
	}
	pieces := max(1, (names.Len()+PieceNames-1)/PieceNames)
	w := &wide{dir: d, fd: fd, names: names, pieces: make([][]Block, pieces)}
	w.pending.Store(int32(pieces))
	w.users.Store(int32(pieces))
	for i := pieces - 1; i > 0; i-- {
		p.Add(func(ctx context.Context) error { return s.collect(d, s.readPiece(ctx, p, w, i)) })
	}
	return s.readPiece(ctx, p, w, 0)
}

// wide is a directory that is being read in pieces.
type wide struct {
	dir     *Dir
	fd      int // shared by the pieces: a directory of millions of names has thousands of them
	names   fsys.NameList
	pieces  [][]Block
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
func (s *scanner) readPiece(ctx context.Context, p *pool.Pool, w *wide, piece int) error {
	defer w.release()
	var packed packer
	lo := piece * PieceNames
	for i := lo; i < min(lo+PieceNames, w.names.Len()); i++ {
		if i%1024 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		skip, err := s.skipLostFound(w.dir, w.fd, w.names, i)
		if err := s.collect(w.dir, err); err != nil {
			return err
		}
		if skip {
			continue
		}
		if err := s.collect(w.dir, s.addEntry(&packed, w.dir, w.fd, w.names, i)); err != nil {
			return err
		}
	}
	packed.finish()
	w.pieces[piece] = packed.blocks
	s.note(&packed)
	s.meter.FilesTotal.Add(packed.files)
	s.meter.BytesTotal.Add(packed.bytes)
	if w.pending.Add(-1) == 0 {
		w.dir.Blocks = slices.Concat(w.pieces...)
		for sub := range w.dir.Subs() {
			p.Add(s.visit(p, sub))
		}
	}
	return nil
}

// open opens a directory of the mount. Opening a directory mounts an NFS child export.
func (s *scanner) open(d *Dir) (int, error) {
	fd, err := s.root.Open(d.Path())
	if err != nil {
		return -1, err
	}
	st, err := fsys.StatEntry(fd, "")
	if err == nil && s.root.IsElsewhere(&st) {
		err = fault.ErrMountHere
	}
	if m := fsys.MetaOf(&st.Stat_t); err == nil && m.Inode() == s.root.Other {
		err = fault.ErrNotSeparate
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

// UncopyableReason returns why an entry cannot be copied, or nil.
func (s *scanner) uncopyableReason(st *fsys.FileStat) error {
	return cmp.Or(st.UncopyableReason(), s.root.Unknown.CheckOwner(&st.Stat_t))
}

// addEntry adds a name to the entries of a directory.
func (s *scanner) addEntry(p *packer, d *Dir, fd int, names fsys.NameList, i int) error {
	var x unix.Statx_t
	err := fsys.StatTerminated(fd, names.Pointer(i), &x)
	st := fsys.FileStatOf(&x)
	if err == nil && s.root.IsElsewhere(&st) {
		err = fault.ErrMountHere
	}
	if err == nil {
		err = s.uncopyableReason(&st)
	}
	name := names.At(i).Name
	if err != nil {
		return fault.New(s.root.Side, "looking at", d.Join(name), err)
	}
	m := fsys.MetaOf(&st.Stat_t)
	p.newest = fsys.Latest(p.newest, m.Ctime())
	if m.IsDir() {
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
	s.tree.Newest = fsys.Latest(s.tree.Newest, p.newest)
	s.tree.HasBig = s.tree.HasBig || p.hasBig
}

func (s *scanner) newDir(parent *Dir, name string, m fsys.Meta) *Dir {
	sub := &Dir{Parent: parent, Depth: parent.Depth + 1, Self: &Entry{Name: strings.Clone(name), Meta: m}}
	sub.Self.Sub = sub
	if m.Dev != parent.Self.Meta.Dev {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tree.Nested = append(s.tree.Nested, sub.Path())
	}
	return sub
}

// countFile counts an entry and stores properties that its stat does not contain.
func (s *scanner) countFile(p *packer, d *Dir, name string, m *fsys.Meta, st *unix.Stat_t) {
	if m.Kind() == unix.S_IFCHR && st.Rdev == 0 && !s.trusted {
		s.problems.Warn("the source has whiteouts of an overlay, so trusted.* attributes may mark directories as opaque. " +
			"They are not copied, because only a process with CAP_SYS_ADMIN can list them")
	}
	data := fsys.DataBytes(st)
	p.hasBig = p.hasBig || m.IsRegular() && m.Size >= BigFileMin
	if m.IsRegular() && m.Size >= BigFileMin && data < m.Size {
		s.mu.Lock()
		s.tree.sparse[m.Inode()] = data
		s.mu.Unlock()
	}
	p.files++
	if m.Nlink == 1 || !s.isAnotherName(d, name, m) {
		p.bytes += data
	}
}

// isAnotherName adds an entry to its group and reports whether the group already had a name.
func (s *scanner) isAnotherName(d *Dir, name string, m *fsys.Meta) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.tree.Groups[m.Inode()]
	if g == nil {
		g = &Group{}
		s.tree.Groups[m.Inode()] = g
	}
	g.Names = append(g.Names, LinkName{d, strings.Clone(name)})
	return len(g.Names) > 1
}

// LostFound is created by mkfs in the root of some file systems. fsck puts files there that have lost their names.
const LostFound = "lost+found"

// lostFoundState classifies the lost+found in a root.
type lostFoundState int

const (
	LostFoundOrdinary   lostFoundState = iota // it belongs to the data, or does not exist
	lostFoundUnused                           // created by mkfs, and empty: it belongs to the file system
	lostFoundUnreadable                       // created by mkfs and apparently empty, but this process may not read it
)

// LostFoundIn classifies the lost+found of an open root directory.
func LostFoundIn(root int) (lostFoundState, error) {
	st, err := fsys.StatEntry(root, LostFound)
	if err == unix.ENOENT {
		return LostFoundOrdinary, nil
	}
	if err != nil {
		return LostFoundOrdinary, err
	}
	if !IsMadeByMkfs(&st) {
		return LostFoundOrdinary, nil
	}
	fd, err := fsys.Openat(root, LostFound, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err == unix.EACCES || err == unix.EPERM {
		if looksUsed(root, &st) {
			return LostFoundOrdinary, nil
		}
		return lostFoundUnreadable, nil
	}
	if err != nil {
		return LostFoundOrdinary, err
	}
	defer unix.Close(fd)
	names, err := fsys.Readdir(fd)
	if err != nil || names.Len() > 0 {
		return LostFoundOrdinary, err
	}
	return lostFoundUnused, nil
}

// firstInode is the inode number of lost+found on every ext file system, because mkfs creates it first.
const firstInode = 11

// IsMadeByMkfs reports whether mkfs created a lost+found. On ext the inode number proves it, even after a chown. On
// other file systems owner and mode decide. The platform may have added a group with all rights.
func IsMadeByMkfs(st *fsys.FileStat) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFDIR && (st.Ino == firstInode || st.Uid == 0 && st.Mode&0o007 == 0)
}

// looksUsed reports whether the stat of a directory that cannot be read shows that something was put into it.
func looksUsed(root int, st *fsys.FileStat) bool {
	if st.Nlink > 2 {
		return true
	}
	var x unix.Statx_t
	err := fsys.IgnoringEINTR(func() error { return unix.Statx(root, LostFound, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &x) })
	born := unix.Timespec{Sec: x.Btime.Sec, Nsec: int64(x.Btime.Nsec)}
	return err == nil && x.Mask&unix.STATX_BTIME != 0 && born != st.Mtim
}

// skipLostFound reports whether the scan leaves a name out of the source's root.
func (s *scanner) skipLostFound(d *Dir, fd int, names fsys.NameList, i int) (bool, error) {
	if d.Parent != nil || !d.IsLostFound(names.At(i).Name) {
		return false, nil
	}
	state, err := LostFoundIn(fd)
	if err != nil {
		return false, fault.New(s.root.Side, "looking at", LostFound, err)
	}
	if state == lostFoundUnreadable {
		s.problems.Warn("this process may not read lost+found of the %s. If fsck has put files there, they are not copied. "+
			"Only a root mover can check that", s.root.Side)
	}
	return state != LostFoundOrdinary, nil
}

// IsLostFound reports whether a name in d may belong to the file system.
func (d *Dir) IsLostFound(name string) bool { return d.Parent == nil && name == LostFound }
