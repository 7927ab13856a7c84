//go:build linux

package mover

import (
	"context"
	"fmt"
	"time"

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
	if o.hooks.fileSystem != nil {
		src.kind, dst.kind = o.hooks.fileSystem(source), o.hooks.fileSystem(target)
	}
	return assemble(src, dst, o), nil
}

// copier is one copy.
type copier struct {
	*job
	own   *owner
	roots *rootDirs
	trust *trust
	flags *flagPolicy
	dirs  *dirWriter
	files *fileWriter
	links *linker
	hooks *hooks

	scanBegan  time.Time
	recordPath string
	saved      *record         // what this first pass recorded; nil if nothing was recorded
	last       *firstPassState // of the last first pass in this process; may be nil
	keeper     keeper
	cost       costs
	state      *firstPassState // nil until a first pass has succeeded
	measured   Figures         // zero until then
	verified   bool
}

// assemble makes a copier of its parts.
func assemble(src, dst *root, o Options) *copier {
	c := &copier{recordPath: o.Record, last: o.Last.state, hooks: &o.hooks}
	c.job = &job{
		src: src, dst: dst, pass: o.Pass, workers: workerCount(o.Workers), limit: o.Limit,
		meter:    newMeter(o.Progress, o.ProgressInterval),
		problems: &problems{sourceActive: o.Pass == PassFirst, selinuxCause: c.selinuxCause},
	}
	c.trust = &trust{pass: o.Pass, settled: o.Settled, problems: c.problems, seams: c.hooks, dev: src.self.dev}
	c.trust.id.token, c.trust.id.member, c.trust.id.mount = o.Token, o.Member, o.Mount
	if o.Settled <= 0 {
		c.trust.settled = DefaultSettled
	}
	c.own = &owner{job: c.job, token: o.Token, ownOnly: o.OwnOnly, refill: o.Refill, margin: o.Margin, seams: c.hooks}
	c.roots = &rootDirs{c.job}
	c.flags = &flagPolicy{job: c.job, own: c.own}
	c.links = &linker{job: c.job, own: c.own}
	content := &contentWriter{job: c.job, own: c.own, trust: c.trust, flags: c.flags, seams: c.hooks}
	c.dirs = &dirWriter{c.job, c.own, c.roots, c.flags, content}
	c.files = &fileWriter{
		job: c.job, own: c.own, trust: c.trust, flags: c.flags, content: content, links: c.links, keeper: &c.keeper,
		kept: c.last.keptHashes(), effort: &c.cost.copy, checksum: o.Checksum, seams: c.hooks,
	}
	return c
}

func (c *copier) close() {
	c.meter.close()
	c.own.releaseTarget()
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
	if c.tree, err = scan(ctx, c.src, c.workers, c.meter, c.problems); err != nil {
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
	if err := c.roots.checkRoot(); err != nil {
		return err
	}
	if err := c.own.checkOwnership(); err != nil {
		return err
	}
	return c.own.checkSpaceBefore()
}

func (c *copier) result() Result {
	r := Result{
		Bytes: c.done.bytes.Load(), Files: c.done.files.Load(), Skipped: c.done.skipped.Load(), Deleted: c.done.deleted.Load(),
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

// costs are the durations of a pass's phases.
type costs struct {
	scan, steps, flush time.Duration // steps: preparation, links and directory attributes
	copy, check        effort
}
