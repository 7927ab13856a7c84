// Package main runs a real Kubernetes on this machine, for tests and for experiments:
//
//	go run -C test/cluster . up [--size=node|control-plane]
//	go run -C test/cluster . down [--size=node|control-plane]    both without --size
//	go run -C test/cluster . status
//	go run -C test/cluster . image [--binary=../../bin/drydock]  build and import an image of the product: dev.local/NAME:dev
//	go run -C test/cluster . redis-image                         build and import an image of Debian's Redis: dev.local/redis:dev
//	go run -C test/cluster . verify                              check that the node works
//	go run -C test/cluster . knative                             install Knative on the node; with KUBECONFIG set, check that cluster
//	go run -C test/cluster . verify-knative                      check that Knative works
//	go run -C test/cluster . kubectl-path
//
// All files are in .cluster in the root of the repository. .cluster/kubeconfig selects the node, .cluster/control-plane/kubeconfig the
// control plane without a node.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"drydock.dev/test/cluster/config"
	"drydock.dev/test/cluster/host"
)

const usage = "usage: cluster up|down|status|image|redis-image|verify|knative|verify-knative|kubectl-path " +
	"[--size=node|control-plane] [--binary=PATH]"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

// options holds the flags of all commands.
type options struct {
	size   string
	binary string
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	var o options
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.StringVar(&o.size, "size", "", "node or control-plane")
	flags.StringVar(&o.binary, "binary", filepath.Join("..", "..", "bin", "drydock"), "a static binary of the product")
	if err := flags.Parse(args[1:]); err != nil {
		return fmt.Errorf("reading the flags of %s: %w", args[0], err)
	}
	if foreign := args[0] == "knative" && os.Getenv("KUBECONFIG") != ""; !foreign {
		if err := host.CheckSystem(); err != nil {
			return err
		}
	}
	if err := bypassProxy(); err != nil {
		return err
	}
	places, err := findPlaces()
	if err != nil {
		return err
	}
	return places.do(ctx, args[0], o)
}

func (p places) do(ctx context.Context, command string, o options) error {
	switch command {
	case "up":
		size, err := config.ParseSize(orDefault(o.size, config.Node))
		if err != nil {
			return err
		}
		return p.up(ctx, p.cluster(size))
	case "down":
		return p.downSizes(ctx, o.size)
	case "status":
		return p.status(ctx)
	case "image":
		return p.importProduct(ctx, o.binary)
	case "redis-image":
		return p.importRedis(ctx)
	case "verify":
		return p.verify(ctx)
	case "knative":
		return p.knative(ctx)
	case "verify-knative":
		return p.verifyKnative(ctx)
	case "kubectl-path":
		return p.printKubectl()
	}
	return fmt.Errorf("unknown command %q\n%s", command, usage)
}

func orDefault(text string, size config.Size) string {
	if text == "" {
		return string(size)
	}
	return text
}

// bypassProxy excludes the cluster's addresses from the proxy that the environment may set.
func bypassProxy() error {
	inside := strings.Join([]string{"127.0.0.1", config.NodeAddress, config.PodRange, config.ServiceRange}, ",")
	for _, variable := range []string{"NO_PROXY", "no_proxy"} {
		if err := os.Setenv(variable, strings.Trim(os.Getenv(variable)+","+inside, ",")); err != nil {
			return fmt.Errorf("setting %s: %w", variable, err)
		}
	}
	return nil
}

// printKubectl prints the path of the cluster's kubectl.
func (p places) printKubectl() error {
	if _, err := os.Stat(p.kubectl()); err != nil {
		return fmt.Errorf("the cluster's kubectl does not exist yet. Run `up` first: %w", err)
	}
	fmt.Println(p.kubectl())
	return nil
}
