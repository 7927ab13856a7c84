package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"drydock.dev/test/cluster/config"
	"drydock.dev/test/cluster/host"
)

// runner starts the components of one cluster.
type runner struct {
	cluster  config.Cluster
	binaries config.Binaries
	kubectl  string
}

// start starts a component unless it already runs with this binary. It first ends a process of the component with another binary.
func (r runner) start(ctx context.Context, component config.Component) error {
	processes, err := host.Processes(r.cluster.Dir())
	if err != nil {
		return err
	}
	if host.Running(processes, component.Name, component.Binary) {
		return nil
	}
	if err := host.Kill(ctx, r.cluster.Dir(), component.Name, component.Binary); err != nil {
		return err
	}
	return host.Start(r.cluster.Dir(), component.Name, component.Binary, component.Args, component.Env, r.cluster.Log(component.Name))
}

// controlPlane starts etcd, the API server and the controllers, waits until they work, and applies the cluster's own objects.
func (r runner) controlPlane(ctx context.Context) error {
	c := r.cluster
	if err := c.WriteCredentials(); err != nil {
		return err
	}
	if err := c.WriteKubeconfigs(); err != nil {
		return err
	}
	if c.Size == config.Node {
		if err := host.MakeLink(ctx, config.NodeLink, config.NodeAddress, config.ServiceRange); err != nil {
			return err
		}
	}
	etcd, server, controllers := c.Etcd(r.binaries), c.APIServerComponent(r.binaries), c.ControllerManager(r.binaries)
	for _, component := range []config.Component{etcd, server} {
		if err := r.start(ctx, component); err != nil {
			return err
		}
	}
	api, err := newAPI(c)
	if err != nil {
		return err
	}
	if err := waitFor(ctx, c, server, "the API server", startDeadline, api.ready); err != nil {
		return err
	}
	if err := r.start(ctx, controllers); err != nil {
		return err
	}
	if err := r.applyManifests(ctx); err != nil {
		return err
	}
	const account = "/api/v1/namespaces/default/serviceaccounts/default"
	if err := waitFor(ctx, c, controllers, "the controllers", startDeadline, api.has(account)); err != nil {
		return err
	}
	return r.allRun([]config.Component{etcd, server, controllers})
}

// allRun returns an error if one of the components has ended, for example while controlPlane waited for another one.
func (r runner) allRun(components []config.Component) error {
	processes, err := host.Processes(r.cluster.Dir())
	if err != nil {
		return err
	}
	for _, component := range components {
		if !host.Running(processes, component.Name, component.Binary) {
			return withLog(r.cluster, component.Name, fmt.Errorf("%s ended", component.Name))
		}
	}
	return nil
}

// applyManifests creates or updates the cluster's own objects with kubectl apply.
func (r runner) applyManifests(ctx context.Context) error {
	manifests, err := r.cluster.Manifests()
	if err != nil {
		return err
	}
	return step("applying the cluster's objects", func() error {
		_, err := host.RunWithInput(ctx, manifests, r.kubectl, "--kubeconfig", r.cluster.Kubeconfig(),
			"apply", "--server-side", "--force-conflicts", "--field-manager=drydock-cluster", "-f", "-")
		if err != nil {
			return fmt.Errorf("applying the cluster's objects: %w", err)
		}
		return nil
	})
}

// makeFolders creates folders in the cluster's folder.
func (r runner) makeFolders(names ...string) error {
	for _, name := range names {
		if err := os.MkdirAll(r.cluster.Path(name), 0o755); err != nil {
			return fmt.Errorf("making the folder %s: %w", name, err)
		}
	}
	return nil
}

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

// drivers applies the snapshot kinds and starts the CSI drivers with their sidecars.
func (p places) drivers(ctx context.Context, r runner) ([]config.Component, error) {
	if err := p.applySnapshotKinds(ctx, r); err != nil {
		return nil, err
	}
	controller := r.cluster.SnapshotController(r.binaries)
	if err := r.start(ctx, controller); err != nil {
		return nil, err
	}
	all := []config.Component{controller}
	for _, d := range config.Drivers {
		started, err := r.startDriver(ctx, d)
		if err != nil {
			return nil, err
		}
		all = append(all, started...)
	}
	return all, nil
}

// startDriver starts a driver and its sidecars. A sidecar exits when its driver restarts, so it first ends the sidecars of a replaced
// driver.
func (r runner) startDriver(ctx context.Context, d config.Driver) ([]config.Component, error) {
	driver, sidecars := r.cluster.CSIDriver(r.binaries, d), r.cluster.DriverSidecars(r.binaries, d)
	processes, err := host.Processes(r.cluster.Dir())
	if err != nil {
		return nil, err
	}
	if !host.Running(processes, driver.Name, driver.Binary) {
		for _, sidecar := range sidecars {
			if err := host.Kill(ctx, r.cluster.Dir(), sidecar.Name, ""); err != nil {
				return nil, err
			}
		}
	}
	all := append([]config.Component{driver}, sidecars...)
	for _, component := range all {
		if err := r.start(ctx, component); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// applySnapshotKinds applies the snapshotter's custom resource definitions, then objects of these kinds.
func (p places) applySnapshotKinds(ctx context.Context, r runner) error {
	modules, err := modulesOf(ctx, p.csiFolder(), config.SnapshotModule)
	if err != nil {
		return err
	}
	if len(modules) != 1 {
		return fmt.Errorf("found %d modules with the path %s, want 1", len(modules), config.SnapshotModule)
	}
	var files []string
	for _, name := range config.SnapshotDefinitions {
		files = append(files, "-f", filepath.Join(modules[0].Dir, name))
	}
	classes, err := r.cluster.SnapshotClasses()
	if err != nil {
		return err
	}
	k := kubectl{r.kubectl, r.cluster.Kubeconfig(), ""}
	apply := []string{"apply", "--server-side", "--force-conflicts", "--field-manager=drydock-cluster"}
	return step("applying the snapshot kinds", func() error {
		if _, err := k.run(ctx, append(slices.Clone(apply), files...)...); err != nil {
			return fmt.Errorf("applying the snapshot kinds: %w", err)
		}
		if _, err := k.run(ctx, append([]string{"wait", "--for=condition=Established", "--timeout=60s"}, files...)...); err != nil {
			return fmt.Errorf("waiting for the snapshot kinds: %w", err)
		}
		_, err := k.runWithInput(ctx, classes, append(apply, "-f", "-")...)
		return err
	})
}

// driversRegistered waits until the kubelet has registered all drivers. Pods with their volumes cannot start before that.
func (r runner) driversRegistered(ctx context.Context, kubelet config.Component) error {
	api, err := newAPI(r.cluster)
	if err != nil {
		return err
	}
	return waitFor(ctx, r.cluster, kubelet, "the CSI drivers", startDeadline, func(ctx context.Context) error {
		var node struct {
			Spec struct{ Drivers []struct{ Name string } }
		}
		if err := api.get(ctx, "/apis/storage.k8s.io/v1/csinodes/"+config.NodeName, &node); err != nil {
			return err
		}
		var missing []error
		for _, d := range config.Drivers {
			if !slices.Contains(node.Spec.Drivers, struct{ Name string }{d.Name}) {
				missing = append(missing, fmt.Errorf("driver %s is not registered", d.Name))
			}
			if _, err := os.Stat(r.cluster.DriverSocket(d)); err != nil {
				missing = append(missing, err)
			}
		}
		return errors.Join(missing...)
	})
}
