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

	"drydock.dev/test/cluster/build"
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

// kubernetesVersion is the version of k8s.io/kubernetes in go.mod. The linker writes it into the binary, because clients reject a server
// without a version.
const kubernetesVersion = "v1.35.4"

// places holds the folders of this command.
type places struct {
	module string // the sources of this module
	state  string // .cluster
}

// findPlaces must run in the module's folder, as `go run -C` does.
func findPlaces() (places, error) {
	module, err := os.Getwd()
	if err != nil {
		return places{}, fmt.Errorf("finding the working folder: %w", err)
	}
	if _, err := os.Stat(filepath.Join(module, "kube", "main.go")); err != nil {
		return places{}, errors.New("the working folder is not test/cluster. " +
			"Run `go run -C test/cluster .` in the root of the repository")
	}
	return places{module: module, state: filepath.Join(filepath.Dir(filepath.Dir(module)), ".cluster")}, nil
}

func (p places) cluster(size config.Size) config.Cluster {
	return config.Cluster{Size: size, State: p.state}
}

func (p places) bin() string     { return filepath.Join(p.state, "bin") }
func (p places) kubectl() string { return filepath.Join(p.bin(), "kubectl") }

// csiFolder returns the folder of the CSI driver's module, which also requires the sidecars.
func (p places) csiFolder() string { return filepath.Join(p.module, "csi") }

func (p places) builder() build.Builder {
	return build.Builder{Bin: p.bin(), Step: step, Say: say}
}

// kube returns the build of Kubernetes' programs and etcd.
func (p places) kube() build.Program {
	const version = "k8s.io/component-base/version"
	flags := fmt.Sprintf("-X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=1 -X %[1]s.gitMinor=35 "+
		"-X %[1]s.gitTreeState=clean -X %[1]s.gitCommit=none", version, kubernetesVersion)
	return build.Program{Name: "kube", Module: p.module, Folder: "kube", Flags: flags,
		Title: "Kubernetes " + kubernetesVersion + " (some minutes the first time)"}
}

// binaries compiles the programs of the cluster, one at a time, because each compile uses all processors.
func (p places) binaries(ctx context.Context, size config.Size) (config.Binaries, error) {
	b := config.Binaries{Containerd: "/usr/bin/containerd"}
	programs := []struct {
		program build.Program
		path    *string
	}{{p.kube(), &b.Kube}}
	if size == config.Node {
		programs = append(programs, []struct {
			program build.Program
			path    *string
		}{
			{build.Program{Name: "dns", Module: filepath.Join(p.module, "dns"), Title: "CoreDNS"}, &b.DNS},
			{build.Program{Name: "csi-driver", Module: p.csiFolder(), Folder: "driver", Title: "the CSI driver"}, &b.CSIDriver},
			{build.Program{Name: "csi-sidecars", Module: p.csiFolder(), Packages: config.Sidecars,
				Title: "the CSI sidecars (some minutes the first time)"}, &b.Sidecars},
		}...)
	}
	for _, each := range programs {
		path, err := p.builder().Ensure(ctx, each.program)
		if err != nil {
			return b, err
		}
		*each.path = path
	}
	return b, p.linkKubectl(b.Kube)
}

// linkKubectl links kubectl to a path that does not depend on its version.
func (p places) linkKubectl(kube string) error {
	if target, err := os.Readlink(p.kubectl()); err == nil && target == filepath.Base(kube) {
		return nil
	}
	next := p.kubectl() + ".next"
	_ = os.Remove(next) // left by a killed run
	if err := os.Symlink(filepath.Base(kube), next); err != nil {
		return fmt.Errorf("linking kubectl: %w", err)
	}
	if err := os.Rename(next, p.kubectl()); err != nil {
		return fmt.Errorf("linking kubectl: %w", err)
	}
	return nil
}
