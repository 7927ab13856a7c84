//go:build linux

package mover

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"sort"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// verify reads both trees, compares them and collects the differences.
func (c *copier) verify(ctx context.Context) error {
	s := c.newHasher()
	if err := s.run(ctx, c.workers); err != nil {
		return err
	}
	if err := c.problems.collect(c.verifyRoot()); err != nil {
		return err
	}
	if err := c.problems.err(); err != nil {
		return err
	}
	a, b := s.digest(source), s.digest(target)
	if a != b { // impossible unless the comparison is broken
		return &fault{target, "comparing", "", mismatch("its digest is " + b + ", not " + a)}
	}
	c.digest = a
	return nil
}

// confirm verifies a first pass with the verifier of the final pass, so that it fails before the stop for what would fail that pass. The
// source is in use, which makes three differences:
//
//   - A change of the source since the scan is no error.
//   - Contents are compared only where a difference proves that the target is wrong, see comparesContents.
//   - Entries that the pass could not read are not compared, see noteChange.
//
// Equal files are recorded.
func (c *copier) confirm(ctx context.Context) error {
	if st, err := fstat(c.src.fd); err == nil && metaOf(&st) == c.tree.top.self.meta && !c.tree.top.unread.Load() {
		if err := c.problems.collect(c.verifyRoot()); err != nil { // before the record writer changes the time of the root
			return err
		}
	}
	s := c.newHasher()
	s.first = c
	return s.run(ctx, c.workers)
}

// comparesContents reports whether a verification compares the contents of an entry. A first pass compares settled files. Where change
// times are not trusted, the source may have changed without a trace, so it compares the target with the copied bytes, if their hash is
// kept.
func (s *treeHasher) comparesContents(d *dir, e *entry) bool {
	if s.first == nil {
		return true
	}
	if s.first.twoPass.current == nil {
		_, known := e.copiedSum()
		return known
	}
	return s.first.isRecordable(d, e)
}

// isRecordable reports whether a first pass may record an entry. Of several names of an inode, it records only one.
func (c *copier) isRecordable(d *dir, e *entry) bool {
	if c.twoPass.current == nil || !c.isSettled(e) {
		return false
	}
	g := c.tree.groupOf(e)
	return g == nil || g.isLeader(d, e)
}

// confirmKnown takes a file over from an earlier record, after one stat of the target. It returns false if that is not
// possible.
func (c *copier) confirmKnown(d *dir, e *entry, fds []int, seen *trustedFiles) bool {
	if c.twoPass.earlier == nil || e.meta.nlink != 1 || !c.isRecordable(d, e) {
		return false
	}
	have, err := statIn(fds[target], e)
	if err != nil {
		return false
	}
	k, ok := c.verified(e, have.meta)
	if !ok || !k.plain || !sameAttributes(&e.meta, &have.meta) || have.meta.nlink != 1 {
		return false
	}
	if c.hooks.confirmed != nil {
		c.hooks.confirmed(d.join(e.name))
	}
	c.twoPass.current.add(recordedFile(&e.meta, &have.meta, k.content, true), have.data)
	seen.files++
	seen.bytes += have.data
	return true
}

// confirmEqual records a file whose sides are equal.
func (c *copier) confirmEqual(d *dir, e *entry, both *[2]snapshot) {
	if !c.isRecordable(d, e) {
		return
	}
	if c.hooks.confirmed != nil {
		c.hooks.confirmed(d.join(e.name))
	}
	src, dst := &both[source], &both[target]
	c.twoPass.current.add(recordedFile(&e.meta, &dst.meta, src.content, len(src.attrs) == 0), src.data)
}

// alteredError returns the error for other attributes in a first pass: the source has not changed since the scan, so something alters
// them after the copy, for example the node or a server. A retry does not help.
func alteredError(path string, differences []string) error {
	return &fault{target, "keeping the attributes of", path, fmt.Errorf("%w: %s", errNotKept, strings.Join(differences, ", "))}
}

