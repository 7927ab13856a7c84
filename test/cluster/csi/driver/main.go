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
	"path"
	"sync"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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

// driver holds the state that the CSI services share.
type driver struct {
	options
	store store
	disk  disk
	locks *locks
}

func newDriver(o options) *driver {
	return &driver{options: o, store: store{folder: o.folder}, locks: &locks{held: map[string]chan struct{}{}}}
}

// locks serializes the calls for a volume or a snapshot.
type locks struct {
	mutex sync.Mutex
	held  map[string]chan struct{} // closed by the holder's release
}

// take waits until no other call uses the id. If the context ends first, it returns Aborted, so that the caller retries, as the CSI
// specification requires.
func (l *locks) take(ctx context.Context, id string) (release func(), err error) {
	for {
		l.mutex.Lock()
		busy, taken := l.held[id]
		if !taken {
			l.held[id] = make(chan struct{})
			l.mutex.Unlock()
			return func() { l.release(id) }, nil
		}
		l.mutex.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, status.Errorf(codes.Aborted, "another call uses %s", id)
		}
	}
}

func (l *locks) release(id string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	close(l.held[id])
	delete(l.held, id)
}

// quietCalls lists frequent calls, which are logged only if they fail.
var quietCalls = map[string]bool{
	"Probe": true, "GetPluginInfo": true, "GetPluginCapabilities": true, "ControllerGetCapabilities": true,
	"NodeGetCapabilities": true, "NodeGetVolumeStats": true, "NodeGetInfo": true,
}

// logged logs each call. It gives errors of commands a gRPC code, so that callers retry.
func logged(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	call, start := path.Base(info.FullMethod), time.Now()
	response, err := handle(ctx, request)
	if err != nil && status.Code(err) == codes.Unknown {
		err = status.Error(codes.Internal, err.Error())
	}
	var id string
	if r, ok := request.(interface{ GetVolumeId() string }); ok {
		id = r.GetVolumeId()
	} else if r, ok := request.(interface{ GetName() string }); ok {
		id = r.GetName()
	}
	if err != nil || !quietCalls[call] {
		slog.Info(call, "id", id, "took", time.Since(start).Round(time.Millisecond), "err", err)
	}
	return response, err
}

// topologyKey is the node label that the scheduler compares with the volume's topology.
const topologyKey = "kubernetes.io/hostname"

// identity describes the driver.
type identity struct {
	csi.UnimplementedIdentityServer
	*driver
}

// GetPluginInfo returns the driver's name.
func (i identity) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: i.name, VendorVersion: "1"}, nil
}

// GetPluginCapabilities returns the properties of all volumes: each is on one node, and grows online or offline.
func (i identity) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	service := func(t csi.PluginCapability_Service_Type) *csi.PluginCapability {
		return &csi.PluginCapability{Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: t}}}
	}
	expansion := csi.PluginCapability_VolumeExpansion_ONLINE
	if i.offline {
		expansion = csi.PluginCapability_VolumeExpansion_OFFLINE
	}
	return &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{
		service(csi.PluginCapability_Service_CONTROLLER_SERVICE),
		service(csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS),
		{Type: &csi.PluginCapability_VolumeExpansion_{VolumeExpansion: &csi.PluginCapability_VolumeExpansion{Type: expansion}}},
	}}, nil
}

// Probe reports that the driver is ready.
func (i identity) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

func (d *driver) topology() *csi.Topology {
	return &csi.Topology{Segments: map[string]string{topologyKey: d.node}}
}

// registrar is the service that the kubelet calls on the registration socket.
type registrar struct {
	registration.UnsafeRegistrationServer
	*driver
}

// GetInfo returns the socket for CSI calls.
func (r registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: r.name, Endpoint: r.endpoint,
		SupportedVersions: []string{"1.0.0"}}, nil
}

// NotifyRegistrationStatus logs the result of the kubelet's registration.
func (r registrar) NotifyRegistrationStatus(
	_ context.Context, s *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	slog.Info("The kubelet has answered", "registered", s.PluginRegistered, "problem", s.Error)
	return &registration.RegistrationStatusResponse{}, nil
}
