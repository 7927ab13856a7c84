//go:build linux

package mover

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"drydock.dev/shared/moverreport"
)

// Options say what to copy and how. Source and Target are existing directories, neither inside the other; the source is
// only read. Everything in the target that the source does not have is deleted, unless OwnOnly forbids it.
type Options struct {
	Source, Target string

	Workers  int  // files treated at once; 0 means by the number of CPUs
	Checksum bool // compare contents, not only size and mtime, before a file is taken to be there already
	NoVerify bool // leave the verification out: the result then has no digest

	Pass    Pass          // PassWhole is an ordinary copy
	Token   string        // names the operation of which a warm and a final pass are
	Member  string        // names the process that writes to the source: what was verified of another one is read again
	OwnOnly bool          // fail if the target holds anything that no pass with this Token has written
	Refill  bool          // with OwnOnly: take a target without this Token's marker, which an earlier final pass has completed
	Settled time.Duration // of a warm pass, see DefaultSettled, which 0 means
	Margin  int           // percent of the target's size that have to stay free; 0 means that nothing is looked at
	Limit   *Limiter      // of a warm pass; nil means none

	Progress         func(moverreport.Progress) // called from one goroutine at a time; may be nil
	ProgressInterval time.Duration              // at most one call an interval, and one at each phase change; 0 means phases only

	hooks hooks
}

// hooks let tests act at exact moments.
type hooks struct {
	copying func(path string)              // between reading a file and looking whether it was changed
	synced  func()                         // between sync and verify
	source  func(op, path string) error    // fails the reading of a source file
	wrote   func(path string, bytes int64) // after a piece of a file was written

	fileSystem func(side) int64     // instead of what statfs says
	flushed    func() error         // the outcome of flushing the source
	unsettled  bool                 // a warm pass neither flushes the source nor leaves young files out
	confirmed  func(path string)    // between reading a file and recording it
	recording  func()               // between writing the record and giving it its name
	selinux    func() string        // instead of this process's context
	anyFile    bool                 // a regular file counts as a device
	room       func(*unix.Statfs_t) // changes what statfs says of the target
}

// Result is what a copy did, also one that failed half-way.
type Result struct {
	Bytes    int64    // data bytes written
	Files    int64    // entries written, directories not counted
	Skipped  int64    // entries that were there already, equal
	Deleted  int64    // entries removed from the target, with all that directories held
	Digest   string   // of both trees, hex, if they were verified to be equal, else "". See Digest
	Warnings []string // what was let pass, in sentences

	Pass                         Pass
	Changed                      int64 // problems of a warm pass with what was changed while it read
	RecordedFiles, RecordedBytes int64 // what a warm pass verified, so that the final pass need not read it
	TrustedFiles, TrustedBytes   int64 // what was not read since an earlier pass verified it and it is unchanged

	Figures Figures // of a warm pass that succeeded
	known   *known  // the same
}

