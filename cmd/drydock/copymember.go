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
	"path/filepath"
	"time"

	"drydock.dev/cmd/drydock/membercopy"
	"drydock.dev/cmd/drydock/mover"
	"drydock.dev/shared/moverreport"
)

// memberFlags are the arguments of `drydock copy first` and `drydock copy final`.
type memberFlags struct {
	stage     string
	options   membercopy.Options
	bandwidth int64
	report    string
}

// runMember is `drydock copy first` and `drydock copy final`: the containers of a mover that waits for its member. It
// writes progress and, as the last line, the report to stdout. It returns an exit code of package moverreport.
func runMember(ctx context.Context, stage string, args []string, stdout, stderr io.Writer) int {
	flags, err := parseMember(stage, args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return moverreport.CodeOK
	case err != nil:
		return endMember(flags, moverreport.MemberReport{Stage: stage, Result: moverreport.ResultFailed, Code: moverreport.CodeUsage,
			Reason: moverreport.ReasonUsage, Message: err.Error()}, stdout, stderr)
	}
	ctx, stop := withSignals(ctx)
	defer stop()
	lines := json.NewEncoder(stdout)
	flags.options.Progress = func(p moverreport.Progress) { _ = lines.Encode(p) } // a closed reader does not stop the copy
	flags.options.Warn = func(text string) { fmt.Fprintln(stderr, "drydock copy:", text) }
	run := membercopy.First
	if stage == moverreport.FinalContainer {
		run = membercopy.Final
	}
	return endMember(flags, run(ctx, flags.options), stdout, stderr)
}

func endMember(flags memberFlags, report moverreport.MemberReport, stdout, stderr io.Writer) int {
	if report.Code != moverreport.CodeOK {
		fmt.Fprintln(stderr, "drydock copy:", report.Message)
	}
	writeReport(flags.report, report.Encode(moverreport.TerminationLogLimit), stderr)
	fmt.Fprintf(stdout, "%s\n", report.Encode(16<<10))
	return report.Code
}

func parseMember(stage string, args []string, stderr io.Writer) (memberFlags, error) {
	m := memberFlags{stage: stage}
	f := flag.NewFlagSet("drydock copy "+stage, flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&m.report, "report", "", "also write the report to this `file`, in at most 4096 bytes")
	f.Int64Var(&m.bandwidth, "bandwidth", 0, "`bytes` per second read and written beside the running member; 0 means no limit")
	volumeFlags(f, &m.options)
	copyPassFlags(f, &m.options)
	if stage == moverreport.FinalContainer {
		waitFlags(f, &m.options)
	}
	f.Usage = func() { memberUsage(f, stage) }
	if err := f.Parse(args); err != nil {
		return m, err
	}
	m.options.Limit = mover.NewLimiter(m.bandwidth)
	return m, m.check(f.NArg())
}

func volumeFlags(f *flag.FlagSet, o *membercopy.Options) {
	f.StringVar(&o.Sources, "sources", moverreport.SourceDir, "the `directory` with a volume or device of each claim")
	f.StringVar(&o.Targets, "targets", moverreport.TargetDir, "the `directory` with the new volume or device of each claim")
	f.StringVar(&o.Token, "token", "", "the `operation`; a target begun by another operation is refused")
	f.StringVar(&o.Member, "member", "", "the `UID` of the member's pod; files verified while another pod ran are read again")
	f.StringVar(&o.Mount, "mount", os.Getenv(moverreport.PodVariable), "the `UID` of this mover's pod, whose volumes stay mounted; "+
		"files verified by another pod are read again")
	f.StringVar(&o.Records, "records", moverreport.RecordDir,
		"the `directory` of this pod where a container leaves the records of verified files for the next one; empty for none")
	f.BoolVar(&o.Refill, "refill", false, "accept targets that an earlier final pass of the operation completed")
	f.Func("claim", "a claim: `NAME[,device][,margin=PERCENT]`; repeated for each", func(text string) error {
		c, err := moverreport.ParseClaim(text)
		o.Claims = append(o.Claims, c)
		return err
	})
}

