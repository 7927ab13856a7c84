//go:build linux

package mover

import (
	"context"
	"math"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// trust decides which files need not be read, because a first pass has read and compared them, and which files this first pass records. Its
// zero value trusts nothing and records nothing.
type trust struct {
	pass     Pass
	settled  time.Duration
	problems *problems
	seams    recordSeams
	dev      uint32 // of the source's root

	id      recordID
	usable  bool          // both file systems are trusted, and id is complete
	earlier *record       // the files that earlier first passes verified; nil if nothing is trusted
	current *recorder     // what this first pass verifies; nil if nothing is recorded
	bound   unixTime      // files that changed at this time or later are not recorded, and big files must be older, see isOld
	clock   time.Duration // clockOffset at the same moment

	files, bytes atomic.Int64 // not read, because an earlier pass verified them
}

// recordSeams are the points where tests change what happens.
type recordSeams interface {
	SourceFlushed() error                         // the outcome of flushing the source
	ReplacedClock() (d time.Duration, isSet bool) // replaces that of this node's clock
	SkipsSettling() bool                          // a first pass skips the flush of the source and records recently changed files, too
}

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
func (t *trust) settlingTime(size int64) time.Duration {
	return t.settled + time.Duration(float64(t.settled)*float64(min(size, largestCall))/float64(settledBytes))
}

// begin runs before the scan. last is the record that this process has in memory, or nil. path is the file for the record of another
// process, or "".
//
// A write through a memory mapping changes ctime only when it makes a clean page dirty. Writes to a dirty page leave no
// trace, so this function makes all pages clean: syncfs writes them back and write-protects them. Every later write
// changes ctime. So an older ctime proves that the file was not written to since.
func (t *trust) begin(ctx context.Context, src, dst *root, last *record, path string) error {
	if t.pass == PassWhole {
		return nil
	}
	for _, r := range []*root{src, dst} {
		if !r.isTrusted() {
			t.problems.warn("the %s's file system (0x%x) does not stamp every change by this node's clock, "+
				"so no file counts as unchanged between the passes", r.side, r.kind)
			return nil
		}
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.problems.warn("no file counts as unchanged between the passes, because the boot id is unknown: %v", err)
		return nil
	}
	t.id.boot, t.id.trusted = strings.TrimSpace(string(boot)), seesTrusted()
	t.id.source, t.id.target, t.dev = src.self.ino, dst.self.ino, src.self.dev
	t.usable = true
	t.findRecord(last, path)
	if t.pass == PassFirst {
		return t.beginRecord(ctx, src)
	}
	return nil
}

// findRecord finds the record of an earlier pass.
func (t *trust) findRecord(last *record, path string) {
	err := errNoRecord
	switch {
	case last != nil && last.id == t.id:
		t.earlier = last
		return
	case path != "":
		if t.earlier, err = loadRecord(path, t.id); err == nil {
			return
		}
	}
	if t.pass == PassFinal {
		t.problems.warn("everything is verified again, because the record of the first pass cannot be used: %v", err)
	}
}

func (t *trust) beginRecord(ctx context.Context, src *root) error {
	t.clock = t.clockOffset()
	now := time.Now()
	if t.seams.SkipsSettling() { // tests skip these rules
		t.bound, t.current = unixTimeOf(now.Add(time.Hour)), &recorder{}
		return nil
	}
	err := writeBack(ctx, src.fd)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err == nil {
		err = t.seams.SourceFlushed()
	}
	if err != nil {
		t.problems.warn("the source could not be flushed (%v), so no file counts as unchanged after this pass", err)
		return nil
	}
	t.bound, t.current = unixTimeOf(now.Add(-t.settled)), &recorder{}
	return nil
}

// verified reports whether a first pass verified a file and it changed on neither side since, and whether the file has no extended
// attributes.
func (t *trust) verified(e *entry, have *meta) (plain, ok bool) {
	if t.earlier == nil || !e.meta.isRegular() || t.isInSubvolume(&e.meta) {
		return false, false
	}
	return t.earlier.find(&e.meta, have)
}

// isRecordable reports whether a first pass may record an entry. Of several names of an inode, it records only one.
func (t *trust) isRecordable(d *dir, e *entry, g *group) bool {
	return t.current != nil && t.isSettled(e) && (g == nil || g.isLeader(d, e))
}

// attributesSuffice reports whether equal size and mtime prove that a file was copied. Between two passes a process may
// have written to the file and reset its mtime. Then ctime decides, by the record or, without a record, by the time at
// which the target's file was created.
func (t *trust) attributesSuffice(e *entry, have *meta) bool {
	if t.pass == PassWhole {
		return true
	}
	if t.earlier != nil {
		return false // with few exceptions, an unchanged file is in the record
	}
	return e.meta.ctime().add(t.settlingTime(e.meta.size)).before(have.ctime())
}

// isSettled reports whether a file may be recorded: when the pass began, nothing had written to it recently.
func (t *trust) isSettled(e *entry) bool {
	return e.meta.isRegular() && t.isOld(&e.meta, e.meta.size)
}

// isOld reports whether nothing had changed an inode for its settling time when the pass began.
func (t *trust) isOld(m *meta, size int64) bool {
	more := t.settlingTime(size) - t.settled
	return latest(m.ctime(), m.mtime()).add(more).before(t.bound) && !t.isInSubvolume(m)
}

// clockOffset returns the time that only a step of the clock changes: that of the day, less the time since boot. Both slew alike.
func (t *trust) clockOffset() time.Duration {
	if offset, replaced := t.seams.ReplacedClock(); replaced {
		return offset
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

// voidRecordAfterStep drops the record if the clock was set while the pass ran. After a step back, the times of new changes
// are older than the beginning of the pass, so files in use count as settled.
func (t *trust) voidRecordAfterStep() {
	if moved := t.clockOffset() - t.clock; moved.Abs() > clockStep {
		t.current = nil
		t.problems.warn("the clock of this node was set by %s during the pass, so no file counts as unchanged after this pass. "+
			"Have the clock slewed, not stepped, while volumes are copied", moved.Round(time.Second))
	}
}

// isInSubvolume reports whether an inode of the source is in a subvolume. A subvolume gets another device number with
// each mount, so a record could not distinguish the inodes of two subvolumes.
func (t *trust) isInSubvolume(m *meta) bool { return m.dev != t.dev }

func readClock(id int32) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		return 0 // impossible: every kernel that runs this has both clocks
	}
	return time.Duration(ts.Nano())
}

// clockStep is the largest step of the clock that leaves a record valid.
const clockStep = time.Second
