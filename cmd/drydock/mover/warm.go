//go:build linux

package mover

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"drydock.dev/shared/moverreport"
)

// Pass says which copy of a volume this is.
type Pass int

// A volume is copied in one pass, or warm, as often as one likes, and then finally.
const (
	PassWhole Pass = iota // the source is quiet
	PassWarm              // the source is being written to: what changes is let pass, what does not is verified and recorded
	PassFinal             // the source is quiet: what a warm pass recorded and has not changed since is not read again
)

// DefaultSettled is how long ago, at the beginning of a warm pass, a file's last change has to be for it to be recorded.
//
// A change time is stamped when a write begins, and with the grain of a clock tick (a second on small ext inodes). A
// write may go on for long after that, so the time is a generous one: no write takes two minutes to reach the page cache.
const DefaultSettled = 2 * time.Minute

// stamped are the file systems that a change time can be believed on: it is made by this kernel, for writes through
// memory mappings, too, as soon as their pages were clean. A network's is made by another clock or late; an overlay's is
// somebody else's; tmpfs never writes pages back, so that a mapping that was written to once is never stamped again.
var stamped = map[int64]string{
	unix.EXT4_SUPER_MAGIC: "ext2, ext3 or ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs",
}

// isStamped says whether what a file's inode says of its changes is the whole truth.
func (c *copier) isStamped(r *root) (bool, int64) {
	var st unix.Statfs_t
	if err := againErr(func() error { return unix.Fstatfs(r.fd, &st) }); err != nil {
		return false, 0
	}
	kind := int64(st.Type)
	if c.hooks.fileSystem != nil {
		kind = c.hooks.fileSystem(r.side)
	}
	return stamped[kind] != "", kind
}

// warmth is what a copy in two passes knows beyond a copy in one. Its zero value trusts nothing and records nothing.
type warmth struct {
	id    recordID
	known *record  // what an earlier warm pass has verified; nil: nothing is trusted
	fresh *record  // what this warm pass verifies; nil: nothing is recorded
	bound unixTime // what changed at this time or later is not recorded
}

// unixTime is a time as an inode has it.
type unixTime struct{ sec, nsec int64 }

func (t unixTime) before(u unixTime) bool { return t.sec < u.sec || t.sec == u.sec && t.nsec < u.nsec }
func (m *meta) ctime() unixTime           { return unixTime{m.ctimeSec, int64(m.ctimeNsec)} }
func (m *meta) mtime() unixTime           { return unixTime{m.mtimeSec, int64(m.mtimeNsec)} }

func unixTimeOf(t time.Time) unixTime { return unixTime{t.Unix(), int64(t.Nanosecond())} }

// beginWarm is called before the scan.
//
// A write through a memory mapping changes ctime only when it makes a clean page dirty. Pages that are dirty already are
// written to without a trace, so all of them are made clean here: syncfs writes them back and write-protects them. After
// it, every write is seen in ctime, so that a ctime from before it tells the truth about all that came later.
func (c *copier) beginWarm(ctx context.Context) error {
	if c.pass == PassWhole {
		return nil
	}
	for _, r := range []*root{c.src, c.dst} {
		if ok, kind := c.isStamped(r); !ok {
			c.warn("the %s's file system (0x%x) does not stamp every change by this node's clock: no file counts as unchanged between two passes", r.side, kind)
			return nil
		}
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		c.warn("no file counts as unchanged between two passes: %v", err)
		return nil
	}
	c.warm.id = recordID{token: c.token, member: c.warm.id.member, boot: strings.TrimSpace(string(boot)), source: c.src.self.ino, target: c.dst.self.ino}
	if c.pass == PassWarm {
		return c.beginRecord(ctx)
	}
	return nil
}

