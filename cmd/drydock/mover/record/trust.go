//go:build linux

package record

import (
	"cmp"
	"context"
	"math"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"drydock.dev/cmd/drydock/mover/fault"
	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/cmd/drydock/mover/tree"
)

// Trust decides which files need not be read, because a first pass has read and compared them, and which files this first pass records. Its
// zero value trusts nothing and records nothing.
type Trust struct {
	Pass     tree.Pass
	Settled  time.Duration
	Problems *fault.Problems
	Seams    seams
	Dev      uint32 // of the source's root

	Id      recordID
	Usable  bool          // both file systems are trusted, and id is complete
	Earlier *Record       // the files that earlier first passes verified; nil if nothing is trusted
	Current *recorder     // what this first pass verifies; nil if nothing is recorded
	Bound   fsys.Time     // files that changed at this time or later are not recorded, and big files must be older, see isOld
	clock   time.Duration // clockOffset shortly before

	Files, Bytes atomic.Int64 // not read, because an earlier pass verified them
}

// seams are the points where tests change what happens.
type seams interface {
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
func (t *Trust) settlingTime(size int64) time.Duration {
	return t.Settled + time.Duration(float64(t.Settled)*float64(min(size, largestCall))/float64(settledBytes))
}

// Begin runs before the scan. last is the record that this process has in memory, or nil. path is the file for the record of another
// process, or "".
//
// A write through a memory mapping changes ctime only when it makes a clean page dirty. Writes to a dirty page leave no
// trace, so this function makes all pages clean: syncfs writes them back and write-protects them. Every later write
// changes ctime. So an older ctime proves that the file was not written to since.
func (t *Trust) Begin(ctx context.Context, src, dst *fsys.Root, last *Record, path string) error {
	if t.Pass == tree.PassWhole {
		return nil
	}
	for _, r := range []*fsys.Root{src, dst} {
		if !r.IsTrusted() {
			t.Problems.Warn("the %s's file system (0x%x) does not stamp every change by this node's clock, "+
				"so no file counts as unchanged between the passes", r.Side, r.Kind)
			return nil
		}
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Problems.Warn("no file counts as unchanged between the passes, because the boot id is unknown: %v", err)
		return nil
	}
	t.Id.boot, t.Id.trusted = strings.TrimSpace(string(boot)), fault.SeesTrusted()
	t.Id.source, t.Id.target, t.Dev = src.Self.Ino, dst.Self.Ino, src.Self.Dev
	t.Usable, t.clock = true, t.clockOffset()
	t.findRecord(last, path)
	if t.Pass == tree.PassFirst {
		return t.beginRecord(ctx, src)
	}
	return nil
}

// findRecord finds the record of an earlier pass.
func (t *Trust) findRecord(last *Record, path string) {
	err := errNoRecord
	switch {
	case last != nil && last.id == t.Id:
		t.Earlier, err = last, nil
	case path != "":
		t.Earlier, err = loadRecord(path, t.Id)
	}
	if err == nil && (t.clock-t.Earlier.clock).Abs() > clockStep {
		t.Earlier, err = nil, errOtherClock
	}
	if err != nil && t.Pass == tree.PassFinal {
		t.Problems.Warn("everything is verified again, because the record of the first pass cannot be used: %v", err)
	}
}

func (t *Trust) beginRecord(ctx context.Context, src *fsys.Root) error {
	now := time.Now()
	if t.Seams.SkipsSettling() { // tests skip these rules
		t.Bound, t.Current = fsys.TimeOf(now.Add(time.Hour)), &recorder{}
		return nil
	}
	err := fsys.WriteBack(ctx, src.Fd)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err == nil {
		err = t.Seams.SourceFlushed()
	}
	if err != nil {
		t.Problems.Warn("the source could not be flushed (%v), so no file counts as unchanged after this pass", err)
		return nil
	}
	t.Bound, t.Current = fsys.TimeOf(now.Add(-t.Settled)), &recorder{}
	return nil
}

// Verified reports whether a first pass verified a file and it changed on neither side since, and whether the file has no extended
// attributes.
func (t *Trust) Verified(e *tree.Entry, have *fsys.Meta) (plain, ok bool) {
	if t.Earlier == nil || !e.Meta.IsRegular() || t.IsInSubvolume(&e.Meta) {
		return false, false
	}
	return t.Earlier.find(&e.Meta, have)
}

// IsRecordable reports whether a first pass may record an entry. Of several names of an inode, it records only one.
func (t *Trust) IsRecordable(d *tree.Dir, e *tree.Entry, g *tree.Group) bool {
	return t.Current != nil && t.IsSettled(e) && (g == nil || g.IsLeader(d, e))
}

// AttributesSuffice reports whether equal size and mtime prove that a file was copied. Between two passes a process may
// have written to the file and reset its mtime. Then ctime decides, by the record or, without a record, by the time at
// which the target's file was created.
func (t *Trust) AttributesSuffice(e *tree.Entry, have *fsys.Meta) bool {
	if t.Pass == tree.PassWhole {
		return true
	}
	if t.Earlier != nil {
		return false // with few exceptions, an unchanged file is in the record
	}
	return e.Meta.Ctime().Add(t.settlingTime(e.Meta.Size)).Before(have.Ctime())
}

// IsSettled reports whether a file may be recorded: when the pass began, nothing had written to it recently.
func (t *Trust) IsSettled(e *tree.Entry) bool {
	return e.Meta.IsRegular() && t.isOld(&e.Meta, e.Meta.Size)
}

// isOld reports whether nothing had changed an inode for its settling time when the pass began.
func (t *Trust) isOld(m *fsys.Meta, size int64) bool {
	more := t.settlingTime(size) - t.Settled
	return fsys.Latest(m.Ctime(), m.Mtime()).Add(more).Before(t.Bound) && !t.IsInSubvolume(m)
}

// clockOffset returns the time that only a step of the clock changes: that of the day, less the time since boot. Both slew alike.
func (t *Trust) clockOffset() time.Duration {
	if offset, replaced := t.Seams.ReplacedClock(); replaced {
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

// Record returns what this first pass has verified. Nothing is added after that.
func (t *Trust) Record() *Record {
	r := t.Current
	slices.SortFunc(r.Files, func(a, b recorded) int { return cmp.Compare(a.ino, b.ino) })
	return &Record{t.Id, t.clock, r.Files}
}

// VoidRecordAfterStep drops the record if the clock was set while the pass ran. After a step back, the times of new changes
// are older than the beginning of the pass, so files in use count as settled.
func (t *Trust) VoidRecordAfterStep() {
	if moved := t.clockOffset() - t.clock; moved.Abs() > clockStep {
		t.Current = nil
		t.Problems.Warn("the clock of this node was set by %s during the pass, so no file counts as unchanged after this pass. "+
			"Have the clock slewed, not stepped, while volumes are copied", moved.Round(time.Second))
	}
}

// IsInSubvolume reports whether an inode of the source is in a subvolume. A subvolume gets another device number with
// each mount, so a record could not distinguish the inodes of two subvolumes.
func (t *Trust) IsInSubvolume(m *fsys.Meta) bool { return m.Dev != t.Dev }

func readClock(id int32) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		return 0 // impossible: every kernel that runs this has both clocks
	}
	return time.Duration(ts.Nano())
}

// clockStep is the largest step of the clock that leaves a record valid.
const clockStep = time.Second
