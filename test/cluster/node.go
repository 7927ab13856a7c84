package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"drydock.dev/test/cluster/config"
	"drydock.dev/test/cluster/host"
)

// node starts what runs pods, and imports the images that are always there.
func (p places) node(ctx context.Context, r runner) error {
	c := r.cluster
	if err := c.WriteNodeFiles(); err != nil {
		return err
	}
	if err := r.makeFolders("containerd", "kubelet", "volumes"); err != nil {
		return err
	}
	if err := host.MakeCgroup(config.CgroupRoot); err != nil {
		return err
	}
	containerd, kubelet := c.Containerd(r.binaries), c.Kubelet(r.binaries)
	others := []config.Component{c.Scheduler(r.binaries), c.Proxy(r.binaries), c.DNS(r.binaries), c.VolumeProvisioner(r.binaries)}
	for _, component := range append([]config.Component{containerd}, others...) {
		if err := r.start(ctx, component); err != nil {
			return err
		}
	}
	runtime := runtime{c.ContainerdSocket()}
	if err := waitFor(ctx, c, containerd, "containerd", startDeadline, runtime.ready); err != nil {
		return err
	}
	if err := p.importBaseImages(ctx, runtime); err != nil {
		return err
	}
	if err := r.start(ctx, kubelet); err != nil {
		return err
	}
	return r.nodeReady(ctx, kubelet, others)
}

// nodeReady waits until pods can run, and have names, addresses and volumes.
func (r runner) nodeReady(ctx context.Context, kubelet config.Component, others []config.Component) error {
	api, err := newAPI(r.cluster)
	if err != nil {
		return err
	}
	if err := waitFor(ctx, r.cluster, kubelet, "the node", startDeadline, api.nodeReady); err != nil {
		return err
	}
	dns := r.cluster.DNS(r.binaries)
	if err := waitFor(ctx, r.cluster, dns, "DNS by its Service", startDeadline, lookUpAPIServer); err != nil {
		return err
	}
	processes, err := host.Processes(r.cluster.Dir())
	if err != nil {
		return err
	}
	for _, component := range others {
		if !host.Running(processes, component.Name, component.Binary) {
			return withLog(r.cluster, component.Name, fmt.Errorf("%s ended", component.Name))
		}
	}
	return nil
}

// lookUpAPIServer asks DNS at the address of its Service, so it also shows that kube-proxy works.
func lookUpAPIServer(ctx context.Context) error {
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, network, net.JoinHostPort(config.DNSService, "53"))
	}}
	addresses, err := resolver.LookupHost(ctx, "kubernetes.default.svc."+config.DNSDomain+".")
	if err != nil {
		return fmt.Errorf("looking up the API server's Service: %w", err)
	}
	if len(addresses) != 1 || addresses[0] != config.APIService {
		return errors.New("the API server's Service has another address in DNS")
	}
	return nil
}