func (c *copier) beginRecord(ctx context.Context) error {
	now := time.Now()
	if c.hooks.unsettled { // as if there were no such rules
		c.warm.bound, c.warm.fresh = unixTimeOf(now.Add(time.Hour)), &record{}
		return nil
	}
	err := writeBack(ctx, c.src.fd)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err == nil && c.hooks.flushed != nil {
		err = c.hooks.flushed()
	}
	if err != nil {
		c.warn("the source could not be flushed (%v): no file counts as unchanged after this pass", err)
		return nil
	}
	c.warm.bound, c.warm.fresh = unixTimeOf(now.Add(-c.settled)), &record{}
	return nil
}

func (c *copier) warn(format string, args ...any) { c.problems.warn(format, args...) }

// loadRecord is called after the scan and before anything in the target is touched. A source that has a file of the
// record's name gets no record, neither read nor written: the file in the target may be its copy.
func (c *copier) loadRecord() {
	if c.warm.id.boot == "" {
		return
	}
	if c.tree.top.find(recordName) != nil {
		c.warm.fresh = nil
		c.warn("the source has a file %s: no file counts as unchanged between two passes", recordName)
		return
	}
	known, err := readRecord(c.dst.fd, c.warm.id)
	if err == nil {
		c.warm.known = known
		c.keep(recordName)
	} else if c.pass == PassFinal {
		c.warn("everything is verified, since there is no record of a warm pass: %v", err)
	}
}

// unread returns the contents of a file that a warm pass has verified and that has changed on neither side since.
func (c *copier) unread(d *dir, e *entry, have *meta) (sum, bool) {
	if c.warm.known == nil || !e.meta.isRegular() || c.isNested(&e.meta) {
		return sum{}, false
	}
	return c.warm.known.find(&e.meta, have)
}

// looksEqual says whether equal size and mtime are enough for a file to be taken for copied. Between two passes somebody
// may have written to it and put its time back. Then ctime tells, by the record or, without one, by the time at which the
// target's file was made.
func (c *copier) looksEqual(e *entry, have *meta) bool {
	if c.pass == PassWhole {
		return true
	}
	if c.warm.known != nil {
		return false // else it would be in the record, but for a few
	}
	changed := time.Unix(e.meta.ctimeSec, int64(e.meta.ctimeNsec)).Add(c.settled)
	return unixTimeOf(changed).before(have.ctime())
}

// isSettled says whether a file may be recorded: nothing wrote to it, or may still have been writing, when the pass began.
func (c *copier) isSettled(e *entry) bool {
	return e.meta.isRegular() && e.meta.ctime().before(c.warm.bound) && e.meta.mtime().before(c.warm.bound) && !c.isNested(&e.meta)
}

// isNested reports whether an inode of the source is in a subvolume. The device number of a subvolume is another one with
// each mount, so that a record could not tell its inodes from those of another subvolume.
func (c *copier) isNested(m *meta) bool { return m.dev != c.src.self.dev }

// endWarm verifies what can be recorded, and records it.
func (c *copier) endWarm(ctx context.Context) error {
	if c.warm.fresh == nil {
		return nil
	}
	c.meter.enter(moverreport.PhaseVerify)
	if err := c.cost.check.time(c.limit, func() error { return c.confirm(ctx) }); err != nil {
		return err
	}
	if err := c.problems.err(); err != nil {
		return err
	}
	return c.saveRecord()
}

// endFinal deletes the record and the marker, last: a final pass that died half-way goes on with them. That is safe since
// the record speaks of single inodes of both sides; whatever the dead pass has done to the target's is seen in them.
func (c *copier) endFinal() error {
	if len(c.kept) == 0 {
		return nil
	}
	for _, name := range []string{recordName, markerName} { // the marker stays as long as anything is not the source's
		if !slices.Contains(c.kept, name) {
			continue
		}
		err := againErr(func() error { return unix.Unlinkat(c.dst.fd, name, 0) })
		if err != nil && err != unix.ENOENT {
			return &fault{target, "deleting", name, err}
		}
	}
	if err := c.finishDir(c.tree.top); err != nil { // deleting has changed the root's time
		return err
	}
	if err := againErr(func() error { return unix.Fsync(c.dst.fd) }); err != nil {
		return &fault{target, "flushing", "", err}
	}
	return c.verifyRoot()
}
