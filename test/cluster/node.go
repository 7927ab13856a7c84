package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"drydock.dev/test/cluster/config"
	"drydock.dev/test/cluster/host"
)

// node starts the components of the node, and imports the base images.
func (p places) node(ctx context.Context, r runner) error {
	c := r.cluster
	if err := c.WriteNodeFiles(); err != nil {
		return err
	}
	if err := r.makeFolders("containerd", filepath.Join("kubelet", "plugins_registry"), "volumes", "csi"); err != nil {
		return err
	}
	if err := host.MakeCgroup(config.CgroupRoot); err != nil {
		return err
	}
	containerd, kubelet := c.Containerd(r.binaries), c.Kubelet(r.binaries)
	others := []config.Component{c.Scheduler(r.binaries), c.Proxy(r.binaries), c.DNS(r.binaries)}
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
	drivers, err := p.drivers(ctx, r)
	if err != nil {
		return err
	}
	if err := r.start(ctx, kubelet); err != nil {
		return err
	}
	if err := r.nodeReady(ctx, kubelet); err != nil {
		return err
	}
	if err := r.driversRegistered(ctx, kubelet); err != nil {
		return err
	}
	return r.allRun(append(append(others, containerd, kubelet), drivers...))
}

// nodeReady waits until pods can run and DNS answers.
func (r runner) nodeReady(ctx context.Context, kubelet config.Component) error {
	api, err := newAPI(r.cluster)
	if err != nil {
		return err
	}
	if err := waitFor(ctx, r.cluster, kubelet, "the node", startDeadline, func(ctx context.Context) error {
		return nodeHealthy(ctx, r.cluster, api)
	}); err != nil {
		return err
	}
	return waitFor(ctx, r.cluster, r.cluster.DNS(r.binaries), "DNS by its Service", startDeadline, lookUpAPIServer)
}

// nodeHealthy also asks the kubelet itself, because the API server shows a stale status for a while after a kubelet has ended.
func nodeHealthy(ctx context.Context, c config.Cluster, a api) error {
	if err := healthy(ctx, c.KubeletHealth()); err != nil {
		return err
	}
	return a.nodeReady(ctx)
}

// lookUpAPIServer queries DNS at its Service's address, so that it also checks kube-proxy.
func lookUpAPIServer(ctx context.Context) error {
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, network, net.JoinHostPort(config.DNSService, "53"))
	}}
	ctx, cancel := context.WithTimeout(ctx, time.Second) // a query before kube-proxy's first rule gets no answer
	defer cancel()
	addresses, err := resolver.LookupHost(ctx, "kubernetes.default.svc."+config.DNSDomain+".")
	if err != nil {
		return fmt.Errorf("looking up the API server's Service: %w", err)
	}
	if len(addresses) != 1 || addresses[0] != config.APIService {
		return errors.New("DNS has a wrong address for the API server's Service")
	}
	return nil
}
