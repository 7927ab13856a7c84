// Package main is a CSI driver for the local cluster. Each volume is a file of the claimed size with a file system of its own, behind a
// loop device: `df` in a pod shows the size of the volume, and a full volume is full.
//
//	in    calls of the CSI sidecars and of the kubelet on two unix sockets
//	do    create, copy, grow and remove files; attach and detach loop devices; mount and unmount
//	out   volume records in JSON beside the data, so that a restarted driver continues
//
// Like a cloud's driver it refuses what would be wrong there: staging a volume that is not attached, detaching or deleting one that is
// staged.
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

// options are the flags.
type options struct {
	name         string // of the driver in StorageClasses
	node         string // the name of the node that this machine is
	folder       string // for volumes and snapshots
	endpoint     string // the socket for CSI calls
	registration string // the socket by which the kubelet finds the driver
	attach       bool   // volumes have to be attached before they are staged
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
	flag.StringVar(&o.node, "node", "", "the name of the node that this machine is")
	flag.StringVar(&o.folder, "folder", "", "the folder for volumes and snapshots")
	flag.StringVar(&o.endpoint, "endpoint", "", "the path of the socket for CSI calls")
	flag.StringVar(&o.registration, "registration", "", "the path of the socket in the kubelet's folder plugins_registry")
	flag.BoolVar(&o.attach, "attach", true, "volumes have to be attached before they are used")
	flag.BoolVar(&o.offline, "offline", false, "volumes grow only while no node uses them")
	flag.Parse()
	return o
}

func run(ctx context.Context, o options) error {
	for _, value := range []string{o.name, o.node, o.folder, o.endpoint, o.registration} {
		if value == "" {
			return errors.New("the flags --name, --node, --folder, --endpoint and --registration are needed")
		}
	}
	syscall.Umask(0o077) // sockets and data are root's alone
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
	// The kubelet calls the driver as soon as it finds the second socket, so the first comes before it.
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

// listen opens a socket. One that a killed process left is removed first.
func listen(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	return net.Listen("unix", path)
}
