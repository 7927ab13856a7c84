// Package main shows a resize from end to end on a real cluster, and judges it: a StatefulSet of three replicas with
// nearly full volumes of a class that cannot expand gets larger ones, one member at a time, while a client calls its Service
// and the events, the phases and the bytes pass by. It ends well only if every byte is the same as before, the volumes have
// grown, every replica is back, no call failed, and nothing but the old volumes in their window is left behind.
//
//	go run ./test/demo --standalone=bin/drydock-standalone --image=dev.local/drydock:dev --busybox=dev.local/busybox:1
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/test/demo/show"
)

// options are the flags.
type options struct {
	standalone string
	image      string
	busybox    string
	class      string
	namespace  string
	from, to   string
	strategy   string
	timeout    time.Duration
	keep       bool
	showWrites bool
	writes     string
}

func main() {
	o, err := parse(os.Args[1:])
	if err != nil {
		os.Exit(2)
	}
	// The first signal ends the scene, which then clears up; the second one ends the program.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop)
	os.Exit(play(ctx, o, show.NewScreen(os.Stdout)))
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("demo", flag.ContinueOnError)
	f.StringVar(&o.standalone, "standalone", "bin/drydock-standalone", "the `program` that runs all functions in one process")
	f.StringVar(&o.image, "image", "dev.local/drydock:dev", "Drydock's image, for the mover's pods")
	f.StringVar(&o.busybox, "busybox", "dev.local/busybox:1", "an image with busybox, for the StatefulSet's pods")
	f.StringVar(&o.class, "class", "fixed", "a `StorageClass`; volumes of one that can expand are resized without a copy")
	f.StringVar(&o.namespace, "namespace", "drydock-demo", "the namespace to play in: deleted before and after, with its volumes")
	f.StringVar(&o.from, "from", "64Mi", "the `size` of the volumes before")
	f.StringVar(&o.to, "to", "160Mi", "the `size` of the volumes after")
	f.StringVar(&o.strategy, "strategy", string(api.StrategyRolling), "rolling moves one member at a time, whole all of them together")
	f.DurationVar(&o.timeout, "timeout", 10*time.Minute, "how long the resize may take")
	f.BoolVar(&o.keep, "keep", false, "leave namespace and volumes as they are at the end")
	f.BoolVar(&o.showWrites, "show-writes", false, "print at the end what was written to the API server, in order")
	f.StringVar(&o.writes, "writes", "", "write the same list to this `file`")
	f.Usage = func() {
		_, _ = fmt.Fprint(f.Output(), "usage: demo [flags]\n\n"+
			"Plays a resize on the cluster of $KUBECONFIG and judges it. Exit code 0: everything is as it should be.\n\nflags:\n")
		f.PrintDefaults()
	}
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if len(f.Args()) > 0 {
		_, _ = fmt.Fprintf(f.Output(), "demo: unknown argument %q; see demo -h\n", f.Arg(0))
		return o, flag.ErrHelp
	}
	return o, nil
}
