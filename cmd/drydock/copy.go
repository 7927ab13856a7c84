//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
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
	if flags.digest != "" {
		return printDigest(ctx, flags, stdout, stderr)
	}
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

func printDigest(ctx context.Context, flags copyFlags, stdout, stderr io.Writer) int {
	var digest string
	var err error
	if flags.device {
		digest, err = mover.DeviceDigest(ctx, flags.digest, 0, flags.workers)
	} else {
		digest, err = mover.Digest(ctx, flags.digest, flags.workers)
	}
	if err != nil {
		fmt.Fprintln(stderr, "drydock copy:", err)
		return mover.NewReport(mover.Result{}, err, 0).Code
	}
	fmt.Fprintln(stdout, digest)
	return moverreport.CodeOK
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
