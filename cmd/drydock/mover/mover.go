//go:build linux

package mover

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"drydock.dev/cmd/drydock/mover/fault"
	"drydock.dev/cmd/drydock/mover/forecast"
	"drydock.dev/cmd/drydock/mover/fsys"
	"drydock.dev/cmd/drydock/mover/pool"
	"drydock.dev/cmd/drydock/mover/progress"
	"drydock.dev/cmd/drydock/mover/record"
	"drydock.dev/cmd/drydock/mover/target"
	"drydock.dev/cmd/drydock/mover/tree"
	"drydock.dev/cmd/drydock/mover/units"
	"drydock.dev/cmd/drydock/mover/write"
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

	Pass    tree.Pass         // PassWhole is an ordinary copy
	Token   string            // the operation that the first and final passes belong to
	Member  string            // the process that writes to the source; contents verified under another one are read again
	Mount   string            // names the mounts of both volumes, and changes if one is unmounted; the same applies
	OwnOnly bool              // fail if the target holds data that no pass with this Token wrote
	Refill  bool              // with OwnOnly: accept a target without this Token's marker, left by a completed final pass
	Settled time.Duration     // for a first pass, see DefaultSettled; 0 means that default
	Margin  int               // percent of the target's size that must stay free; 0 disables the check
	Last    Result            // of the last first pass in this process over the same trees, or the zero value
	Record  string            // a file outside of both trees that carries the record from a first pass to the next process; "" for none
	Limit   *progress.Limiter // bandwidth limit of a first pass; nil means none

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

	Pass                         tree.Pass
	Changed                      int64 // entries that changed while a first pass read them
	RecordedFiles, RecordedBytes int64 // verified by a first pass: the final pass need not read them
	TrustedFiles, TrustedBytes   int64 // not read: verified by an earlier pass and unchanged since

	Figures forecast.Figures    // of a first pass that succeeded
	state   *forecast.FirstPass // of a first pass that succeeded; nil otherwise
}

// Copy makes Target a faithful copy of Source. Any error is an *Error. Copy is safe to repeat, see the package comment.
// A cancelled context stops it cleanly. If a signal was the reason, the context's cause should be an *Interruption.
func Copy(ctx context.Context, o Options) (Result, error) {
	tuneCollector()
	c, err := newCopier(o)
	if err != nil {
		return Result{}, fault.ToError(err, nil)
	}
	defer c.close()
	err = c.run(ctx, o)
	if e := fault.ToError(err, c.Dst); e != nil {
		return c.result(), e
	}
	return c.result(), nil
}

func newCopier(o Options) (*copier, error) {
	src, err := fsys.OpenRoot(o.Source, fault.Source)
	if err != nil {
		return nil, fault.RootError(err)
	}
	dst, err := fsys.OpenRoot(o.Target, fault.Target)
	if err != nil {
		src.Close()
		return nil, fault.RootError(err)
	}
	if err := fsys.CheckSeparate(src, dst); err != nil {
		src.Close()
		dst.Close()
		return nil, err
	}
	if o.hooks.fileSystem != nil {
		src.Kind, dst.Kind = o.hooks.fileSystem(fault.Source), o.hooks.fileSystem(fault.Target)
	}
	return assemble(src, dst, o), nil
}

// copier is one copy.
type copier struct {
	*tree.Job
	own   *target.Owner
	roots *target.Roots
	trust *record.Trust
	flags *write.Flags
	dirs  *write.Dirs
	files *write.Files
	links *write.Links
	hooks *hooks

	scanBegan  time.Time
	recordPath string
	saved      *record.Record      // what this first pass recorded; nil if nothing was recorded
	last       *forecast.FirstPass // of the last first pass in this process; may be nil
	keeper     units.Keeper
	cost       costs
	state      *forecast.FirstPass // nil until a first pass has succeeded
	measured   forecast.Figures    // zero until then
	verified   bool
}

