//go:build linux

package mover

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"drydock.dev/shared/moverreport"
)

// Options say what to copy and how. Source and Target are existing directories, and neither is inside the other. The
// source is only read, which changes access times unless it is mounted read-only. Names in the target that the source does
// not have are deleted, unless OwnOnly forbids it.
type Options struct {
	Source, Target string

	Workers  int  // files copied at once; 0 derives it from the number of CPUs
	Checksum bool // compare contents, not only size and mtime, before a file counts as copied
	NoVerify bool // skip the verification

	Pass    Pass          // PassWhole is an ordinary copy
	Token   string        // the operation that the first and final passes belong to
	Member  string        // the process that writes to the source; contents verified under another one are read again
	Mount   string        // names the mounts of both volumes, and changes if one is unmounted; the same applies
	OwnOnly bool          // fail if the target holds data that no pass with this Token wrote
	Refill  bool          // with OwnOnly: accept a target without this Token's marker, left by a completed final pass
	Settled time.Duration // for a first pass, see DefaultSettled; 0 means that default
	Margin  int           // percent of the target's size that must stay free; 0 disables the check
	Last    Result        // of the last first pass in this process over the same trees, or the zero value
	Record  string        // a file outside of both trees that carries the record from a first pass to the next process; "" for none
	Limit   *Limiter      // bandwidth limit of a first pass; nil means none

	Progress         func(moverreport.Progress) // called by one goroutine at a time; may be nil
	ProgressInterval time.Duration              // at most one call per interval, and one at each phase change; 0 means phase changes only

	hooks hooks
}

// Result says what a copy did. A failed copy has one, too.
type Result struct {
	Bytes    int64    // data bytes written
	Files    int64    // entries written, directories not counted
	Skipped  int64    // entries that the target already had
	Deleted  int64    // entries removed from the target, the contents of directories included
	Total    int64    // data bytes of the source, written or not
	Verified bool     // both trees were read back and compared
	Warnings []string // problems that did not fail the copy, a sentence each

	Pass                         Pass
	Changed                      int64 // entries that changed while a first pass read them
	RecordedFiles, RecordedBytes int64 // verified by a first pass: the final pass need not read them
	TrustedFiles, TrustedBytes   int64 // not read: verified by an earlier pass and unchanged since

	Figures Figures         // of a first pass that succeeded
	state   *firstPassState // of a first pass that succeeded; nil otherwise
}

// Copy makes Target a faithful copy of Source. Any error is an *Error. Copy is safe to repeat, see the package comment.
// A cancelled context stops it cleanly. If a signal was the reason, the context's cause should be an *Interruption.
func Copy(ctx context.Context, o Options) (Result, error) {
	tuneCollector()
	c, err := newCopier(o)
	if err != nil {
		return Result{}, toError(err, nil)
	}
	defer c.close()
	err = c.run(ctx, o)
	if e := toError(err, c.dst); e != nil {
		return c.result(), e
	}
	return c.result(), nil
}

func newCopier(o Options) (*copier, error) {
	src, err := openRoot(o.Source, source)
	if err != nil {
		return nil, rootError(err)
	}
	dst, err := openRoot(o.Target, target)
	if err != nil {
		src.close()
		return nil, rootError(err)
	}
	if err := checkSeparate(src, dst); err != nil {
		src.close()
		dst.close()
		return nil, err
	}
	c := &copier{
		src: src, dst: dst, checksum: o.Checksum, hooks: o.hooks,
		pass: o.Pass, token: o.Token, margin: o.Margin, ownOnly: o.OwnOnly, refill: o.Refill, limit: o.Limit, recordPath: o.Record,
		last: o.Last.state, workers: workerCount(o.Workers), meter: newMeter(o.Progress, o.ProgressInterval),
	}
	c.trust = trust{pass: o.Pass, settled: o.Settled, problems: &c.problems, hooks: o.hooks, dev: src.self.dev}
	c.trust.id.token, c.trust.id.member, c.trust.id.mount = o.Token, o.Member, o.Mount
	if o.Settled <= 0 {
		c.trust.settled = DefaultSettled
	}
	if o.hooks.fileSystem != nil {
		src.kind, dst.kind = o.hooks.fileSystem(source), o.hooks.fileSystem(target)
	}
	c.problems.sourceActive = c.pass == PassFirst
	c.problems.selinuxCause = c.selinuxCause
	return c, nil
}

func (c *copier) close() {
	c.meter.close()
	c.releaseTarget()
	c.src.close()
	c.dst.close()
}

// run goes through the phases. Collected problems end it before a phase that could do harm or would be in vain. Nothing
// is deleted if the source could not be read completely, and a target that is known to be unfaithful is not verified.
func (c *copier) run(ctx context.Context, o Options) (err error) {
	c.meter.enter(moverreport.PhaseScan)
	if err := c.trust.begin(ctx, c.src, c.dst, c.last.lastRecord(), c.recordPath); err != nil {
		return err
	}
	c.scanBegan = time.Now()
	if c.tree, err = scan(ctx, c.src, c.workers, c.meter, &c.problems); err != nil {
		return err
	}
	c.cost.scan = time.Since(c.scanBegan)
	if err := c.problems.err(); err != nil {
		return err
	}
	if err := c.checkTarget(); err != nil {
		return err
	}
	c.meter.enter(moverreport.PhaseCopy)
	return c.transfer(ctx, o.NoVerify)
}

