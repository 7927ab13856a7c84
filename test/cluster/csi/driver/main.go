// Package main is a CSI driver for the local cluster. Each volume is a file of the claimed size with its own file system, behind a loop
// device. Therefore `df` in a pod shows the size of the volume, and a volume can be full.
//
//	in    calls of the CSI sidecars and of the kubelet on two unix sockets
//	do    create, copy, grow and remove files; attach and detach loop devices; mount and unmount
//	out   volume records in JSON beside the data, so that a restarted driver continues
//
// Like a cloud provider's driver it refuses dangerous calls: staging an unattached volume, and detaching or deleting a staged volume.
package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// options holds the flags.
type options struct {
	name         string // the driver's name in StorageClasses
	node         string // this machine's node name
	folder       string // folder for volumes and snapshots
	endpoint     string // the socket for CSI calls
	registration string // the socket that the kubelet uses to discover the driver
	attach       bool   // volumes must be attached before they are staged
	offline      bool   // volumes grow only while no node uses them
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, parse()); err != nil {
		slog.Error("The CSI driver ended", "err", err)
		os.Exit(1)
	}
}

func parse() options {
	var o options
	flag.StringVar(&o.name, "name", "", "the driver's name in StorageClasses")
	flag.StringVar(&o.node, "node", "", "this machine's node name")
	flag.StringVar(&o.folder, "folder", "", "the folder for volumes and snapshots")
	flag.StringVar(&o.endpoint, "endpoint", "", "the path of the socket for CSI calls")
	flag.StringVar(&o.registration, "registration", "", "the path of the socket in the kubelet's folder plugins_registry")
	flag.BoolVar(&o.attach, "attach", true, "volumes must be attached before they are used")
	flag.BoolVar(&o.offline, "offline", false, "volumes grow only while no node uses them")
	flag.Parse()
	return o
}

func run(ctx context.Context, o options) error {
	for _, value := range []string{o.name, o.node, o.folder, o.endpoint, o.registration} {
		if value == "" {
			return errors.New("a flag is missing. Set --name, --node, --folder, --endpoint and --registration")
		}
	}
	syscall.Umask(0o077) // only root may access sockets and data
	d := newDriver(o)
	if err := d.thawAll(ctx); err != nil {
		return err
	}
	calls, plugins := grpc.NewServer(grpc.UnaryInterceptor(logged)), grpc.NewServer()
	csi.RegisterIdentityServer(calls, identity{driver: d})
	csi.RegisterControllerServer(calls, controller{driver: d})
	csi.RegisterNodeServer(calls, node{driver: d})
	registration.RegisterRegistrationServer(plugins, registrar{driver: d})
	ended := make(chan error, 2)
	// The kubelet calls the driver as soon as it discovers the second socket. Therefore the first one is opened before.
	for _, each := range []struct {
		server *grpc.Server
		path   string
	}{{calls, o.endpoint}, {plugins, o.registration}} {
		socket, err := listen(each.path)
		if err != nil {
			return err
		}
		go func() { ended <- each.server.Serve(socket) }()
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		plugins.GracefulStop()
		calls.GracefulStop()
		return nil
	}
}

// listen opens a socket. It first removes the socket of a killed process.
func listen(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	return net.Listen("unix", path)
}