// assemble makes a copier of its parts.
func assemble(src, dst *fsys.Root, o Options) *copier {
	c := &copier{recordPath: o.Record, last: o.Last.state, hooks: &o.hooks}
	c.Job = &tree.Job{
		Src: src, Dst: dst, Pass: o.Pass, Workers: pool.Workers(o.Workers), Limit: o.Limit,
		Meter:    progress.NewMeter(o.Progress, o.ProgressInterval),
		Problems: &fault.Problems{SourceActive: o.Pass == tree.PassFirst, SelinuxCause: c.selinuxCause},
	}
	c.trust = &record.Trust{Pass: o.Pass, Settled: o.Settled, Problems: c.Problems, Seams: c.hooks, Dev: src.Self.Dev}
	c.trust.Id.Token, c.trust.Id.Member, c.trust.Id.Mount = o.Token, o.Member, o.Mount
	if o.Settled <= 0 {
		c.trust.Settled = record.DefaultSettled
	}
	c.own = &target.Owner{Job: c.Job, Token: o.Token, OwnOnly: o.OwnOnly, Refill: o.Refill, Margin: o.Margin, Seams: c.hooks}
	c.roots = &target.Roots{Job: c.Job}
	c.flags = &write.Flags{Job: c.Job, Own: c.own}
	c.links = &write.Links{Job: c.Job, Own: c.own}
	content := &write.Contents{Job: c.Job, Own: c.own, Trust: c.trust, Flags: c.flags, Seams: c.hooks}
	c.dirs = &write.Dirs{Job: c.Job, Own: c.own, Roots: c.roots, Flags: c.flags, Content: content}
	c.files = &write.Files{
		Job: c.Job, Own: c.own, Trust: c.trust, Flags: c.flags, Content: content, Links: c.links, Keeper: &c.keeper,
		Kept: c.last.KeptHashes(), Effort: &c.cost.copy, Checksum: o.Checksum, Seams: c.hooks,
	}
	return c
}

func (c *copier) close() {
	c.Meter.Close()
	c.own.ReleaseTarget()
	c.Src.Close()
	c.Dst.Close()
}

// run goes through the phases. Collected problems end it before a phase that could do harm or would be in vain. Nothing
// is deleted if the source could not be read completely, and a target that is known to be unfaithful is not verified.
func (c *copier) run(ctx context.Context, o Options) (err error) {
	c.Meter.Enter(moverreport.PhaseScan)
	if err := c.trust.Begin(ctx, c.Src, c.Dst, c.last.LastRecord(), c.recordPath); err != nil {
		return err
	}
	c.scanBegan = time.Now()
	if c.Tree, err = tree.Scan(ctx, c.Src, c.Workers, c.Meter, c.Problems); err != nil {
		return err
	}
	c.cost.scan = time.Since(c.scanBegan)
	if c.trust.Current != nil {
		c.trust.Current.Reserve(c.Meter.FilesTotal.Load())
	}
	if err := c.Problems.Err(); err != nil {
		return err
	}
	if err := c.checkTarget(); err != nil {
		return err
	}
	c.Meter.Enter(moverreport.PhaseCopy)
	return c.transfer(ctx, o.NoVerify)
}

// checkTarget fails before any data is written or deleted if the target cannot become faithful, belongs to another
// operation or is too small.
func (c *copier) checkTarget() error {
	if err := c.roots.CheckRoot(); err != nil {
		return err
	}
	if err := c.own.CheckOwnership(); err != nil {
		return err
	}
	return c.own.CheckSpaceBefore()
}

func (c *copier) result() Result {
	r := Result{
		Bytes: c.Done.Bytes.Load(), Files: c.Done.Files.Load(), Skipped: c.Done.Skipped.Load(), Deleted: c.Done.Deleted.Load(),
		Total:    c.Meter.BytesTotal.Load(),
		Verified: c.verified, Warnings: c.Problems.AllWarnings(), Pass: c.Pass,
		TrustedFiles: c.trust.Files.Load(), TrustedBytes: c.trust.Bytes.Load(), Changed: c.Problems.Changed,
		state: c.state, Figures: c.measured,
	}
	if fresh := c.trust.Current; fresh != nil {
		r.RecordedFiles, r.RecordedBytes = int64(len(fresh.Files)), fresh.Bytes
	}
	if c.Tree != nil && len(c.Tree.Nested) > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf(
			"subvolumes of the source are plain directories in the target (%d, the first is %s); their contents are copied",
			len(c.Tree.Nested), fault.Quote(c.Tree.Nested[0])))
	}
	return r
}

// costs are the durations of a pass's phases.
type costs struct {
	scan, steps, flush time.Duration // steps: preparation, links and directory attributes
	copy, check        forecast.Effort
}

// gcPercent lets the heap grow by half between two collections. Most of it is the tree, which has no pointers to follow, so
// a collection is cheap.
const gcPercent = 50

// tuneCollector sets the percentage for this process, unless the environment sets one.
var tuneCollector = sync.OnceFunc(func() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
})