// Copy makes Target a faithful copy of Source. The error, if any, is an *Error. It is safe to repeat: see the package
// comment. A cancelled context stops the copy cleanly; let its cause be an *Interruption if a signal was the reason.
func Copy(ctx context.Context, o Options) (Result, error) {
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

// copier is one copy. The fields up to problems do not change once the scan is over.
type copier struct {
	src, dst *root
	tree     *tree
	workers  int
	checksum bool
	pass     Pass
	token    string
	settled  time.Duration
	margin   int
	ownOnly  bool
	refill   bool
	limit    *Limiter
	kept     []string // names in the target's root that are the mover's own
	hooks    hooks
	meter    *meter
	problems problems

	temps   atomic.Uint64 // makes temporary names
	noRange atomic.Bool   // copy_file_range does not work between these two
	claims  sync.Map      // target inode → the *group that keeps it

	bytes, files, skipped, deleted atomic.Int64
	trustedFiles, trustedBytes     atomic.Int64

	warm   warmth
	cost   costs
	known  *known  // nil until a warm pass has succeeded
	learnt Figures // with it

	digest string
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
	if err := separate(src, dst); err != nil {
		src.close()
		dst.close()
		return nil, err
	}
	c := &copier{
		src: src, dst: dst, checksum: o.Checksum, hooks: o.hooks,
		pass: o.Pass, token: o.Token, settled: o.Settled, margin: o.Margin, ownOnly: o.OwnOnly, refill: o.Refill, limit: o.Limit,
		workers: workersOr(o.Workers), meter: newMeter(o.Progress, o.ProgressInterval),
	}
	if c.settled <= 0 {
		c.settled = DefaultSettled
	}
	c.warm.id.member = o.Member
	c.problems.live = c.pass == PassWarm
	c.problems.selinuxCause = c.selinuxCause
	return c, nil
}

// rootError makes a root that is missing or no directory a wrong argument.
func rootError(err error) error {
	if isAny(err, unix.ENOENT, unix.ENOTDIR, unix.ELOOP) {
		return usageError(err)
	}
	return err
}

// workersOr is n, or by CPU: copying waits for storage more than it computes.
func workersOr(n int) int {
	if n > 0 {
		return n
	}
	return min(max(2*runtime.GOMAXPROCS(0), 4), 32)
}

func (c *copier) close() {
	c.meter.close()
	c.src.close()
	c.dst.close()
}

// run goes through the phases. Collected problems end it before the next phase that could do harm or would be in vain:
// nothing is deleted for a source that could not be read, nothing verified that is known not to be faithful.
func (c *copier) run(ctx context.Context, o Options) (err error) {
	c.meter.enter(moverreport.PhaseScan)
	if err := c.beginWarm(ctx); err != nil {
		return err
	}
	began := time.Now()
	if c.tree, err = scan(ctx, c.src, c.workers, c.meter, &c.problems); err != nil {
		return err
	}
	c.cost.scan = time.Since(began)
	if err := c.problems.err(); err != nil {
		return err
	}
	if err := c.checkTarget(); err != nil {
		return err
	}
	c.meter.enter(moverreport.PhaseCopy)
	for _, step := range []func(context.Context) error{c.timed(c.prepare), c.fillTimed, c.timed(c.link), c.timed(c.finish)} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if err := c.problems.err(); err != nil {
		return err
	}
	c.meter.enter(moverreport.PhaseSync)
	began = time.Now()
	if err := writeBack(ctx, c.dst.fd); err != nil {
		return &fault{target, "flushing", "", err}
	}
	c.cost.flush = time.Since(began)
	if err := c.roomAfter(); err != nil {
		return err
	}
	if c.hooks.synced != nil {
		c.hooks.synced()
	}
	return c.prove(ctx, o.NoVerify)
}

// checkTarget fails, before any data is written or deleted, if the target cannot be faithful, is not ours or is too small.
func (c *copier) checkTarget() error {
	if err := c.checkRoot(); err != nil {
		return err
	}
	if err := c.ownTarget(); err != nil {
		return err
	}
	c.loadRecord()
	return c.roomBefore()
}

// prove ends a pass.
func (c *copier) prove(ctx context.Context, unverified bool) error {
	switch {
	case unverified && c.pass == PassWarm:
		c.warm.fresh = nil
		return nil
	case c.pass == PassWarm:
		if err := c.endWarm(ctx); err != nil {
			return err
		}
		return c.learn(ctx)
	case !unverified:
		c.meter.enter(moverreport.PhaseVerify)
		if err := c.verify(ctx); err != nil {
			return err
		}
	}
	if err := c.endFinal(); err != nil {
		c.digest = ""
		return err
	}
	return nil
}

func (c *copier) result() Result {
	r := Result{
		Bytes: c.bytes.Load(), Files: c.files.Load(), Skipped: c.skipped.Load(), Deleted: c.deleted.Load(),
		Digest: c.digest, Warnings: c.problems.allWarnings(), Pass: c.pass,
		TrustedFiles: c.trustedFiles.Load(), TrustedBytes: c.trustedBytes.Load(), Changed: c.problems.changed,
		known: c.known, Figures: c.learnt,
	}
	if fresh := c.warm.fresh; fresh != nil {
		r.RecordedFiles, r.RecordedBytes = int64(len(fresh.entries)), fresh.bytes
	}
	if c.tree != nil && len(c.tree.nested) > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf(
			"subvolumes of the source are plain directories in the target (%d, the first is %s); their contents are copied",
			len(c.tree.nested), quote(c.tree.nested[0])))
	}
	return r
}
