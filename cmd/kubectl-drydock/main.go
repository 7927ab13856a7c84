// Command kubectl-drydock is the command line of Drydock. On the PATH it is the plugin kubectl drydock. Package command lists its
// subcommands.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"

	"drydock.dev/cmd/kubectl-drydock/command"
)

// version is the version of the release. cmd/release sets it with the linker.
var version string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	klog.SetLogger(logr.Discard()) // a watch that the user may not make is repeated, and must not fill the screen with errors
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	root := command.New(streams)
	root.Version = version // empty: there is no flag --version
	err := root.ExecuteContext(ctx)
	if err != nil {
		fmt.Fprint(os.Stderr, command.ErrorText(err))
	}
	os.Exit(command.ExitCode(err)) // the process ends, so stop need not run
}
