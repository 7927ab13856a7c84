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
	"os"
	"os/signal"
	"syscall"

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
