package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"drydock.dev/shared/mover"
)

// copyFlags are the arguments of `drydock copy`.
type copyFlags struct {
	workers  int
	checksum bool
	verify   bool
	interval time.Duration
	report   string
	digest   string
	roots    []string // source and target
}

// runCopy is `drydock copy`: the data mover, in a Job's pod. It writes progress and, as the last line, the report to
// stdout, and returns an exit code of package mover. SIGINT and SIGTERM end it cleanly, as ctx does.
func runCopy(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags, err := parseCopy(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return mover.CodeOK
	case err != nil:
		return endCopy(flags, mover.NewReport(mover.Result{}, err, 0), stdout, stderr)
	}
	ctx, stop := withSignals(ctx)
	defer stop()
	if flags.digest != "" {
		return printDigest(ctx, flags, stdout, stderr)
	}
	lines := json.NewEncoder(stdout)
	began := time.Now()
	result, err := mover.Copy(ctx, mover.Options{
		Source: flags.roots[0], Target: flags.roots[1],
		Workers: flags.workers, Checksum: flags.checksum, NoVerify: !flags.verify,
		Progress:         func(p mover.Progress) { _ = lines.Encode(p) }, // a reader that went away stops no copy
		ProgressInterval: flags.interval,
	})
	return endCopy(flags, mover.NewReport(result, err, time.Since(began)), stdout, stderr)
}

func parseCopy(args []string, stderr io.Writer) (copyFlags, error) {
	var c copyFlags
	f := flag.NewFlagSet("drydock copy", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.IntVar(&c.workers, "workers", 0, "files treated at once; 0 means by the number of CPUs")
	f.BoolVar(&c.checksum, "checksum", false, "compare contents, not only size and time, before a file is taken to be there already")
	f.BoolVar(&c.verify, "verify", true, "read both sides again after the copy and compare them")
	f.DurationVar(&c.interval, "progress-interval", 2*time.Second, "at most one progress line in this time, and one at each phase change")
	f.StringVar(&c.report, "report", "", "also write the report to this `file`, in at most 4096 bytes")
	f.StringVar(&c.digest, "digest", "", "copy nothing: print the digest of the tree in `dir`")
	f.Usage = func() { copyUsage(f) }
	if err := f.Parse(args); err != nil {
		return c, asUsage(err)
	}
	c.roots = f.Args()
	want := 2
	if c.digest != "" {
		want = 0
	}
	if len(c.roots) != want {
		return c, asUsage(fmt.Errorf("%d directories are given, %d are needed; see drydock copy -h", len(c.roots), want))
	}
	if c.workers < 0 || c.interval < 0 {
		return c, asUsage(errors.New("--workers and --progress-interval cannot be negative"))
	}
	return c, nil
}

func asUsage(err error) error {
	if errors.Is(err, flag.ErrHelp) {
		return err
	}
	return &mover.Error{Code: mover.CodeUsage, Reason: mover.ReasonUsage, Message: err.Error(), Err: err}
}

func copyUsage(f *flag.FlagSet) {
	w := f.Output()
	fmt.Fprint(w, "usage: drydock copy [flags] SOURCE TARGET\n       drydock copy --digest DIR\n\n"+
		"Makes TARGET a faithful copy of SOURCE. What SOURCE does not have is deleted from TARGET.\n\nflags:\n")
	f.PrintDefaults()
	fmt.Fprint(w, "\nexit codes (+ another try makes sense):\n")
	for _, code := range mover.Codes() {
		sign := " "
		if mover.Retryable(code) {
			sign = "+"
		}
		fmt.Fprintf(w, "  %3d %s %s\n", code, sign, mover.Explain(code))
	}
}

// withSignals cancels the context with the signal as its cause.
func withSignals(ctx context.Context) (context.Context, func()) {
	// The parent may be cancelled by the same signal through a handler of its own: only ours knows which it was, so we
	// look whether one came before we believe the parent's cause.
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	if ctx.Err() != nil { // before a signal could have been ours
		cancel(context.Cause(ctx))
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	var done sync.WaitGroup
	done.Go(func() {
		select {
		case s := <-signals:
			cancel(&mover.Interruption{Signal: s})
		case <-ctx.Done():
			cancel(parentCause(ctx, signals))
		case <-own.Done():
		}
	})
	return own, func() {
		signal.Stop(signals)
		cancel(nil)
		done.Wait()
	}
}

// signalGrace is how long after the parent's end a signal is still taken to be its cause.
const signalGrace = 50 * time.Millisecond

func parentCause(ctx context.Context, signals <-chan os.Signal) error {
	select {
	case s := <-signals:
		return &mover.Interruption{Signal: s}
	case <-time.After(signalGrace):
		return context.Cause(ctx)
	}
}

func printDigest(ctx context.Context, flags copyFlags, stdout, stderr io.Writer) int {
	digest, err := mover.Digest(ctx, flags.digest, flags.workers)
	if err != nil {
		fmt.Fprintln(stderr, "drydock copy:", err)
		return mover.NewReport(mover.Result{}, err, 0).Code
	}
	fmt.Fprintln(stdout, digest)
	return mover.CodeOK
}

// endCopy writes the report. A copy does not fail because its report could not be written: the exit code says it all.
func endCopy(flags copyFlags, report mover.Report, stdout, stderr io.Writer) int {
	if report.Code != mover.CodeOK {
		fmt.Fprintln(stderr, "drydock copy:", report.Message)
	}
	if flags.report != "" {
		if err := report.WriteFile(flags.report); err != nil {
			fmt.Fprintln(stderr, "drydock copy: writing the report:", err)
		}
	}
	fmt.Fprintf(stdout, "%s\n", report.Encode(16<<10))
	return report.Code
}