func copyPassFlags(f *flag.FlagSet, o *membercopy.Options) {
	f.DurationVar(&o.MaxStop, "max-stop", 0, "the longest final pass")
	f.IntVar(&o.Workers, "workers", 0, "files copied at once; 0 derives it from the number of CPUs")
	f.DurationVar(&o.Settled, "settled", mover.DefaultSettled, "record only files that did not change for this time before a pass")
	f.DurationVar(&o.Idle, "idle", membercopy.DefaultIdle, "the minimum pause between two passes")
	f.DurationVar(&o.ProgressInterval, "progress-interval", 2*time.Second,
		"at most one progress line per interval, and one at each phase change")
}

func waitFlags(f *flag.FlagSet, o *membercopy.Options) {
	annotations := filepath.Join(moverreport.PodInfoDir, moverreport.AnnotationsFile)
	f.StringVar(&o.Annotations, "annotations", annotations, "the `file` with the pod's annotations")
	f.DurationVar(&o.Lease, "lease", moverreport.DefaultLease, "end if the lease does not change for this time")
	f.DurationVar(&o.Poll, "poll", membercopy.DefaultPoll, "how often the annotations are read")
}

func (m *memberFlags) check(arguments int) error {
	o := &m.options
	names := map[string]bool{}
	for _, c := range o.Claims {
		if names[c.Name] {
			return fmt.Errorf("--claim=%s is given twice", c.Name)
		}
		names[c.Name] = true
	}
	switch {
	case arguments > 0:
		return errors.New("the command takes only flags. See drydock copy " + m.stage + " -h")
	case len(o.Claims) == 0:
		return errors.New("--claim is missing")
	case o.Token == "" || o.Member == "":
		return errors.New("--token and --member are needed")
	case o.Mount == "":
		return errors.New("--mount or the variable " + moverreport.PodVariable + " is needed")
	case o.MaxStop <= 0:
		return errors.New("--max-stop is needed and must be greater than 0")
	case m.bandwidth < 0 || o.Workers < 0 || o.ProgressInterval < 0:
		return errors.New("--bandwidth, --workers and --progress-interval cannot be negative")
	case o.Settled < minSettled:
		return fmt.Errorf("--settled must be at least %s, the precision of some time stamps", minSettled)
	case o.Idle <= 0 || m.stage == moverreport.FinalContainer && (o.Lease <= 0 || o.Poll <= 0):
		return errors.New("--idle, --lease and --poll must be greater than 0")
	}
	return nil
}

func memberUsage(f *flag.FlagSet, stage string) {
	what := map[string]string{
		moverreport.FirstContainer: "Copies the claims of a running member until a final pass would be short.",
		moverreport.FinalContainer: "Waits beside a running member. " +
			"Makes the final pass when the pod's annotations signal that the member has stopped.",
	}
	w := f.Output()
	fmt.Fprintf(w, "usage: drydock copy %s --token=OPERATION --member=UID --max-stop=DURATION --claim=NAME ... [flags]\n\n", stage)
	fmt.Fprintf(w, "%s\n\nflags:\n", what[stage])
	f.PrintDefaults()
	printExitCodes(w)
}

// runPin is `drydock copy pin`: the container that keeps the volumes attached after the copy. It copies nothing.
func runPin(ctx context.Context, args []string, stderr io.Writer) int {
	options, err := parsePin(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return moverreport.CodeOK
	case err != nil:
		fmt.Fprintln(stderr, "drydock copy:", err)
		return moverreport.CodeUsage
	}
	ctx, stop := withSignals(ctx)
	defer stop()
	return membercopy.Pin(ctx, options)
}

func parsePin(args []string, stderr io.Writer) (membercopy.Options, error) {
	o := membercopy.Options{}
	f := flag.NewFlagSet("drydock copy "+moverreport.PinContainer, flag.ContinueOnError)
	f.SetOutput(stderr)
	waitFlags(f, &o)
	f.Usage = func() {
		fmt.Fprintf(stderr, "usage: drydock copy %s [flags]\n\n"+
			"Keeps the pod running and its volumes attached. Copies nothing.\n\nflags:\n", moverreport.PinContainer)
		f.PrintDefaults()
		printExitCodes(stderr)
	}
	if err := f.Parse(args); err != nil {
		return o, err
	}
	switch {
	case f.NArg() > 0:
		return o, errors.New("the command takes only flags. See drydock copy " + moverreport.PinContainer + " -h")
	case o.Lease <= 0 || o.Poll <= 0:
		return o, errors.New("--lease and --poll must be greater than 0")
	}
	return o, nil
}
