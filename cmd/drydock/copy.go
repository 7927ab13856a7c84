//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"drydock.dev/cmd/drydock/mover"
	"drydock.dev/shared/moverreport"
)

// runCopy is `drydock copy`: the data mover in a Job's pod. It writes progress and, as the last line, the report to
// stdout. It returns an exit code of package moverreport. SIGINT, SIGTERM and the end of the context stop it cleanly.
func runCopy(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && (args[0] == moverreport.FirstContainer || args[0] == moverreport.FinalContainer) {
		return runMember(ctx, args[0], args[1:], stdout, stderr)
	}
	if len(args) > 0 && args[0] == moverreport.PinContainer {
		return runPin(ctx, args[1:], stderr)
	}
	flags, err := parseCopy(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return moverreport.CodeOK
	case err != nil:
		return endCopy(flags, mover.NewReport(mover.Result{}, err, 0), stdout, stderr)
	}
	ctx, stop := withSignals(ctx)
	defer stop()
	lines := json.NewEncoder(stdout)
	began := time.Now()
	o := flags.options()
	o.Progress = func(p moverreport.Progress) { _ = lines.Encode(p) } // a closed reader does not stop the copy
	run := mover.Copy
	if flags.device {
		run = mover.CopyDevice
	}
	result, err := run(ctx, o)
	return endCopy(flags, mover.NewReport(result, err, time.Since(began)), stdout, stderr)
}

// endCopy writes the report and returns its exit code.
func endCopy(flags copyFlags, report moverreport.Report, stdout, stderr io.Writer) int {
	if report.Code != moverreport.CodeOK {
		fmt.Fprintln(stderr, "drydock copy:", report.Message)
	}
	writeReport(flags.report, report.Encode(moverreport.TerminationLogLimit), stderr)
	fmt.Fprintf(stdout, "%s\n", report.Encode(16<<10))
	return report.Code
}

// copyFlags are the arguments of `drydock copy`.
type copyFlags struct {
	workers  int
	checksum bool
	verify   bool
	interval time.Duration
	report   string
	record   string
	first    bool
	final    bool
	token    string
	ownOnly  bool
	settled  time.Duration
	margin   int
	device   bool
	roots    []string // source and target
}

func (c *copyFlags) options() mover.Options {
	o := mover.Options{
		Source: c.roots[0], Target: c.roots[1],
		Workers: c.workers, Checksum: c.checksum, NoVerify: !c.verify,
		Token: c.token, Mount: os.Getenv(moverreport.PodVariable), OwnOnly: c.ownOnly, Settled: c.settled, Margin: c.margin, Record: c.record,
		ProgressInterval: c.interval,
	}
	switch {
	case c.first:
		o.Pass = mover.PassFirst
	case c.final:
		o.Pass = mover.PassFinal
	}
	return o
}

func parseCopy(args []string, stderr io.Writer) (copyFlags, error) {
	var c copyFlags
	f := flag.NewFlagSet("drydock copy", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.IntVar(&c.workers, "workers", 0, "files copied at once; 0 derives it from the number of CPUs")
	f.BoolVar(&c.checksum, "checksum", false, "compare contents, not only size and time, before a file counts as copied")
	f.BoolVar(&c.verify, "verify", true, "read both sides again after the copy and compare them")
	f.DurationVar(&c.interval, "progress-interval", 2*time.Second, "at most one progress line per interval, and one at each phase change")
	f.StringVar(&c.report, "report", "", "also write the report to this `file`, in at most 4096 bytes")
	twoPassFlags(f, &c)
	f.IntVar(
		&c.margin,
		"margin",
		0,
		"fail if less than this `percent` of the target's size would stay free, if possible before anything is copied; 0 disables the check",
	)
	f.BoolVar(&c.device, "device", false, "SOURCE and TARGET are block devices")
	f.Usage = func() { copyUsage(f) }
	if err := f.Parse(args); err != nil {
		return c, asUsage(err)
	}
	c.roots = f.Args()
	if err := c.check(); err != nil {
		return c, asUsage(err)
	}
	return c, nil
}

func twoPassFlags(f *flag.FlagSet, c *copyFlags) {
	f.BoolVar(&c.first, "first-pass", false,
		"first pass, SOURCE is in use: tolerate files that change, verify all others, for --after-first-pass")
	f.BoolVar(&c.final, "after-first-pass", false,
		"final pass: do not read files that are in the --record of --first-pass and have not changed since")
	f.StringVar(&c.token, "token", "",
		"the `operation` that --first-pass, --after-first-pass and --own-target belong to; a record of another operation is ignored")
	f.StringVar(&c.record, "record", "",
		"`file` outside of both trees: --first-pass records verified files in it, and --after-first-pass does not read these again")
	f.BoolVar(&c.ownOnly, "own-target", false,
		"fail if TARGET holds data that no pass with the same --token wrote, instead of deleting it")
	f.DurationVar(
		&c.settled,
		"settled",
		mover.DefaultSettled,
		"with --first-pass, record only files that did not change for this time before it",
	)
}

func (c *copyFlags) check() error {
	switch {
	case len(c.roots) != 2:
		return fmt.Errorf("%d arguments are given, 2 are needed. See drydock copy -h", len(c.roots))
	case c.workers < 0 || c.interval < 0:
		return errors.New("--workers and --progress-interval cannot be negative")
	case c.first && c.final:
		return errors.New("--first-pass and --after-first-pass exclude each other")
	case c.record != "" && !c.first && !c.final:
		return errors.New("--record is for --first-pass and --after-first-pass")
	case (c.first || c.final) && !c.device && c.token == "":
		return errors.New("--first-pass and --after-first-pass need a --token")
	case c.ownOnly && (c.device || c.token == ""):
		return errors.New("--own-target is for trees and needs a --token")
	case c.settled < minSettled:
		return fmt.Errorf("--settled must be at least %s, the precision of some time stamps", minSettled)
	case c.margin < 0 || c.margin > 99:
		return errors.New("--margin is a percentage from 0 to 99")
	case c.margin > 0 && c.device:
		return errors.New("--margin is for trees: a device has no free space")
	}
	return nil
}

// minSettled is twice the coarsest precision of file system times.
const minSettled = 2 * time.Second

func asUsage(err error) error {
	if errors.Is(err, flag.ErrHelp) {
		return err
	}
	return &mover.Error{Code: moverreport.CodeUsage, Reason: moverreport.ReasonUsage, Message: err.Error(), Err: err}
}

func copyUsage(f *flag.FlagSet) {
	w := f.Output()
	fmt.Fprint(w, "usage: drydock copy [flags] SOURCE TARGET\n"+
		"       drydock copy --first-pass --token=OPERATION [flags] SOURCE TARGET\n"+
		"       drydock copy --after-first-pass --token=OPERATION [flags] SOURCE TARGET\n"+
		"       drydock copy --device [flags] SOURCE_DEV TARGET_DEV\n"+
		"       drydock copy first|final [flags]    see drydock copy first -h\n\n"+
		"Makes TARGET a faithful copy of SOURCE. Entries that SOURCE does not have are deleted from TARGET, but see --own-target.\n\nflags:\n")
	f.PrintDefaults()
	printExitCodes(w)
}

func printExitCodes(w io.Writer) {
	fmt.Fprint(w, "\nexit codes (+ a retry may succeed):\n")
	for _, code := range moverreport.Codes() {
		sign := " "
		if moverreport.Retryable(code) {
			sign = "+"
		}
		fmt.Fprintf(w, "  %3d %s %s\n", code, sign, moverreport.Explain(code))
	}
}
