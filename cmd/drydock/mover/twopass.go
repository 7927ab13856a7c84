//go:build linux

package mover

import (
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"drydock.dev/shared/moverreport"
)

// DefaultSettled is the age that a file's last change must have, at the beginning of a first pass, for the file to be
// recorded.
//
// A change time is set when a write begins, with the precision of a clock tick (a second on small ext inodes). The write
// may continue long after that, and leaves no other trace in the inode. It lasts long if its contents are not in memory, for
// example in a mapped file of a network file system that hangs, or if it is direct and the storage is slow. The second
// reason depends on the size, see settlingTime.
const DefaultSettled = 2 * time.Minute

// A call writes no more than largestCall. settledBytes is what it writes in the settling time: with the default, storage
// that writes 4 MiB in a second is fast enough.
const (
	largestCall  = 2 << 30
	settledBytes = 4 << 20 * int64(DefaultSettled/time.Second)
)

// settlingTime returns the age that the last change of a file must have to be recorded. It grows with the largest call that
// can be writing to the file.
func (c *copier) settlingTime(size int64) time.Duration {
	return c.settled + time.Duration(float64(c.settled)*float64(min(size, largestCall))/float64(settledBytes))
}

// trustedFileSystems are the file systems with reliable change times and reliable holes. There, this kernel sets the time for every write.
// That includes writes through memory mappings, as soon as their pages were clean. On a network file system the time
// comes from another clock or comes late, and an overlay shows the times of another file system. tmpfs never writes
// pages back, so a mapping that was written to once is never stamped again. The exceptions exchange the blocks of two
// files. EXT4_IOC_MOVE_EXT stamps one of them; e4defrag, its user, deletes the other. XFS_IOC_SWAPEXT stamps none, and the owner
// of both files may call it; xfs_fsr, its user, exchanges files with equal contents.
//
// Elsewhere the search for holes may be wrong: versions of ZFS reported holes in files that were just written. There, the
// verification reads all bytes. The copy still believes the holes, and the verification finds the error.
var trustedFileSystems = map[int64]string{
	unix.EXT4_SUPER_MAGIC: "ext2, ext3 or ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs",
}

// beginTwoPass runs before the scan.
//
// A write through a memory mapping changes ctime only when it makes a clean page dirty. Writes to a dirty page leave no
// trace, so this function makes all pages clean: syncfs writes them back and write-protects them. Every later write
// changes ctime. So an older ctime proves that the file was not written to since.
func (c *copier) beginTwoPass(ctx context.Context) error {
	if c.pass == PassWhole {
		return nil
	}
	for _, r := range []*root{c.src, c.dst} {
		if !r.isTrusted() {
			c.warn("the %s's file system (0x%x) does not stamp every change by this node's clock, "+
				"so no file counts as unchanged between the passes", r.side, r.kind)
			return nil
		}
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		c.warn("no file counts as unchanged between the passes, because the boot id is unknown: %v", err)
		return nil
	}
	c.twoPass.id.token, c.twoPass.id.boot = c.token, strings.TrimSpace(string(boot))
	c.twoPass.id.source, c.twoPass.id.target = c.src.self.ino, c.dst.self.ino
	if c.pass == PassFirst {
		return c.beginRecord(ctx)
	}
	return nil
}

func (c *copier) beginRecord(ctx context.Context) error {
	c.twoPass.clock = c.clockOffset()
	now := time.Now()
	if c.hooks.noSettling { // tests skip these rules
		c.twoPass.bound, c.twoPass.current = unixTimeOf(now.Add(time.Hour)), c.newRecordWriter()
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
		c.warn("the source could not be flushed (%v), so no file counts as unchanged after this pass", err)
		return nil
	}
	c.twoPass.bound, c.twoPass.current = unixTimeOf(now.Add(-c.settled)), c.newRecordWriter()
	return nil
}

// openRecord runs before the scan, which compares the files with the record. It returns why there is none. Only a pass that
// verifies may presume, because the verification is what finds a wrong presumption.
func (c *copier) openRecord(verifies bool) (err error) {
	if c.twoPass.id.boot == "" {
		return nil
	}
	if c.twoPass.earlier, err = readRecord(c.dst.fd, c.twoPass.id); err != nil {
		return err
	}
	c.twoPass.presume, c.twoPass.earlier.noPages = verifies, c.hooks.noPages
	return nil
}

