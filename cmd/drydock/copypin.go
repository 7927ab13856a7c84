//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"

	"drydock.dev/cmd/drydock/membercopy"
	"drydock.dev/shared/moverreport"
)

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