// noteChange marks the directory of an entry whose copy failed because the source changed. Such a change shows in the stat of the entry,
// so the verification does not compare the entry. The exceptions have another error: a directory that was renamed for a while, a lease, or
// a stale handle of a network file system.
func (c *copier) noteChange(d *dir, err error) {
	if c.pass == PassFirst && err != nil && (kindOf(err) == kindChanged && !errors.Is(err, errChanged) || isStale(err)) {
		d.unread.Store(true)
	}
}

// mayLack reports whether a first pass may have left out an entry of the directory, or a name of its group.
func (s *treeHasher) mayLack(d *dir, e *entry) bool {
	if s.first == nil {
		return false
	}
	if d.unread.Load() {
		return true
	}
	if e == nil {
		return false
	}
	g := s.tree.groupOf(e)
	if g == nil {
		return false
	}
	for _, m := range g.names {
		if m.dir.unread.Load() || m.dir.excluded {
			return true
		}
	}
	return false
}

// isDifference reports whether a comparison failed because the target differs.
func isDifference(err error) bool {
	return kindOf(err) == kindDiffers || errors.Is(err, errNotKept)
}

// trustedFiles counts files that were not read, because an earlier pass verified them.
type trustedFiles struct{ files, bytes int64 }

// addTo adds the counts to those of the run. Workers would wait for each other if each file did that.
func (t *trustedFiles) addTo(s *treeHasher) {
	if t.files > 0 {
		s.meter.bytes.Add(t.bytes)
		s.trusted(t.files, t.bytes)
	}
}

// readTrusted returns the record of a file that an earlier pass verified, with one stat on each side. The record is that of
// both sides. It returns false for all other entries, and for each entry with a difference: readEntry reads and reports it.
//
// Both inodes look as they did when all their attributes and contents were compared. A file without extended attributes
// then has none now, because adding one changes ctime.
func (s *treeHasher) readTrusted(fds []int, e *entry, seen *trustedFiles) (sum, bool) {
	if s.verified == nil || len(fds) < 2 || !e.meta.isRegular() || e.meta.nlink != 1 {
		return sum{}, false
	}
	have, err := statIn(fds[target], e)
	if err != nil {
		return sum{}, false
	}
	k, ok := s.verified(e, have.meta)
	if !ok || !k.plain || have.meta.nlink != 1 || !sameAttributes(&e.meta, &have.meta) {
		return sum{}, false
	}
	if !s.sourceKnown {
		if now, err := statIn(fds[source], e); err != nil || now.meta != e.meta {
			return sum{}, false
		}
	}
	seen.files++
	seen.bytes += have.data
	have.content = k.content
	return have.record(e.name), true
}

// statIn returns the attributes of an entry from a block, in an open directory.
func statIn(dirfd int, e *entry) (snapshot, error) {
	var x unix.Statx_t
	if err := statTerminated(dirfd, unsafe.StringData(e.terminated), &x); err != nil {
		return snapshot{}, err
	}
	st := fileStatOf(&x)
	return snapshot{meta: metaOf(&st.Stat_t), data: dataBytes(&st.Stat_t)}, nil
}

// newHasher returns a hasher of both sides. It does not read files that an earlier pass verified.
func (c *copier) newHasher() *treeHasher {
	s := &treeHasher{
		tree: c.tree, sides: []*root{c.src, c.dst}, meter: c.meter, problems: &c.problems,
		isOwnName: c.isOwnName, verified: c.verified, trusted: c.countTrusted, effort: &c.cost.check, limit: c.limit,
		misjudged: c.judge, invalidate: c.invalidate, lacksFlags: c.ignoredFlags, sourceKnown: c.sourceIsSettled(),
	}
	if c.twoPass.earlier != nil {
		s.expected = c.twoPass.earlier.expects
	}
	if c.pass == PassFirst && c.twoPass.id.boot != "" {
		s.keeper = &c.keeper
	}
	if c.pass == PassFinal {
		s.patched = c.completePatch
	}
	return s
}

