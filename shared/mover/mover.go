package mover

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Options say what to copy and how. Source and Target are existing directories, neither inside the other; the source is
// only read. Everything in the target that the source does not have is deleted.
type Options struct {
	Source, Target string

	Workers  int  // files treated at once; 0 means by the number of CPUs
	Checksum bool // compare contents, not only size and mtime, before a file is taken to be there already
	NoVerify bool // leave the verification out: the result then has no digest

	Progress         func(Progress) // called from one goroutine at a time; may be nil
	ProgressInterval time.Duration  // at most one call an interval, and one at each phase change; 0 means phases only

	hooks hooks
}

// hooks let tests act at exact moments.
type hooks struct {
	copying func(path string)              // between reading a file and looking whether it was changed
	synced  func()                         // between sync and verify
	source  func(op, path string) error    // fails the reading of a source file
	wrote   func(path string, bytes int64) // after a piece of a file was written
}

// Result is what a copy did, also one that failed half-way.
type Result struct {
	Bytes    int64    // data bytes written
	Files    int64    // entries written, directories not counted
	Skipped  int64    // entries that were there already, equal
	Deleted  int64    // entries removed from the target, with all that directories held
	Digest   string   // of both trees, hex, if they were verified to be equal, else "". See Digest
	Warnings []string // what was let pass, in sentences
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
	hooks    hooks
	meter    *meter
	problems problems

	temps   atomic.Uint64 // makes temporary names
	noRange atomic.Bool   // copy_file_range does not work between these two
	claims  sync.Map      // target inode → the *group that keeps it

	bytes, files, skipped, deleted atomic.Int64

	rootKept bool // the target's root kept its own attributes
	digest   string
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
	return &copier{
		src: src, dst: dst, checksum: o.Checksum, hooks: o.hooks,
		workers: workersOr(o.Workers), meter: newMeter(o.Progress, o.ProgressInterval),
	}, nil
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
	c.meter.enter(PhaseScan)
	if c.tree, err = scan(ctx, c.src, c.workers, c.meter, &c.problems); err != nil {
		return err
	}
	if err := c.problems.err(); err != nil {
		return err
	}
	c.meter.enter(PhaseCopy)
	for _, step := range []func(context.Context) error{c.prepare, c.fill, c.link, c.finish} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if err := c.problems.err(); err != nil {
		return err
	}
	c.meter.enter(PhaseSync)
	if err := againErr(func() error { return unix.Syncfs(c.dst.fd) }); err != nil {
		return &fault{target, "flushing", "", err}
	}
	if o.NoVerify {
		return nil
	}
	if c.hooks.synced != nil {
		c.hooks.synced()
	}
	c.meter.enter(PhaseVerify)
	return c.verify(ctx)
}

func (c *copier) result() Result {
	r := Result{
		Bytes: c.bytes.Load(), Files: c.files.Load(), Skipped: c.skipped.Load(), Deleted: c.deleted.Load(),
		Digest: c.digest,
	}
	if c.rootKept {
		r.Warnings = append(r.Warnings, "the target's root directory keeps its own owner, mode, time or attributes, since this process does not own it")
	}
	if c.tree != nil {
		for _, m := range c.tree.mounts {
			r.Warnings = append(r.Warnings, "another file system is mounted in the source at "+quote(m)+"; it was not copied, its directory is empty in the target")
		}
	}
	return r
}
