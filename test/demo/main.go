// Package main demonstrates a resize on a real cluster, and checks its result. The cluster runs a StatefulSet of three replicas. Its
// volumes are nearly full, and their StorageClass cannot expand them. Drydock replaces them with larger volumes, one member at a time.
// A client calls the set's Service throughout. The demo prints events, phases and copied bytes while they happen.
//
// The demo succeeds only if every byte is the same as before, the volumes have grown, every replica is ready, and no call failed.
// Only the old volumes may remain, until their retention ends.
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

func main() {
	o, err := parse(os.Args[1:])
	if err != nil {
		os.Exit(2)
	}
	// The first signal stops the demo, which then cleans up. The second signal kills the process.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, o, show.NewScreen(os.Stdout)))
}

// options holds the command-line flags.
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

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("demo", flag.ContinueOnError)
	f.StringVar(&o.standalone, "standalone", "bin/drydock-standalone", "the `program` that runs all functions in one process")
	f.StringVar(&o.image, "image", "dev.local/drydock:dev", "Drydock's image, for the mover's pods")
	f.StringVar(&o.busybox, "busybox", "dev.local/busybox:1", "an image with busybox, for the StatefulSet's pods")
	f.StringVar(&o.class, "class", "fixed",
		"the `StorageClass`; if it can expand volumes, they are resized without a copy")
	f.StringVar(&o.namespace, "namespace", "drydock-demo",
		"the namespace of the demo: deleted before and after, with its volumes")
	f.StringVar(&o.from, "from", "64Mi", "the `size` of the volumes before")
	f.StringVar(&o.to, "to", "160Mi", "the `size` of the volumes after")
	f.StringVar(&o.strategy, "strategy", string(api.StrategyRolling),
		"rolling resizes one member at a time, whole resizes all of them together")
	f.DurationVar(&o.timeout, "timeout", 10*time.Minute, "how long the resize may take")
	f.BoolVar(&o.keep, "keep", false, "keep the namespace and the volumes at the end")
	f.BoolVar(&o.showWrites, "show-writes", false, "print all writes to the API server at the end, in order")
	f.StringVar(&o.writes, "writes", "", "write the same list to this `file`")
	f.Usage = func() {
		_, _ = fmt.Fprint(f.Output(), "usage: demo [flags]\n\n"+
			"Runs a resize on the cluster of $KUBECONFIG and checks the result. Exit code 0: all checks passed.\n\nflags:\n")
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