// completePatch returns the complete patch by units of a file, if nothing has changed the target since.
func (c *copier) completePatch(e *entry, have *meta) *patchedUnits {
	if !c.isBig(e) {
		return nil
	}
	if p := c.keeper.patchOf(e.meta.inode()); p != nil && p.done && p.targetAfter == *have {
		return p
	}
	return nil
}

// countTrusted counts files that were not read.
func (c *copier) countTrusted(files, bytes int64) {
	c.trustedFiles.Add(files)
	c.trustedBytes.Add(bytes)
}

// Digest returns a SHA-256, in hex, over everything that Copy carries below dir. Two trees have the same digest exactly
// if they are copies of each other. It does not include the root directory's own attributes, lost+found in it, inode
// numbers, and access, change and birth times.
//
// A record is the SHA-256 of the following, in this order. Integers are 8 bytes, big endian. Byte strings have their
// length before them. The parts are: name; mode with the type bits, without permissions for a symbolic link; uid; gid;
// size of a regular file or a link's target, or device number, else 0; seconds and nanoseconds of mtime; link target;
// content; the number of extended attributes, and each one's name and value, sorted by name. Content is the hash of
// hashContents for a regular file. For a directory it is the SHA-256 of the records of its entries, sorted by name. For
// all others it is 32 zero bytes.
//
// The digest is the SHA-256 of "drydock-tree-2\n", the content of the root directory, the number of groups of hard
// linked names, and for each group, sorted by first path, the number of its paths and its paths, sorted.
//
// workers is as in Options. Any error is an *Error.
func Digest(ctx context.Context, path string, workers int) (string, error) {
	tuneCollector()
	r, err := openRoot(path, source)
	if err != nil {
		return "", toError(rootError(err), nil)
	}
	defer r.close()
	m := newMeter(nil, 0)
	defer m.close()
	var p problems
	t, err := scan(ctx, r, workerCount(workers), m, &p)
	if err == nil {
		err = p.err()
	}
	if err != nil {
		return "", toError(err, nil)
	}
	s := &treeHasher{tree: t, sides: []*root{r}, meter: m, problems: &p}
	if err := s.run(ctx, workerCount(workers)); err != nil {
		return "", toError(err, nil)
	}
	if err := p.err(); err != nil {
		return "", toError(err, nil)
	}
	return s.digest(source), nil
}

// digest returns the digest of one side after a run without problems.
func (s *treeHasher) digest(side side) string {
	h := sha256.New()
	h.Write([]byte("drydock-tree-2\n"))
	h.Write(s.content[side][:])
	groups := make([]*group, 0, len(s.tree.groups))
	for _, g := range s.tree.groups {
		groups = append(groups, g)
	}
	sort.Slice(groups, func(i, j int) bool { return groups[i].names[0].path() < groups[j].names[0].path() })
	writeInt(h, int64(len(groups)))
	for _, g := range groups {
		writeInt(h, int64(len(g.names)))
		for _, m := range g.names {
			writeString(h, m.path())
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// snapshot holds everything that a digest and a comparison use of an entry.
type snapshot struct {
	meta    meta
	data    int64  // estimated bytes outside of holes
	flags   uint32 // inode flags that both sides can have; 0 for entries that are not opened; not in the digest
	link    string
	content sum
	attrs   []xattr
}

// record returns the record of an entry, as described at Digest.
func (l *snapshot) record(name string) sum {
	b := make([]byte, 0, 256)
	number := func(n int64) { b = binary.BigEndian.AppendUint64(b, uint64(n)) }
	text := func(s string) { number(int64(len(s))); b = append(b, s...) }
	text(name)
	number(int64(l.meta.kind() | l.meta.permissions()))
	number(int64(l.meta.uid))
	number(int64(l.meta.gid))
	number(l.meta.size)
	number(l.meta.mtimeSec)
	number(int64(l.meta.mtimeNsec))
	text(l.link)
	b = append(b, l.content[:]...)
	number(int64(len(l.attrs)))
	for _, x := range l.attrs {
		text(x.name)
		text(string(x.value))
	}
	return sha256.Sum256(b)
}
