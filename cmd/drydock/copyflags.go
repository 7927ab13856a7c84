//go:build linux

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"drydock.dev/cmd/drydock/mover"
	"drydock.dev/shared/moverreport"
)

// copyFlags are the arguments of `drydock copy`.
type copyFlags struct {
	workers  int
	checksum bool
	verify   bool
	interval time.Duration
	report   string
	digest   string
	warm     bool
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
		Token: c.token, OwnOnly: c.ownOnly, Settled: c.settled, Margin: c.margin,
		ProgressInterval: c.interval,
	}
	switch {
	case c.warm:
		o.Pass = mover.PassWarm
	case c.final:
		o.Pass = mover.PassFinal
	}
	return o
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
	f.StringVar(&c.digest, "digest", "", "copy nothing: print the digest of the tree in `dir`; with --device of that device")
	twoPasses(f, &c)
	f.IntVar(&c.margin, "margin", 0, "fail if less than so many `percent` of the target's size would stay free, before anything is copied if that can be told then; 0 means not to look")
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

func twoPasses(f *flag.FlagSet, c *copyFlags) {
	f.BoolVar(&c.warm, "warm", false, "SOURCE is being written to: let pass what changes, verify and record what does not, for --after-warm")
	f.BoolVar(&c.final, "after-warm", false, "do not read again what --warm has recorded and has not changed since")
	f.StringVar(&c.token, "token", "", "the `operation` that --warm, --after-warm and --own-target are part of; a record of another one is ignored")
	f.BoolVar(&c.ownOnly, "own-target", false, "fail if TARGET holds anything that no pass with the same --token has written, instead of deleting it")
	f.DurationVar(&c.settled, "settled", mover.DefaultSettled, "with --warm, record only what did not change for so long before it")
}

func (c *copyFlags) check() error {
	want := 2
	if c.digest != "" {
		want = 0
	}
	switch {
	case len(c.roots) != want:
		return fmt.Errorf("%d arguments are given, %d are needed; see drydock copy -h", len(c.roots), want)
	case c.workers < 0 || c.interval < 0:
		return errors.New("--workers and --progress-interval cannot be negative")
	case c.warm && c.final:
		return errors.New("--warm and --after-warm are two passes")
	case (c.warm || c.final) && !c.device && c.token == "":
		return errors.New("--warm and --after-warm need a --token")
	case c.ownOnly && (c.device || c.token == ""):
		return errors.New("--own-target is for trees, and needs a --token")
	case c.settled < leastSettled:
		return fmt.Errorf("--settled is at least %s: time stamps may be that coarse", leastSettled)
	case c.margin < 0 || c.margin > 99:
		return errors.New("--margin is a percentage from 0 to 99")
	case c.margin > 0 && c.device:
		return errors.New("--margin is for trees: a device has no free space")
	}
	return nil
}

// leastSettled is two of the coarsest grain of a file system's times.
const leastSettled = 2 * time.Second

func asUsage(err error) error {
	if errors.Is(err, flag.ErrHelp) {
		return err
	}
	return &mover.Error{Code: moverreport.CodeUsage, Reason: moverreport.ReasonUsage, Message: err.Error(), Err: err}
}

func copyUsage(f *flag.FlagSet) {
	w := f.Output()
	fmt.Fprint(w, "usage: drydock copy [flags] SOURCE TARGET\n       drydock copy --digest DIR\n"+
		"       drydock copy --warm --token=OPERATION [flags] SOURCE TARGET\n"+
		"       drydock copy --after-warm --token=OPERATION [flags] SOURCE TARGET\n"+
		"       drydock copy --device [flags] SOURCE_DEV TARGET_DEV\n"+
		"       drydock copy first|final [flags]    see drydock copy first -h\n\n"+
		"Makes TARGET a faithful copy of SOURCE. What SOURCE does not have is deleted from TARGET (but see --own-target).\n\nflags:\n")
	f.PrintDefaults()
	printExitCodes(w)
}

func printExitCodes(w io.Writer) {
	fmt.Fprint(w, "\nexit codes (+ another try makes sense):\n")
	for _, code := range moverreport.Codes() {
		sign := " "
		if moverreport.Retryable(code) {
			sign = "+"
		}
		fmt.Fprintf(w, "  %3d %s %s\n", code, sign, moverreport.Explain(code))
	}
}
