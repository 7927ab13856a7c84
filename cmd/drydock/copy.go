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
	"os/signal"
	"sync"
	"syscall"
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

// withSignals returns a context that a signal cancels, with the signal as its cause.
func withSignals(ctx context.Context) (context.Context, func()) {
	// The same signal may also cancel the parent through another handler. Only this handler knows which signal it was, so
	// it checks for a signal before it uses the parent's cause.
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	if ctx.Err() != nil { // cancelled before a signal could arrive here
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

// signalGrace is how long after the parent's end a signal still counts as its cause.
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