// checkTarget fails before any data is written or deleted if the target cannot become faithful, belongs to another
// operation or is too small.
func (c *copier) checkTarget() error {
	if err := c.checkRoot(); err != nil {
		return err
	}
	if err := c.checkOwnership(); err != nil {
		return err
	}
	return c.checkSpaceBefore()
}

func (c *copier) result() Result {
	r := Result{
		Bytes: c.bytes.Load(), Files: c.files.Load(), Skipped: c.skipped.Load(), Deleted: c.deleted.Load(),
		Total:    c.meter.bytesTotal.Load(),
		Verified: c.verified, Warnings: c.problems.allWarnings(), Pass: c.pass,
		TrustedFiles: c.trust.files.Load(), TrustedBytes: c.trust.bytes.Load(), Changed: c.problems.changed,
		state: c.state, Figures: c.measured,
	}
	if fresh := c.trust.current; fresh != nil {
		r.RecordedFiles, r.RecordedBytes = int64(len(fresh.files)), fresh.bytes
	}
	if c.tree != nil && len(c.tree.nested) > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf(
			"subvolumes of the source are plain directories in the target (%d, the first is %s); their contents are copied",
			len(c.tree.nested), quote(c.tree.nested[0])))
	}
	return r
}

// hooks let tests act at exact moments.
type hooks struct {
	copying func(path string)              // after a file was read, before it is checked for changes
	synced  func()                         // between sync and verify
	source  func(op, path string) error    // fails the reading of a source file
	wrote   func(path string, bytes int64) // after a piece of a file was written

	fileSystem  func(side) int64     // replaces the file system type of statfs
	flushed     func() error         // the outcome of flushing the source
	clockOffset func() time.Duration // replaces that of this node's clock
	noSettling  bool                 // a first pass skips the flush of the source and records recently changed files, too
	confirmed   func(path string)    // between reading a file and recording it
	recording   func()               // between writing the record and giving it its name
	selinux     func() string        // replaces the SELinux context of this process
	anyFile     bool                 // a regular file counts as a device
	statfs      func(*unix.Statfs_t) // changes the target's statfs result
}

// copier is one copy. The fields before the field problems do not change after the scan.
type copier struct {
	src, dst  *root
	tree      *tree
	scanBegan time.Time
	workers   int
	checksum  bool
	pass      Pass
	token     string
	margin    int
	ownOnly   bool
	refill    bool
	limit     *Limiter
	ownNames  []string // names in the target's root that belong to the mover
	marker    *os.File // nil if the target has no marker; see checkOwned
	hooks     hooks
	meter     *meter
	problems  problems

	temps       atomic.Uint64 // numbers the temporary names
	noRange     atomic.Bool   // copy_file_range does not work between these two file systems
	inodeOwners sync.Map      // inode of the target → the *group that uses it
	tryFlags    sync.Once     // sets lacksFlags, see missingFlags
	lacksFlags  uint32
	unsetFlags  atomic.Uint32 // could not be set or removed on some entry, which a warning names

	bytes, files, skipped, deleted atomic.Int64

	trust      trust
	recordPath string
	saved      *record         // what this first pass recorded; nil if nothing was recorded
	last       *firstPassState // of the last first pass in this process; may be nil
	keeper     keeper
	cost       costs
	state      *firstPassState // nil until a first pass has succeeded
	measured   Figures         // zero until then
	verified   bool
}

// costs are the durations of a pass's phases.
type costs struct {
	scan, steps, flush time.Duration // steps: preparation, links and directory attributes
	copy, check        effort
}

// Pass is the kind of a copy.
type Pass int

// A volume is copied either in one pass, or in any number of first passes and then one final pass.
const (
	PassWhole Pass = iota // nothing writes to the source
	PassFirst             // the source is in use: entries that change are tolerated, all others are verified and recorded
	PassFinal             // nothing writes to the source: recorded entries that have not changed are not read again
)

// NewReport returns the report of a copy from the values that Copy returned.
func NewReport(r Result, err error, took time.Duration) moverreport.Report {
	report := moverreport.Report{
		Result: "copied", Code: moverreport.CodeOK, Reason: moverreport.ReasonCopied, Message: "the target is a verified copy of the source",
		Bytes: r.Bytes, Files: r.Files, Skipped: r.Skipped, Deleted: r.Deleted, Total: r.Total,
		Seconds: math.Round(took.Seconds()*1000) / 1000, Warnings: r.Warnings,
		Changed: r.Changed, RecordedFiles: r.RecordedFiles, RecordedBytes: r.RecordedBytes,
		TrustedFiles: r.TrustedFiles, TrustedBytes: r.TrustedBytes,
	}
	switch {
	case r.Pass == PassFirst:
		report.Result, report.Reason = "first-pass", moverreport.ReasonFirstPassDone
		report.Message = "the target holds most of the source's data. A final pass completes the copy"
	case r.Verified:
		report.Digest = moverreport.Verified
	default:
		report.Message = "the target is a copy of the source, which was not verified"
	}
	if err == nil {
		return report
	}
	e := toError(err, nil)
	errors.As(err, &e)
	report.Result, report.Code, report.Reason, report.Message = "failed", e.Code, e.Reason, e.Message
	report.Count, report.Problems = e.Count, e.Paths
	return report
}
