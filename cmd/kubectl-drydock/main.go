// Command kubectl-drydock is the command line of Drydock: kubectl drydock plan, status, approve, rollback, emit, retry, redeliver, rbac,
// release, doctor and fit. On the PATH it is a plugin of kubectl.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"drydock.dev/cmd/kubectl-drydock/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	if err := command.New(streams).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1) // the process ends, so stop need not run
	}
}