// useRecord runs after the scan, before anything in the target is changed. If the source has a file with the record's
// name, no record is used or written: the file in the target may be a copy of that file.
func (c *copier) useRecord(unusable error) {
	switch {
	case c.twoPass.id.boot == "":
	case c.tree.top.find(recordName) != nil:
		c.twoPass.earlier.close()
		c.twoPass.earlier, c.twoPass.presume, c.twoPass.current = nil, false, nil
		c.warn("the source has a file %s, so no file counts as unchanged between the passes", recordName)
	case c.twoPass.earlier != nil:
		c.addOwnName(recordName)
	case c.pass == PassFinal:
		c.warn("everything is verified again, because the record of the first pass cannot be used: %v", unusable)
	}
}

// verified returns what is known of a file that a first pass verified and that changed on neither side since.
func (c *copier) verified(e *entry, have meta) (known, bool) {
	if c.twoPass.earlier == nil || !e.meta.isRegular() || c.isInSubvolume(&e.meta) {
		return known{}, false
	}
	return c.twoPass.earlier.find(&e.meta, &have)
}

// attributesSuffice reports whether equal size and mtime prove that a file was copied. Between two passes a process may
// have written to the file and reset its mtime. Then ctime decides, by the record or, without a record, by the time at
// which the target's file was created.
func (c *copier) attributesSuffice(e *entry, have *meta) bool {
	if c.pass == PassWhole {
		return true
	}
	if c.twoPass.earlier != nil {
		return false // with few exceptions, an unchanged file is in the record
	}
	return e.meta.ctime().add(c.settlingTime(e.meta.size)).before(have.ctime())
}

// isSettled reports whether a file may be recorded: when the pass began, nothing had written to it recently.
func (c *copier) isSettled(e *entry) bool {
	return e.meta.isRegular() && c.isOld(&e.meta, e.meta.size)
}

// isSettledDir is isSettled for a directory.
func (c *copier) isSettledDir(d *dir) bool {
	return c.isOld(&d.self.meta, 0) // no call writes to a directory
}

// isOld reports whether nothing had changed an inode for its settling time when the pass began.
func (c *copier) isOld(m *meta, size int64) bool {
	more := c.settlingTime(size) - c.settled
	return latest(m.ctime(), m.mtime()).add(more).before(c.twoPass.bound) && !c.isInSubvolume(m)
}

// clockOffset returns the time that only a step of the clock changes: that of the day, less the time since boot. Both slew alike.
func (c *copier) clockOffset() time.Duration {
	if c.hooks.clockOffset != nil {
		return c.hooks.clockOffset()
	}
	best, offset := time.Duration(math.MaxInt64), time.Duration(0)
	for range 10 { // the process may wait between two readings
		before, day, after := readClock(unix.CLOCK_BOOTTIME), readClock(unix.CLOCK_REALTIME), readClock(unix.CLOCK_BOOTTIME)
		if after-before < best {
			best, offset = after-before, day-before
		}
		if best < time.Millisecond {
			break
		}
	}
	return offset
}

func readClock(id int32) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		return 0 // impossible: every kernel that runs this has both clocks
	}
	return time.Duration(ts.Nano())
}

// clockStep is the largest step of the clock that leaves a record valid.
const clockStep = time.Second

// voidRecordAfterStep drops the record if the clock was set while the pass ran. After a step back, the times of new changes
// are older than the beginning of the pass, so files in use count as settled.
func (c *copier) voidRecordAfterStep() {
	if moved := c.clockOffset() - c.twoPass.clock; moved.Abs() > clockStep {
		c.twoPass.current.close()
		c.twoPass.current = nil
		c.warn("the clock of this node was set by %s during the pass, so no file counts as unchanged after this pass. "+
			"Have the clock slewed, not stepped, while volumes are copied", moved.Round(time.Second))
	}
}

// isInSubvolume reports whether an inode of the source is in a subvolume. A subvolume gets another device number with
// each mount, so a record could not distinguish the inodes of two subvolumes.
func (c *copier) isInSubvolume(m *meta) bool { return m.dev != c.src.self.dev }

// endFirstPass verifies the copy, and records all files that can be recorded.
func (c *copier) endFirstPass(ctx context.Context) error {
	c.meter.enter(moverreport.PhaseVerify)
	if err := c.cost.check.measure(c.limit, func() error { return c.confirm(ctx) }); err != nil {
		return err
	}
	if err := c.problems.err(); err != nil {
		return err
	}
	if c.twoPass.current != nil {
		c.voidRecordAfterStep()
	}
	if c.twoPass.current == nil {
		return nil
	}
	for _, d := range c.tree.dirs {
		if !d.excluded && c.isSettledDir(d) {
			c.twoPass.current.add(recordedDir(&d.self.meta), 0)
		}
	}
	return c.saveRecord()
}

// endFinalPass deletes the record and the marker last, so that an interrupted final pass can resume with them. This is
// safe: the record describes single inodes of both sides, and their state shows everything that the interrupted pass
// did.
func (c *copier) endFinalPass() error {
	if len(c.ownNames) == 0 {
		return nil
	}
	if err := c.checkOwned(); err != nil {
		return err
	}
	c.releaseTarget()
	for _, name := range []string{recordName, markerName} { // the marker goes last: it stays while the target holds anything else
		if !slices.Contains(c.ownNames, name) {
			continue
		}
		err := ignoringEINTR(func() error { return unix.Unlinkat(c.dst.fd, name, 0) })
		if err != nil && err != unix.ENOENT {
			return &fault{target, "deleting", name, err}
		}
	}
	if err := c.finishDir(c.tree.top); err != nil { // deleting a name has changed the root's time
		return err
	}
	if err := ignoringEINTR(func() error { return unix.Fsync(c.dst.fd) }); err != nil {
		return &fault{target, "flushing", "", err}
	}
	return c.verifyRoot()
}

// transfer copies, flushes and verifies.
func (c *copier) transfer(ctx context.Context, unverified bool) error {
	for _, step := range []func(context.Context) error{c.timedStep(c.prepare), c.fillTimed, c.timedStep(c.link), c.timedStep(c.finish)} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if err := c.problems.err(); err != nil {
		return err
	}
	c.meter.enter(moverreport.PhaseSync)
	began := time.Now()
	if err := writeBack(ctx, c.dst.fd); err != nil {
		return &fault{target, "flushing", "", err}
	}
	c.cost.flush = time.Since(began)
	if err := c.checkSpaceAfter(); err != nil {
		return err
	}
	if c.hooks.synced != nil {
		c.hooks.synced()
	}
	return c.finishPass(ctx, unverified)
}

// finishPass verifies and records as the kind of the pass demands.
func (c *copier) finishPass(ctx context.Context, unverified bool) error {
	switch {
	case unverified && c.pass == PassFirst:
		c.twoPass.current = nil
		return nil
	case c.pass == PassFirst:
		if err := c.endFirstPass(ctx); err != nil {
			return err
		}
		return c.measureFirstPass(ctx)
	case !unverified:
		c.meter.enter(moverreport.PhaseVerify)
		if err := c.verify(ctx); err != nil {
			return err
		}
	}
	if err := c.endFinalPass(); err != nil {
		c.digest = ""
		return err
	}
	return nil
}

// mustRepeat reports whether a presumption was wrong, or an error of the pass may come from a wrong one.
func (c *copier) mustRepeat(err error) bool {
	if !c.twoPass.presume || kindOf(err) == kindStopped {
		return false
	}
	var f *fault
	return c.twoPass.misjudged.Load() || errors.As(err, &f) && f.side == target && isAny(f.err, unexpectedKind...)
}

// unexpectedKind are the errors of names in the target that are missing or have another type.
var unexpectedKind = []error{unix.ENOENT, unix.ENOTDIR, unix.EISDIR, unix.ELOOP, unix.ENXIO, unix.EEXIST, unix.ENOTEMPTY}

// forget prepares the repetition of a pass without presumptions.
func (c *copier) forget() {
	c.twoPass.presume = false
	c.twoPass.misjudged.Store(false)
	c.problems.forget()
	c.skipped.Store(0)
	c.trustedFiles.Store(0)
	c.trustedBytes.Store(0)
	c.inodeOwners.Clear()
	c.keeper.forget()
	for _, g := range c.tree.groups {
		g.failed.Store(false)
		g.inode.Store(0)
		g.sums = [2]onceSum{}
	}
	for _, d := range c.tree.dirs {
		d.fresh, d.presumed, d.excluded = false, false, false
		d.unread.Store(false)
	}
	if c.twoPass.current != nil {
		c.twoPass.current.close()
		c.twoPass.current = c.newRecordWriter()
	}
}

// transferWithRepeat is transfer, and once more if a presumption was wrong.
func (c *copier) transferWithRepeat(ctx context.Context, unverified bool) error {
	err := c.transfer(ctx, unverified)
	if !c.mustRepeat(err) {
		return err
	}
	c.forget()
	c.meter.enter(moverreport.PhaseCopy)
	return c.transfer(ctx, unverified)
}
